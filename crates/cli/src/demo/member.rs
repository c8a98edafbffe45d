//! A consumer on the target that really joined its group: JoinGroup, SyncGroup, heartbeats, commits.
//!
//! Does not: read records. It stands where it commits, which is all that others see of a member.
//!
//! References: the classic group protocol, `ConsumerCoordinator` and `ConsumerProtocol` of Kafka's
//! Java client.

use std::time::Duration;

use tokio::task::JoinHandle;
use tracing::warn;
use twinlog_client::{ErrorCode, TcpDial};
use twinlog_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use twinlog_protocol::messages::leave_group_request::MemberIdentity;
use twinlog_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use twinlog_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use twinlog_protocol::messages::{
    GroupId, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest, StrBytes,
    SyncGroupRequest, string, topic_name,
};
use twinlog_wire::{Connection, Options, WireError};

use crate::output::{Failure, NOT_FOUND_OUT};

const SESSION: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_secs(2);
const PROTOCOL: &str = "range";

/// Why the member is none.
#[derive(Debug, thiserror::Error)]
enum MemberError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("{api} of group {group} was refused: {code}")]
    Refused { api: &'static str, group: &'static str, code: ErrorCode },
}

/// What it reads, and from where.
#[derive(Clone, Debug)]
pub(super) struct Reads {
    pub(super) group: &'static str,
    pub(super) topic: String,
    pub(super) partition: i32,
    /// How far it has read.
    pub(super) offset: i64,
}

/// A live member.
pub(super) struct Member {
    session: Session,
    beats: JoinHandle<()>,
}

/// A member's place in its group.
#[derive(Clone)]
struct Session {
    connection: Connection,
    reads: Reads,
    member: StrBytes,
    generation: i32,
}

impl Member {
    /// Joins the group at the broker that is its cluster.
    pub(super) async fn join(host: &str, port: u16, reads: Reads) -> Result<Self, Failure> {
        let joined = async {
            let options =
                Options { client_id: format!("{}-on-world", reads.group), ..Options::default() };
            let connection = Connection::connect(&TcpDial, host, port, &options).await?;
            let member = StrBytes::default();
            let mut session = Session { connection, reads, member, generation: -1 };
            session.join().await?;
            Ok(session)
        };
        let session: Session = joined.await.map_err(|error| failed(&error))?;
        let beats = tokio::spawn(live(session.clone()));
        Ok(Self { session, beats })
    }

    /// Commits how far it has read.
    pub(super) async fn commit(&self) -> Result<(), Failure> {
        self.session.commit().await.map_err(|error| failed(&error))
    }

    /// Leaves in good order.
    pub(super) async fn leave(self) {
        self.beats.abort();
        if let Err(error) = self.session.leave().await {
            warn!(%error, "the live member did not leave in order");
        }
    }
}

fn failed(error: &MemberError) -> Failure {
    Failure {
        exit: NOT_FOUND_OUT,
        code: "failed".into(),
        message: format!("the live member on world: {error}"),
        next: "see the message; -v shows more".into(),
        problems: Vec::new(),
    }
}

/// Shows that it is alive, and joins again when others come or go.
async fn live(mut session: Session) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        let beaten = match session.beat().await {
            Ok(true) => Ok(()),
            Ok(false) => session.join().await,
            Err(error) => Err(error),
        };
        if let Err(error) = beaten {
            warn!(%error, "the live member of the demo is gone");
            return;
        }
    }
}

impl Session {
    fn id(&self) -> GroupId {
        GroupId(string(self.reads.group))
    }

    fn ok(&self, api: &'static str, code: i16) -> Result<(), MemberError> {
        let group = self.reads.group;
        ErrorCode(code).ok().map_err(|code| MemberError::Refused { api, group, code })
    }

    /// Joins, leads where the broker says so, and waits for the assignment.
    async fn join(&mut self) -> Result<(), MemberError> {
        let version = self.connection.version::<JoinGroupRequest>()?;
        let answer = loop {
            let protocol = JoinGroupRequestProtocol::default()
                .with_name(string(PROTOCOL))
                .with_metadata(subscription(&self.reads.topic).into());
            let request = JoinGroupRequest::default()
                .with_group_id(self.id())
                .with_session_timeout_ms(SESSION.as_millis() as i32)
                .with_rebalance_timeout_ms(SESSION.as_millis() as i32)
                .with_member_id(self.member.clone())
                .with_protocol_type(string("consumer"))
                .with_protocols(vec![protocol]);
            let answer = self.connection.call(&request, version).await?;
            let first = self.member.is_empty() && !answer.member_id.is_empty();
            self.member.clone_from(&answer.member_id);
            // Since KIP-394 a new member is first told its id, and joins with it.
            if !(first && ErrorCode(answer.error_code) == ErrorCode::MEMBER_ID_REQUIRED) {
                self.ok("JoinGroup", answer.error_code)?;
                break answer;
            }
        };
        self.generation = answer.generation_id;
        let leads = answer.leader == self.member;
        // The leader keeps the partition to itself; whoever else joins has nothing to read.
        let assignments = answer.members.iter().filter(|_| leads).map(|member| {
            let partitions: &[i32] =
                if member.member_id == self.member { &[self.reads.partition] } else { &[] };
            SyncGroupRequestAssignment::default()
                .with_member_id(member.member_id.clone())
                .with_assignment(assignment(&self.reads.topic, partitions).into())
        });
        let request = SyncGroupRequest::default()
            .with_group_id(self.id())
            .with_generation_id(self.generation)
            .with_member_id(self.member.clone())
            .with_protocol_type(Some(string("consumer")))
            .with_protocol_name(Some(string(PROTOCOL)))
            .with_assignments(assignments.collect());
        let version = self.connection.version::<SyncGroupRequest>()?;
        let answer = self.connection.call(&request, version).await?;
        self.ok("SyncGroup", answer.error_code)
    }

    async fn commit(&self) -> Result<(), MemberError> {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(self.reads.partition)
            .with_committed_offset(self.reads.offset)
            .with_committed_leader_epoch(-1);
        let topic = OffsetCommitRequestTopic::default()
            .with_name(topic_name(&self.reads.topic))
            .with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(self.id())
            .with_generation_id_or_member_epoch(self.generation)
            .with_member_id(self.member.clone())
            .with_topics(vec![topic]);
        // From version 10 on topics have ids instead of names.
        let version = self.connection.version_at_most::<OffsetCommitRequest>(9)?;
        let answer = self.connection.call(&request, version).await?;
        let mut codes = answer.topics.iter().flat_map(|topic| &topic.partitions);
        codes.try_for_each(|partition| self.ok("OffsetCommit", partition.error_code))
    }

    /// `false` when the group forms anew.
    async fn beat(&self) -> Result<bool, MemberError> {
        let request = HeartbeatRequest::default()
            .with_group_id(self.id())
            .with_generation_id(self.generation)
            .with_member_id(self.member.clone());
        let version = self.connection.version::<HeartbeatRequest>()?;
        let answer = self.connection.call(&request, version).await?;
        if ErrorCode(answer.error_code) == ErrorCode::REBALANCE_IN_PROGRESS {
            return Ok(false);
        }
        self.ok("Heartbeat", answer.error_code).map(|()| true)
    }

    async fn leave(&self) -> Result<(), MemberError> {
        let version = self.connection.version::<LeaveGroupRequest>()?;
        let request = LeaveGroupRequest::default().with_group_id(self.id());
        let request = if version < 3 {
            request.with_member_id(self.member.clone())
        } else {
            let member = MemberIdentity::default().with_member_id(self.member.clone());
            request.with_members(vec![member])
        };
        let answer = self.connection.call(&request, version).await?;
        self.ok("LeaveGroup", answer.error_code)
    }
}

/// `ConsumerProtocolSubscription` version 0: the topics, and no user data.
fn subscription(topic: &str) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 0, 1];
    put_string(&mut bytes, topic);
    bytes.extend((-1_i32).to_be_bytes());
    bytes
}

/// `ConsumerProtocolAssignment` version 0: the topics with their partitions, and no user data.
fn assignment(topic: &str, partitions: &[i32]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend(i32::from(!partitions.is_empty()).to_be_bytes());
    if !partitions.is_empty() {
        put_string(&mut bytes, topic);
        bytes.extend((partitions.len() as i32).to_be_bytes());
        bytes.extend(partitions.iter().flat_map(|partition| partition.to_be_bytes()));
    }
    bytes.extend((-1_i32).to_be_bytes());
    bytes
}

fn put_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as i16).to_be_bytes());
    bytes.extend(text.as_bytes());
}
