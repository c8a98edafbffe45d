//! What this process knows of its flows, for logs and for whoever asks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::{info, warn};
use twinlog_client::ClientError;
use twinlog_flow::copy::Stop;
use twinlog_types::{Code, FlowName, State, TopicName, TopicPartition};

use crate::commits::Followed;

const EVENTS_MAX: usize = 200;

/// Something that happened and is worth an operator's eye.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The source partition it is about.
    pub partition: Option<TopicPartition>,
    /// The finding.
    pub code: Code,
    /// What happened, to what.
    pub text: String,
}

/// How a flow as a whole stands in this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowStanding {
    /// The state.
    pub state: State,
    /// The finding, where there is one.
    pub code: Option<Code>,
    /// Why.
    pub reason: Option<String>,
}

impl Default for FlowStanding {
    fn default() -> Self {
        Self { state: State::Waiting, code: None, reason: Some("starting".into()) }
    }
}

/// One flow on the board.
#[derive(Clone, Debug, Default)]
pub struct FlowBoard {
    /// How it stands.
    pub standing: FlowStanding,
    /// What was found about topics: why they are not copied, or not quite as configured.
    pub topics: BTreeMap<TopicName, (Code, String)>,
    /// Partitions of the source that do not go on, and why.
    pub stopped: BTreeMap<TopicPartition, Stop>,
    /// What happened, the newest last; the oldest are forgotten.
    pub events: VecDeque<Event>,
    /// Partitions that wait for the target to answer, and what it said last.
    pub waiting: BTreeMap<TopicPartition, String>,
    /// The last throttle of the source and the target.
    pub throttled: (Option<Duration>, Option<Duration>),
    /// The memory limit that holds the copy back, in bytes, while it does.
    pub memory_limited: Option<usize>,
    /// How the commits of groups are followed on the source, once that is known.
    pub commits: Option<Followed>,
    unreachable: (Option<String>, Option<String>),
}

/// All flows of this process.
#[derive(Debug, Default)]
pub struct Board {
    flows: Mutex<BTreeMap<FlowName, FlowBoard>>,
}

impl Board {
    /// A copy of everything.
    pub fn snapshot(&self) -> BTreeMap<FlowName, FlowBoard> {
        self.flows.lock().clone()
    }

    pub(crate) fn stand(&self, flow: &FlowName, state: State, code: Option<Code>, reason: &str) {
        let standing =
            FlowStanding { state, code, reason: (!reason.is_empty()).then(|| reason.to_owned()) };
        let mut flows = self.flows.lock();
        let board = flows.entry(flow.clone()).or_default();
        if board.standing == standing {
            return;
        }
        if let Some(code) = code {
            warn!(%flow, %state, %code, "{reason}");
        } else {
            info!(%flow, %state, "{reason}");
        }
        board.standing = standing;
    }

    /// The flow copies: whether it has caught up. Leaves a state that says more alone.
    pub(crate) fn progress(&self, flow: &FlowName, state: State) {
        let mut flows = self.flows.lock();
        let board = flows.entry(flow.clone()).or_default();
        if matches!(board.standing.state, State::InSync | State::CatchingUp)
            && board.standing.state != state
        {
            info!(%flow, %state, "{}", if state == State::InSync { "caught up" } else { "copying" });
            board.standing = FlowStanding { state, code: None, reason: None };
        }
    }

    /// The flow copies nothing for a while. Leaves a state that says more alone.
    pub(crate) fn pause(&self, flow: &FlowName, reason: &str) {
        let state = self.flows.lock().get(flow).map(|board| board.standing.state);
        if matches!(state, Some(State::InSync | State::CatchingUp)) {
            self.stand(flow, State::Waiting, None, reason);
        }
    }

    /// Ends the [`pause`](Self::pause) for this reason.
    pub(crate) fn go_on(&self, flow: &FlowName, reason: &str) {
        let standing = self.flows.lock().get(flow).map(|board| board.standing.clone());
        if standing.and_then(|standing| standing.reason).as_deref() == Some(reason) {
            self.stand(flow, State::CatchingUp, None, "copying");
        }
    }

    pub(crate) fn event(
        &self,
        flow: &FlowName,
        partition: Option<&TopicPartition>,
        code: Code,
        text: String,
        at_ms: i64,
    ) {
        let mut flows = self.flows.lock();
        let events = &mut flows.entry(flow.clone()).or_default().events;
        if events.len() >= EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(Event { at_ms, partition: partition.cloned(), code, text });
    }

    /// What was found about topics; says what is new.
    pub(crate) fn topics(&self, flow: &FlowName, topics: BTreeMap<TopicName, (Code, String)>) {
        let mut flows = self.flows.lock();
        let board = flows.entry(flow.clone()).or_default();
        for (topic, (code, reason)) in &topics {
            if board.topics.get(topic).is_none_or(|(before, _)| before != code) {
                warn!(%flow, %topic, %code, "{reason}");
            }
        }
        board.topics = topics;
    }

    pub(crate) fn stopped(&self, flow: &FlowName, partition: &TopicPartition, stop: Stop) {
        let mut flows = self.flows.lock();
        flows.entry(flow.clone()).or_default().stopped.insert(partition.clone(), stop);
    }

    pub(crate) fn waiting(&self, flow: &FlowName, partition: &TopicPartition, reason: String) {
        let mut flows = self.flows.lock();
        flows.entry(flow.clone()).or_default().waiting.insert(partition.clone(), reason);
    }

    pub(crate) fn goes_on(&self, flow: &FlowName, partition: &TopicPartition) {
        let mut flows = self.flows.lock();
        let board = flows.entry(flow.clone()).or_default();
        board.waiting.remove(partition);
        board.stopped.remove(partition);
    }

    pub(crate) fn commits_followed(&self, flow: &FlowName, followed: Followed) {
        self.flows.lock().entry(flow.clone()).or_default().commits = Some(followed);
    }

    pub(crate) fn throttled(&self, flow: &FlowName, source: bool, throttle: Duration) {
        let mut flows = self.flows.lock();
        let board = flows.entry(flow.clone()).or_default();
        let side = if source { &mut board.throttled.0 } else { &mut board.throttled.1 };
        if side.is_none() {
            let cluster = if source { &flow.source } else { &flow.target };
            warn!(
                %flow, code = %Code::Throttled, millis = throttle.as_millis() as u64,
                "a quota of {cluster} slows the copy"
            );
        }
        *side = Some(throttle);
    }

    /// What was fetched fills the memory that it may take (`limit`), or does not any more.
    pub(crate) fn memory(&self, flow: &FlowName, limit: Option<usize>, at_ms: i64) {
        let before = {
            let mut flows = self.flows.lock();
            let board = flows.entry(flow.clone()).or_default();
            std::mem::replace(&mut board.memory_limited, limit)
        };
        match (before, limit) {
            (None, Some(limit)) => {
                let text = format!(
                    "what is fetched and not acknowledged fills the {} MiB that it may take: nothing \
                     more is fetched from {} until {} has taken some of it",
                    limit >> 20,
                    flow.source,
                    flow.target
                );
                warn!(%flow, code = %Code::MemoryLimited, "{text}");
                self.event(flow, None, Code::MemoryLimited, text, at_ms);
            }
            (Some(_), None) => info!(%flow, "there is memory for what is fetched again"),
            _ => {}
        }
    }

    /// A cluster answers again, or still.
    pub(crate) fn reached(&self, flow: &FlowName, source: bool) {
        let mut flows = self.flows.lock();
        let board = flows.entry(flow.clone()).or_default();
        let side = if source { &mut board.unreachable.0 } else { &mut board.unreachable.1 };
        if side.take().is_some() {
            let cluster = if source { &flow.source } else { &flow.target };
            info!(%flow, "{cluster} answers again");
            if board.unreachable == (None, None) && board.standing.state == State::Unreachable {
                board.standing =
                    FlowStanding { state: State::CatchingUp, code: None, reason: None };
            }
        }
    }

    /// A cluster or one of its brokers does not answer; connecting goes on with back-off.
    pub(crate) fn unreachable(
        &self,
        flow: &FlowName,
        source: bool,
        error: &ClientError,
        now_ms: i64,
    ) {
        if !matches!(
            error,
            ClientError::Unreachable { .. }
                | ClientError::Timeout { .. }
                | ClientError::Closed { .. }
        ) {
            return;
        }
        let text = error.to_string();
        let new = {
            let mut flows = self.flows.lock();
            let board = flows.entry(flow.clone()).or_default();
            let side = if source { &mut board.unreachable.0 } else { &mut board.unreachable.1 };
            let new = side.is_none();
            *side = Some(text.clone());
            if matches!(error, ClientError::Unreachable { .. }) {
                board.standing = FlowStanding {
                    state: State::Unreachable,
                    code: Some(Code::Unreachable),
                    reason: Some(text.clone()),
                };
            }
            new
        };
        if new {
            let cluster = if source { &flow.source } else { &flow.target };
            warn!(%flow, code = %Code::Unreachable, "{cluster}: {text}; connecting goes on");
            self.event(flow, None, Code::Unreachable, text, now_ms);
        }
    }
}
