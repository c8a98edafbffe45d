//! Faults that a test plans, and what the cluster saw: requests and violations.
//!
//! A fault is a rule: which requests it is for, what happens to them, and how often. The rules are
//! asked in the order in which they were added, and the first one that fits is used up.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use twinlog_protocol::ApiKey;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is not executed, and its answer (or the answer for the partition) is this code.
    Answer(i16),
    /// It is executed, and its answer says this code all the same.
    AnswerAfterExecuting(i16),
    /// The connection closes before it is executed.
    CloseBefore,
    /// It is executed, and the connection closes instead of an answer.
    CloseAfter,
    /// The answer is sent, and then the connection closes.
    CloseBehindAnswer,
    /// It is not executed and never answered; the connection stays open and reads on.
    Ignore,
    /// It is executed and never answered; the connection stays open and reads on.
    DropAnswer,
    /// It is executed, and its answer comes this much later.
    Delay(Duration),
    /// It waits this long before it is executed.
    DelayBefore(Duration),
    /// The answer carries another correlation id.
    WrongCorrelationId,
    /// Only the first half of the answer's frame is sent, then the connection closes.
    TruncatedFrame,
    /// Produce and Fetch: the answer carries this throttle time, and the connection is muted for as
    /// long. A throttled Fetch answers nothing.
    Throttle(Duration),
}

/// A planned fault. `Fault::new(Action::…)` fits every request once; the methods narrow it down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    action: Action,
    api: Option<ApiKey>,
    broker: Option<i32>,
    client_id: Option<String>,
    partition: Option<(String, Option<i32>)>,
    skip: u32,
    times: Option<u32>,
}

impl Fault {
    /// Happens once, to the next request of any kind.
    pub fn new(action: Action) -> Self {
        Self {
            action,
            api: None,
            broker: None,
            client_id: None,
            partition: None,
            skip: 0,
            times: Some(1),
        }
    }

    /// Only requests of this API.
    pub fn api(mut self, api: ApiKey) -> Self {
        self.api = Some(api);
        self
    }

    /// Only requests to this broker.
    pub fn broker(mut self, broker: i32) -> Self {
        self.broker = Some(broker);
        self
    }

    /// Only requests of this client id.
    pub fn client_id(mut self, client_id: &str) -> Self {
        self.client_id = Some(client_id.to_owned());
        self
    }

    /// Only requests that name this topic. A code then stands at its partitions only.
    pub fn topic(mut self, topic: &str) -> Self {
        self.partition = Some((topic.to_owned(), None));
        self
    }

    /// Only requests that name this partition. A code then stands at this partition only.
    pub fn partition(mut self, topic: &str, partition: i32) -> Self {
        self.partition = Some((topic.to_owned(), Some(partition)));
        self
    }

    /// Spares the first `requests` requests that fit.
    pub fn skip(mut self, requests: u32) -> Self {
        self.skip = requests;
        self
    }

    /// Happens this often.
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Happens until it is removed.
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    fn fits(&self, request: &Request<'_>) -> bool {
        self.api.is_none_or(|api| api == request.api)
            && self.broker.is_none_or(|broker| broker == request.broker)
            && self.client_id.as_deref().is_none_or(|id| Some(id) == request.client_id)
            && self.partition.as_ref().is_none_or(|(topic, partition)| {
                request.partitions.iter().any(|(named, index)| {
                    named == topic && partition.is_none_or(|wanted| wanted == *index)
                })
            })
    }
}

/// The request that faults are asked about.
pub(crate) struct Request<'a> {
    pub api: ApiKey,
    pub broker: i32,
    pub client_id: Option<&'a str>,
    pub partitions: &'a [(String, i32)],
}

/// Names a planned fault, to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(u64);

/// A fault that happens to a request now.
#[derive(Clone, Debug)]
pub(crate) struct Happening {
    pub action: Action,
    partition: Option<(String, Option<i32>)>,
}

impl Happening {
    fn covers(&self, topic: &str, partition: i32) -> bool {
        self.partition.as_ref().is_none_or(|(named, index)| {
            named == topic && index.is_none_or(|index| index == partition)
        })
    }

    /// The code this partition is answered with instead of being served.
    pub(crate) fn code(&self, topic: &str, partition: i32) -> Option<i16> {
        match self.action {
            Action::Answer(code) if self.covers(topic, partition) => Some(code),
            _ => None,
        }
    }

    /// The code this partition is answered with after it was served.
    pub(crate) fn code_after(&self, topic: &str, partition: i32) -> Option<i16> {
        match self.action {
            Action::AnswerAfterExecuting(code) if self.covers(topic, partition) => Some(code),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    planned: Vec<(FaultId, Fault)>,
    next: u64,
}

impl Faults {
    pub(crate) fn plan(&mut self, fault: Fault) -> FaultId {
        self.next += 1;
        let id = FaultId(self.next);
        self.planned.push((id, fault));
        id
    }

    pub(crate) fn remove(&mut self, id: FaultId) -> bool {
        let before = self.planned.len();
        self.planned.retain(|(known, _)| *known != id);
        self.planned.len() < before
    }

    pub(crate) fn clear(&mut self) {
        self.planned.clear();
    }

    pub(crate) fn pending(&self) -> usize {
        self.planned.len()
    }

    /// The fault that happens to `request`.
    pub(crate) fn take(&mut self, request: &Request<'_>) -> Option<Happening> {
        for index in 0..self.planned.len() {
            let fault = &mut self.planned[index].1;
            if !fault.fits(request) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            let happening =
                Happening { action: fault.action.clone(), partition: fault.partition.clone() };
            if let Some(times) = &mut fault.times {
                *times = times.saturating_sub(1);
                if *times == 0 {
                    self.planned.remove(index);
                }
            }
            return Some(happening);
        }
        None
    }
}

/// A request that a broker received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLogEntry {
    /// When.
    pub at: Instant,
    /// Which broker.
    pub broker: i32,
    /// Which connection; they are numbered through the whole cluster from 1.
    pub connection: u64,
    /// Which API.
    pub api: ApiKey,
    /// Its version.
    pub version: i16,
    /// What the client calls itself.
    pub client_id: Option<String>,
    /// The partitions it names, as far as the API names any.
    pub partitions: Vec<(String, i32)>,
    /// The groups or transactional ids it names.
    pub names: Vec<String>,
}

/// What the cluster saw.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub requests: VecDeque<RequestLogEntry>,
    pub violations: Vec<String>,
}

impl Journal {
    pub(crate) fn note(&mut self, entry: RequestLogEntry, kept: usize) {
        if self.requests.len() >= kept {
            self.requests.pop_front();
        }
        self.requests.push_back(entry);
    }
}
