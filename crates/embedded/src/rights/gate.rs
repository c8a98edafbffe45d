//! The rights of one connection, and how a request passes.

use twinlog_protocol::Request;

use super::acl::{CLUSTER_NAME, Operation, Resource};
use crate::state::State;

/// What stands for "nobody asked" in `authorizedOperations`.
const NOT_ASKED: i32 = i32::MIN;

/// Who speaks on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// `User:alice`.
    pub principal: String,
    /// The address it connects from.
    pub host: String,
}

impl Peer {
    /// Who did not have to log in.
    pub(crate) fn anonymous(host: &str) -> Self {
        Self { principal: "User:ANONYMOUS".to_owned(), host: host.to_owned() }
    }
}

/// What somebody may do at this moment. Without an authorizer: everything.
pub(crate) struct Gate<'a> {
    pub state: &'a State,
    pub peer: &'a Peer,
    pub version: i16,
}

impl Gate<'_> {
    pub(crate) fn allows(&self, operation: Operation, resource: Resource, name: &str) -> bool {
        self.state.options.authorizer.as_ref().is_none_or(|options| {
            let peer = (self.peer.principal.as_str(), self.peer.host.as_str());
            self.state.acls.allows(options, peer, operation, resource, name)
        })
    }

    pub(crate) fn on_topic(&self, operation: Operation, topic: &str) -> bool {
        self.allows(operation, Resource::Topic, topic)
    }

    pub(crate) fn on_group(&self, operation: Operation, group: &str) -> bool {
        self.allows(operation, Resource::Group, group)
    }

    pub(crate) fn on_cluster(&self, operation: Operation) -> bool {
        self.allows(operation, Resource::Cluster, CLUSTER_NAME)
    }

    pub(crate) fn on_transactional_id(&self, operation: Operation, id: &str) -> bool {
        self.allows(operation, Resource::TransactionalId, id)
    }

    /// Whether there is a resource of a kind on which the operation is allowed.
    pub(crate) fn allows_some(&self, operation: Operation, resource: Resource) -> bool {
        self.state.options.authorizer.as_ref().is_none_or(|options| {
            let peer = (self.peer.principal.as_str(), self.peer.host.as_str());
            self.state.acls.allows_some(options, peer, operation, resource)
        })
    }

    /// The bits of the allowed operations (KIP-430), or what stands for "nobody asked".
    pub(crate) fn operations(&self, asked: bool, resource: Resource, name: &str) -> i32 {
        if !asked {
            return NOT_ASKED;
        }
        let allowed = resource
            .operations()
            .iter()
            .filter(|&&operation| self.allows(operation, resource, name));
        allowed.fold(0, |bits, operation| bits | 1 << operation.code())
    }

    /// The topic that a request means, where there is one of this id; else the name it carries.
    pub(crate) fn topic_name(&self, name: &str, id: [u8; 16]) -> Option<String> {
        if id == [0; 16] {
            return Some(name.to_owned());
        }
        self.state.name_of(id).map(str::to_owned)
    }
}

/// What is done to an answer before it is sent.
pub(crate) type Amend<R> = Box<dyn FnOnce(&mut <R as Request>::Response, &Gate<'_>) + Send>;

/// What becomes of a request.
pub(crate) enum Verdict<R: Request> {
    /// It is served as it is.
    Serve,
    /// What is left of it is served, and the answer amended.
    Amend(Amend<R>),
    /// It is not served: this is the answer.
    Answer(R::Response),
    /// It is not served, and there is no answer that could say so.
    Close,
}

impl<R: Request> Verdict<R> {
    pub(crate) fn amend(amend: impl FnOnce(&mut R::Response, &Gate<'_>) + Send + 'static) -> Self {
        Self::Amend(Box::new(amend))
    }

    /// Serves what is left and adds answers for the parts that were refused.
    pub(super) fn add<T, A>(
        refused: Vec<T>,
        answer: impl Fn(T) -> A,
        list: impl FnOnce(&mut R::Response) -> &mut Vec<A> + Send + 'static,
    ) -> Self
    where
        A: Send + 'static,
    {
        if refused.is_empty() {
            return Self::Serve;
        }
        let answers: Vec<A> = refused.into_iter().map(answer).collect();
        Self::amend(move |response, _| list(response).extend(answers))
    }
}

/// A request that asks for rights.
pub(crate) trait Guarded: Request {
    /// Takes out of the request what the caller may not do.
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self>;
}

/// Takes out of `items` what is not allowed.
pub(super) fn take_refused<T>(items: &mut Vec<T>, allowed: impl Fn(&T) -> bool) -> Vec<T> {
    let (kept, refused) = std::mem::take(items).into_iter().partition(allowed);
    *items = kept;
    refused
}
