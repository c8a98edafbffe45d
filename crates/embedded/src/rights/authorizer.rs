//! The decision, as `StandardAuthorizerData` makes it.
//!
//! Does not know requests or connections.

use std::collections::BTreeSet;

use super::acl::{Acl, AclFilter, Operation, Pattern, Permission, Resource};

/// How rights are decided on.
#[derive(Clone, Debug, Default)]
pub struct AuthorizerOptions {
    /// `super.users`: who may do everything, as `User:admin`.
    pub super_users: Vec<String>,
    /// `allow.everyone.if.no.acl.found`: what no ACL names is free for all.
    pub allow_everyone_if_no_acl_found: bool,
}

/// The ACLs of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Acls(BTreeSet<Acl>);

impl Acls {
    pub(crate) fn add(&mut self, acl: Acl) {
        self.0.insert(acl);
    }

    pub(crate) fn remove(&mut self, acl: &Acl) -> bool {
        self.0.remove(acl)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Acl> {
        self.0.iter()
    }

    /// The ACLs that a filter selects, in order of their resources.
    pub(crate) fn select(&self, filter: &AclFilter<'_>) -> Vec<Acl> {
        self.0.iter().filter(|acl| filter.selects(acl)).cloned().collect()
    }

    /// Whether somebody may do something to one resource.
    pub(crate) fn allows(
        &self,
        options: &AuthorizerOptions,
        (principal, host): (&str, &str),
        operation: Operation,
        resource: Resource,
        name: &str,
    ) -> bool {
        if options.super_users.iter().any(|known| known == principal) {
            return true;
        }
        let (mut named, mut allowed) = (false, false);
        for acl in self.0.iter().filter(|acl| acl.names(resource, name)) {
            named = true;
            if !acl.is_about(principal, host) || !covers(acl, operation) {
                continue;
            }
            match acl.permission {
                Permission::Deny => return false,
                Permission::Allow => allowed = true,
            }
        }
        allowed || (!named && options.allow_everyone_if_no_acl_found)
    }

    /// Whether there is a resource of a kind to which somebody may do something
    /// (`Authorizer.authorizeByResourceType`, KIP-679). Nothing is implied here.
    pub(crate) fn allows_some(
        &self,
        options: &AuthorizerOptions,
        peer: (&str, &str),
        operation: Operation,
        resource: Resource,
    ) -> bool {
        // A name that nobody has: super users, and everybody where no ACL is found.
        if self.allows(options, peer, operation, resource, "hardcode") {
            return true;
        }
        let meant: Vec<&Acl> = self
            .0
            .iter()
            .filter(|acl| acl.resource == resource && acl.is_about(peer.0, peer.1))
            .filter(|acl| acl.operation == operation || acl.operation == Operation::All)
            .collect();
        let (allow, deny): (Vec<&Acl>, Vec<&Acl>) =
            meant.into_iter().partition(|acl| acl.permission == Permission::Allow);
        let everything = |acl: &&Acl| acl.pattern == Pattern::Literal && acl.name == "*";
        if deny.iter().any(everything) {
            return false;
        }
        let overruled = |allowed: &&Acl| {
            deny.iter().any(|denied| match denied.pattern {
                Pattern::Prefixed => allowed.name.starts_with(&denied.name),
                Pattern::Literal => {
                    allowed.pattern == Pattern::Literal && allowed.name == denied.name
                }
            })
        };
        allow.iter().any(|acl| everything(acl) || !overruled(acl))
    }
}

/// Whether an entry speaks of an operation. What is allowed implies more, what is denied does not.
fn covers(acl: &Acl, operation: Operation) -> bool {
    use Operation as O;
    if acl.operation == O::All || acl.operation == operation {
        return true;
    }
    acl.permission == Permission::Allow
        && match operation {
            O::Describe => matches!(acl.operation, O::Read | O::Write | O::Delete | O::Alter),
            O::DescribeConfigs => acl.operation == O::AlterConfigs,
            _ => false,
        }
}
