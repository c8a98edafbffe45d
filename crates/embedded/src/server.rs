//! One connection: frames in, answers out, one request at a time as a broker does it, and the
//! faults that happen on the way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;
use tracing::debug;
use twinlog_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AlterClientQuotasRequest,
    AlterConfigsRequest, AlterPartitionReassignmentsRequest, AlterShareGroupOffsetsRequest,
    ApiVersionsRequest, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest,
    CreateAclsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteAclsRequest,
    DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DescribeAclsRequest,
    DescribeClientQuotasRequest, DescribeClusterRequest, DescribeConfigsRequest,
    DescribeGroupsRequest, DescribeLogDirsRequest, DescribeProducersRequest, DescribeQuorumRequest,
    DescribeShareGroupOffsetsRequest, DescribeTopicPartitionsRequest, DescribeTransactionsRequest,
    ElectLeadersRequest, EndTxnRequest, FetchRequest, FindCoordinatorRequest, HeartbeatRequest,
    IncrementalAlterConfigsRequest, InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest,
    ListConfigResourcesRequest, ListGroupsRequest, ListOffsetsRequest,
    ListPartitionReassignmentsRequest, ListTransactionsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest,
    ProduceRequest, SaslAuthenticateRequest, SaslHandshakeRequest, SyncGroupRequest,
    TxnOffsetCommitRequest, WriteTxnMarkersRequest,
};
use twinlog_protocol::{ApiKey, ProtocolError, RequestFrame, decode_request, encode_response};

use crate::api::{self, Mentions};
use crate::cluster::EmbeddedCluster;
use crate::faults::{Action, Happening};
use crate::frames::Frame;
use crate::rights::{Amend, Gate, Guarded, Peer, Verdict};
use crate::sasl;
use crate::state::State;

/// One request while it is served.
pub(crate) struct Call {
    pub cluster: EmbeddedCluster,
    pub broker: i32,
    pub connection: u64,
    pub api: ApiKey,
    pub version: i16,
    pub client_id: Option<String>,
    pub peer: Peer,
    pub happening: Option<Happening>,
    /// Whether the connection ends instead of an answer.
    hung_up: AtomicBool,
    /// Milliseconds for which a quota mutes the connection behind the answer.
    muted: AtomicU64,
}

impl Call {
    /// Ends the connection instead of an answer.
    pub(crate) fn hang_up(&self) {
        self.hung_up.store(true, Ordering::Relaxed);
    }

    /// Reads nothing for this time once the answer is sent.
    pub(crate) fn mute(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.muted.store(millis, Ordering::Relaxed);
    }

    pub(crate) fn new(
        cluster: &EmbeddedCluster,
        broker: i32,
        connection: u64,
        peer: Peer,
        frame: &RequestFrame,
    ) -> Self {
        Self {
            cluster: cluster.clone(),
            broker,
            connection,
            api: frame.api,
            version: frame.version,
            client_id: frame.client_id.clone(),
            peer,
            happening: None,
            hung_up: AtomicBool::new(false),
            muted: AtomicU64::new(0),
        }
    }

    /// What the caller may do.
    pub(crate) fn gate<'a>(&'a self, state: &'a State) -> Gate<'a> {
        Gate { state, peer: &self.peer, version: self.version }
    }

    /// The code that a planned fault puts in the place of serving this partition. For what has no
    /// partitions, pass a topic or an empty name and -1.
    pub(crate) fn refused(&self, topic: &str, partition: i32) -> Option<i16> {
        self.happening.as_ref()?.code(topic, partition)
    }

    /// The code that a planned fault puts in the answer after this partition was served.
    pub(crate) fn disowned(&self, topic: &str, partition: i32) -> Option<i16> {
        self.happening.as_ref()?.code_after(topic, partition)
    }

    /// The throttle time that a planned fault asks for.
    pub(crate) fn throttle(&self) -> Option<Duration> {
        match self.happening.as_ref()?.action {
            Action::Throttle(time) => Some(time),
            _ => None,
        }
    }

    fn is(&self, action: &Action) -> bool {
        self.happening.as_ref().is_some_and(|happening| happening.action == *action)
    }
}

/// How a connection comes in.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// Somebody who need not log in.
    Known(Peer),
    /// Somebody from this address who must.
    Login { host: String },
}

/// Serves a connection to a broker until either end closes it or the broker dies.
pub(crate) async fn serve<S>(cluster: EmbeddedCluster, broker: i32, stream: S, entry: Entry)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some((death, life, connection)) = cluster.open(broker) else { return };
    let died = death.notified();
    tokio::pin!(died);
    died.as_mut().enable();
    if cluster.life(broker) != Some(life) {
        return; // it died between the two lines above
    }
    tokio::select! {
        biased;
        () = died => {}
        result = requests(&cluster, broker, connection, stream, entry) => {
            if let Err(reason) = result {
                debug!(broker, connection, %reason, "connection closed");
            }
        }
    }
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Closed {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    #[error("a frame of {0} bytes")]
    Frame(i32),
    #[error("there will never be room for a frame")]
    NoRoom,
    #[error("{arrived} of the {size} bytes of a frame came, too slowly, while others waited")]
    TooSlow { arrived: usize, size: usize },
    #[error("a planned fault")]
    Fault,
    #[error("{0} is not served")]
    NotServed(ApiKey),
    #[error("{0} was refused without an answer")]
    Refused(ApiKey),
    #[error("it did not log in")]
    NotLoggedIn,
    #[error("a refused request that is not answered")]
    Unanswered,
}

async fn requests<S>(
    cluster: &EmbeddedCluster,
    broker: i32,
    connection: u64,
    mut stream: S,
    entry: Entry,
) -> Result<(), Closed>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let peer = match entry {
        Entry::Known(peer) => peer,
        Entry::Login { host } => {
            sasl::log_in(cluster, broker, connection, &mut stream, &host).await?
        }
    };
    loop {
        let Frame { bytes, room } = next_frame(cluster, broker, &mut stream).await?;
        let frame = RequestFrame::parse(bytes)?;
        let mut call = Call::new(cluster, broker, connection, peer.clone(), &frame);
        let answer = dispatch(&mut call, frame.body, frame.correlation_id).await?;
        drop(room);
        deliver(&call, answer, &mut stream).await?;
    }
}

/// The next frame of a connection whose broker runs.
pub(crate) async fn next_frame<S: AsyncRead + Unpin>(
    cluster: &EmbeddedCluster,
    broker: i32,
    stream: &mut S,
) -> Result<Frame, Closed> {
    let frame = cluster.frames().read(stream).await?;
    cluster.until_running(broker).await;
    Ok(frame)
}

/// Sends an answer, with what a planned fault does to it.
pub(crate) async fn deliver<S: AsyncWrite + Unpin>(
    call: &Call,
    answer: Option<Bytes>,
    stream: &mut S,
) -> Result<(), Closed> {
    if let Some(Happening { action: Action::Delay(time), .. }) = &call.happening {
        sleep(*time).await;
    }
    call.cluster.until_running(call.broker).await;
    if call.is(&Action::CloseAfter) {
        return Err(Closed::Fault);
    }
    if call.hung_up.load(Ordering::Relaxed) {
        return Err(Closed::Refused(call.api));
    }
    let Some(answer) = answer.filter(|_| !call.is(&Action::DropAnswer)) else { return Ok(()) };
    if call.is(&Action::TruncatedFrame) {
        stream.write_all(&answer[..answer.len() / 2]).await?;
        stream.flush().await?;
        return Err(Closed::Fault);
    }
    stream.write_all(&answer).await?;
    stream.flush().await?;
    if call.is(&Action::CloseBehindAnswer) {
        return Err(Closed::Fault);
    }
    let muted = Duration::from_millis(call.muted.load(Ordering::Relaxed));
    let time = call.throttle().unwrap_or_default().max(muted);
    if !time.is_zero() {
        sleep(time).await; // a throttled connection is muted: nothing on it is read
    }
    Ok(())
}

/// Decodes, asks for faults, serves, encodes. `None`: there will be no answer.
pub(crate) async fn dispatch(
    call: &mut Call,
    body: Bytes,
    correlation_id: i32,
) -> Result<Option<Bytes>, Closed> {
    macro_rules! serve {
        ($request:ident, $serve:expr) => {{
            let mut request: $request = decode_request(body, call.version)?;
            if !begin(call, &request).await? {
                return Ok(None);
            }
            let response = match guard(call, &mut request) {
                Verdict::Serve => $serve(&*call, &request),
                Verdict::Amend(amend) => amended::<$request>(call, $serve(&*call, &request), amend),
                Verdict::Answer(response) => response,
                Verdict::Close => return Err(Closed::Unanswered),
            };
            encode::<$request>(call, Some(response), correlation_id)
        }};
        ($request:ident, await $serve:expr) => {{
            let mut request: $request = decode_request(body, call.version)?;
            if !begin(call, &request).await? {
                return Ok(None);
            }
            let response: Option<_> = match guard(call, &mut request) {
                Verdict::Serve => $serve(&*call, request).await,
                Verdict::Amend(amend) => {
                    let response: Option<_> = $serve(&*call, request).await;
                    response.map(|response| amended::<$request>(call, response, amend))
                }
                Verdict::Answer(response) => Some(response),
                Verdict::Close => return Err(Closed::Unanswered),
            };
            encode::<$request>(call, response, correlation_id)
        }};
    }
    let range = call.cluster.versions(call.api);
    if call.api == ApiKey::ApiVersions {
        // KIP-511: an unknown version is answered at version 0 with error 35.
        if range.is_none_or(|range| !range.contains(call.version)) {
            call.version = 0;
            let response = api::unknown_api_versions(call);
            return encode::<ApiVersionsRequest>(call, Some(response), correlation_id);
        }
    } else if range.is_none_or(|range| !range.contains(call.version)) {
        // Kafka closes the connection without an answer.
        return Err(Closed::Protocol(ProtocolError::UnsupportedVersion {
            api: call.api,
            version: call.version,
            supported: range.unwrap_or(call.api.versions()),
        }));
    }
    match call.api {
        ApiKey::ApiVersions => serve!(ApiVersionsRequest, api::api_versions),
        ApiKey::Metadata => serve!(MetadataRequest, api::metadata),
        ApiKey::DescribeCluster => serve!(DescribeClusterRequest, api::describe_cluster),
        ApiKey::Produce => serve!(ProduceRequest, await api::produce),
        ApiKey::Fetch => serve!(FetchRequest, await api::fetch),
        ApiKey::ListOffsets => serve!(ListOffsetsRequest, api::list_offsets),
        ApiKey::OffsetForLeaderEpoch => {
            serve!(OffsetForLeaderEpochRequest, api::offset_for_leader_epoch)
        }
        ApiKey::DescribeProducers => serve!(DescribeProducersRequest, api::describe_producers),
        ApiKey::DeleteRecords => serve!(DeleteRecordsRequest, await api::delete_records),
        ApiKey::CreateTopics => serve!(CreateTopicsRequest, api::create_topics),
        ApiKey::CreatePartitions => serve!(CreatePartitionsRequest, api::create_partitions),
        ApiKey::DeleteTopics => serve!(DeleteTopicsRequest, api::delete_topics),
        ApiKey::DescribeConfigs => serve!(DescribeConfigsRequest, api::describe_configs),
        ApiKey::IncrementalAlterConfigs => {
            serve!(IncrementalAlterConfigsRequest, api::incremental_alter_configs)
        }
        ApiKey::FindCoordinator => serve!(FindCoordinatorRequest, api::find_coordinator),
        ApiKey::InitProducerId => serve!(InitProducerIdRequest, api::init_producer_id),
        ApiKey::AddPartitionsToTxn => serve!(AddPartitionsToTxnRequest, api::add_partitions_to_txn),
        ApiKey::AddOffsetsToTxn => serve!(AddOffsetsToTxnRequest, api::add_offsets_to_txn),
        ApiKey::EndTxn => serve!(EndTxnRequest, api::end_txn),
        ApiKey::TxnOffsetCommit => serve!(TxnOffsetCommitRequest, api::txn_offset_commit),
        ApiKey::OffsetCommit => serve!(OffsetCommitRequest, api::offset_commit),
        ApiKey::OffsetFetch => serve!(OffsetFetchRequest, api::offset_fetch),
        ApiKey::OffsetDelete => serve!(OffsetDeleteRequest, api::offset_delete),
        ApiKey::ListGroups => serve!(ListGroupsRequest, api::list_groups),
        ApiKey::DescribeGroups => serve!(DescribeGroupsRequest, api::describe_groups),
        ApiKey::ConsumerGroupDescribe => {
            serve!(ConsumerGroupDescribeRequest, api::consumer_group_describe)
        }
        ApiKey::ConsumerGroupHeartbeat => {
            serve!(ConsumerGroupHeartbeatRequest, api::consumer_group_heartbeat)
        }
        ApiKey::DescribeShareGroupOffsets => {
            serve!(DescribeShareGroupOffsetsRequest, api::describe_share_group_offsets)
        }
        ApiKey::AlterShareGroupOffsets => {
            serve!(AlterShareGroupOffsetsRequest, api::alter_share_group_offsets)
        }
        ApiKey::DeleteGroups => serve!(DeleteGroupsRequest, api::delete_groups),
        ApiKey::JoinGroup => serve!(JoinGroupRequest, await api::join_group),
        ApiKey::SyncGroup => serve!(SyncGroupRequest, await api::sync_group),
        ApiKey::Heartbeat => serve!(HeartbeatRequest, api::heartbeat),
        ApiKey::DescribeAcls => serve!(DescribeAclsRequest, api::describe_acls),
        ApiKey::CreateAcls => serve!(CreateAclsRequest, api::create_acls),
        ApiKey::DeleteAcls => serve!(DeleteAclsRequest, api::delete_acls),
        ApiKey::SaslHandshake => serve!(SaslHandshakeRequest, sasl::handshake_again),
        ApiKey::SaslAuthenticate => serve!(SaslAuthenticateRequest, sasl::authenticate_again),
        ApiKey::LeaveGroup => serve!(LeaveGroupRequest, api::leave_group),
        ApiKey::AlterConfigs => serve!(AlterConfigsRequest, api::alter_configs),
        ApiKey::AlterPartitionReassignments => {
            serve!(AlterPartitionReassignmentsRequest, api::alter_partition_reassignments)
        }
        ApiKey::DescribeClientQuotas => {
            serve!(DescribeClientQuotasRequest, api::describe_client_quotas)
        }
        ApiKey::AlterClientQuotas => serve!(AlterClientQuotasRequest, api::alter_client_quotas),
        ApiKey::DescribeLogDirs => serve!(DescribeLogDirsRequest, api::describe_log_dirs),
        ApiKey::DescribeQuorum => serve!(DescribeQuorumRequest, api::describe_quorum),
        ApiKey::DescribeTopicPartitions => {
            serve!(DescribeTopicPartitionsRequest, api::describe_topic_partitions)
        }
        ApiKey::DescribeTransactions => {
            serve!(DescribeTransactionsRequest, api::describe_transactions)
        }
        ApiKey::ElectLeaders => serve!(ElectLeadersRequest, api::elect_leaders),
        ApiKey::ListConfigResources => {
            serve!(ListConfigResourcesRequest, api::list_config_resources)
        }
        ApiKey::ListPartitionReassignments => {
            serve!(ListPartitionReassignmentsRequest, api::list_partition_reassignments)
        }
        ApiKey::ListTransactions => serve!(ListTransactionsRequest, api::list_transactions),
        ApiKey::WriteTxnMarkers => serve!(WriteTxnMarkersRequest, api::write_txn_markers),
        // Has no versions here, so it was refused above.
        api => Err(Closed::NotServed(api)),
    }
}

/// What the caller's rights make of a request.
fn guard<R: Guarded>(call: &Call, request: &mut R) -> Verdict<R> {
    call.cluster.with(|state| request.guard(&call.gate(state)))
}

fn amended<R: Guarded>(call: &Call, mut response: R::Response, amend: Amend<R>) -> R::Response {
    call.cluster.with(|state| amend(&mut response, &call.gate(state)));
    response
}

/// Notes the request and lets a planned fault happen. `false`: it is not served and not answered.
pub(crate) async fn begin<R: Mentions>(call: &mut Call, request: &R) -> Result<bool, Closed> {
    call.happening = call.cluster.with(|state| {
        let (partitions, names) = request.mentions(state);
        state.request(call, partitions, names)
    });
    match call.happening.as_ref().map(|happening| &happening.action) {
        Some(Action::CloseBefore) => Err(Closed::Fault),
        Some(Action::Ignore) => Ok(false),
        Some(Action::DelayBefore(time)) => {
            sleep(*time).await;
            Ok(true)
        }
        _ => Ok(true),
    }
}

pub(crate) fn encode<R: twinlog_protocol::Request>(
    call: &Call,
    response: Option<R::Response>,
    correlation_id: i32,
) -> Result<Option<Bytes>, Closed> {
    let Some(response) = response else { return Ok(None) };
    let correlation_id = if call.is(&Action::WrongCorrelationId) {
        correlation_id.wrapping_add(1_000_000)
    } else {
        correlation_id
    };
    Ok(Some(encode_response::<R>(&response, call.version, correlation_id)?))
}
