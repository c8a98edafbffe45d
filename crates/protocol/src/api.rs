//! The APIs twinlog speaks and the versions of each: one table, in the order of Kafka's numbers.

use std::fmt;

use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message as _};

/// Versions of an API, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The oldest.
    pub min: i16,
    /// The newest.
    pub max: i16,
}

impl VersionRange {
    /// Whether `version` lies in the range.
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// The newest version that lies in both ranges.
    pub fn newest_common(self, other: Self) -> Option<i16> {
        let newest = self.max.min(other.max);
        (newest >= self.min && newest >= other.min).then_some(newest)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)
    }
}

/// A request or an answer: something that can be written and read at a version.
///
/// Encoding and decoding go through [`encode_request`](crate::encode_request),
/// [`decode_response`](crate::decode_response) and their mirror images, which check versions and
/// lengths; the codec's own methods are an implementation detail.
pub trait Message:
    Encodable
    + Decodable
    + HeaderVersion
    + Clone
    + fmt::Debug
    + PartialEq
    + Default
    + Send
    + Sync
    + 'static
{
}

impl<M> Message for M where
    M: Encodable
        + Decodable
        + HeaderVersion
        + Clone
        + fmt::Debug
        + PartialEq
        + Default
        + Send
        + Sync
        + 'static
{
}

/// A request of an API in the table.
pub trait Request: Message {
    /// What a broker answers.
    type Response: Message;
    /// The API.
    const KEY: ApiKey;
    /// The oldest version we speak.
    const MIN: i16;
    /// The newest version we speak.
    const MAX: i16;
}

macro_rules! apis {
    ($($name:ident = $key:literal: $request:ident, $response:ident, $min:literal..=$max:literal;)*) => {
        use crate::messages::{$($request, $response),*};

        /// An API of Kafka that twinlog speaks, as a client or as the embedded broker.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            $(
                #[doc = concat!("`", stringify!($name), "`, versions ", $min, " to ", $max, ".")]
                $name = $key,
            )*
        }

        impl ApiKey {
            /// Every API of the table, ascending by key.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The API with Kafka's number `key`; `None` when twinlog does not speak it.
            pub const fn from_key(key: i16) -> Option<Self> {
                match key {
                    $($key => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Kafka's name of the API.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The versions we speak.
            pub const fn versions(self) -> VersionRange {
                match self {
                    $(Self::$name => VersionRange { min: $min, max: $max },)*
                }
            }

            /// The version of the header that goes before a request: 1, or 2 with tagged fields.
            pub fn request_header_version(self, version: i16) -> i16 {
                match self {
                    $(Self::$name => $request::header_version(version),)*
                }
            }

            /// The version of the header that goes before an answer: 0, or 1 with tagged fields.
            /// Always 0 for `ApiVersions`, whose answer must be readable by a client that does not
            /// know yet what the broker speaks.
            pub fn response_header_version(self, version: i16) -> i16 {
                match self {
                    $(Self::$name => $response::header_version(version),)*
                }
            }
        }

        $(
            impl Request for $request {
                type Response = $response;
                const KEY: ApiKey = ApiKey::$name;
                const MIN: i16 = $min;
                const MAX: i16 = $max;
            }

            const _: () = {
                let (request, response) = ($request::VERSIONS, $response::VERSIONS);
                assert!(request.min <= $min && $max <= request.max, "the request lacks a version");
                assert!(response.min <= $min && $max <= response.max, "the answer lacks a version");
                assert!(<$request as kafka_protocol::protocol::Request>::KEY == $key);
            };
        )*

        /// Visits every request type of the table.
        pub fn visit_apis(visitor: &mut impl ApiVisitor) {
            $(visitor.visit::<$request>();)*
        }
    };
}

/// Something to be done for every request type of the table: what a test of all messages needs,
/// or a broker that lists what it offers.
pub trait ApiVisitor {
    /// Called once per API.
    fn visit<R: Request>(&mut self);
}

impl ApiKey {
    /// Kafka's number of the API.
    pub const fn key(self) -> i16 {
        self as i16
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// A version is in the table when the codec has it for the request and for the answer (checked
// above, at compile time) and a broker of Kafka 3.3 to 4.3 speaks it.
apis! {
    Produce = 0: ProduceRequest, ProduceResponse, 3..=13;
    Fetch = 1: FetchRequest, FetchResponse, 4..=18;
    ListOffsets = 2: ListOffsetsRequest, ListOffsetsResponse, 1..=10;
    Metadata = 3: MetadataRequest, MetadataResponse, 0..=13;
    OffsetCommit = 8: OffsetCommitRequest, OffsetCommitResponse, 2..=9;
    OffsetFetch = 9: OffsetFetchRequest, OffsetFetchResponse, 1..=9;
    FindCoordinator = 10: FindCoordinatorRequest, FindCoordinatorResponse, 0..=6;
    JoinGroup = 11: JoinGroupRequest, JoinGroupResponse, 0..=9;
    Heartbeat = 12: HeartbeatRequest, HeartbeatResponse, 0..=4;
    LeaveGroup = 13: LeaveGroupRequest, LeaveGroupResponse, 0..=5;
    SyncGroup = 14: SyncGroupRequest, SyncGroupResponse, 0..=5;
    DescribeGroups = 15: DescribeGroupsRequest, DescribeGroupsResponse, 0..=6;
    ListGroups = 16: ListGroupsRequest, ListGroupsResponse, 0..=5;
    SaslHandshake = 17: SaslHandshakeRequest, SaslHandshakeResponse, 0..=1;
    ApiVersions = 18: ApiVersionsRequest, ApiVersionsResponse, 0..=4;
    CreateTopics = 19: CreateTopicsRequest, CreateTopicsResponse, 2..=7;
    DeleteTopics = 20: DeleteTopicsRequest, DeleteTopicsResponse, 1..=6;
    DeleteRecords = 21: DeleteRecordsRequest, DeleteRecordsResponse, 0..=2;
    InitProducerId = 22: InitProducerIdRequest, InitProducerIdResponse, 0..=5;
    OffsetForLeaderEpoch = 23: OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, 2..=4;
    AddPartitionsToTxn = 24: AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, 0..=5;
    AddOffsetsToTxn = 25: AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, 0..=4;
    EndTxn = 26: EndTxnRequest, EndTxnResponse, 0..=5;
    WriteTxnMarkers = 27: WriteTxnMarkersRequest, WriteTxnMarkersResponse, 1..=1;
    TxnOffsetCommit = 28: TxnOffsetCommitRequest, TxnOffsetCommitResponse, 0..=5;
    DescribeAcls = 29: DescribeAclsRequest, DescribeAclsResponse, 1..=3;
    CreateAcls = 30: CreateAclsRequest, CreateAclsResponse, 1..=3;
    DeleteAcls = 31: DeleteAclsRequest, DeleteAclsResponse, 1..=3;
    DescribeConfigs = 32: DescribeConfigsRequest, DescribeConfigsResponse, 1..=4;
    AlterConfigs = 33: AlterConfigsRequest, AlterConfigsResponse, 0..=2;
    DescribeLogDirs = 35: DescribeLogDirsRequest, DescribeLogDirsResponse, 1..=4;
    SaslAuthenticate = 36: SaslAuthenticateRequest, SaslAuthenticateResponse, 0..=2;
    CreatePartitions = 37: CreatePartitionsRequest, CreatePartitionsResponse, 0..=3;
    DeleteGroups = 42: DeleteGroupsRequest, DeleteGroupsResponse, 0..=2;
    ElectLeaders = 43: ElectLeadersRequest, ElectLeadersResponse, 0..=2;
    IncrementalAlterConfigs = 44: IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, 0..=1;
    AlterPartitionReassignments = 45: AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, 0..=1;
    ListPartitionReassignments = 46: ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, 0..=0;
    OffsetDelete = 47: OffsetDeleteRequest, OffsetDeleteResponse, 0..=0;
    DescribeClientQuotas = 48: DescribeClientQuotasRequest, DescribeClientQuotasResponse, 0..=1;
    AlterClientQuotas = 49: AlterClientQuotasRequest, AlterClientQuotasResponse, 0..=1;
    DescribeQuorum = 55: DescribeQuorumRequest, DescribeQuorumResponse, 0..=2;
    DescribeCluster = 60: DescribeClusterRequest, DescribeClusterResponse, 0..=2;
    DescribeProducers = 61: DescribeProducersRequest, DescribeProducersResponse, 0..=0;
    DescribeTransactions = 65: DescribeTransactionsRequest, DescribeTransactionsResponse, 0..=0;
    ListTransactions = 66: ListTransactionsRequest, ListTransactionsResponse, 0..=2;
    ConsumerGroupHeartbeat = 68: ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, 0..=1;
    ConsumerGroupDescribe = 69: ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, 0..=1;
    ListConfigResources = 74: ListConfigResourcesRequest, ListConfigResourcesResponse, 0..=1;
    DescribeTopicPartitions = 75: DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, 0..=0;
    ShareGroupHeartbeat = 76: ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, 1..=1;
    ShareGroupDescribe = 77: ShareGroupDescribeRequest, ShareGroupDescribeResponse, 1..=1;
    DescribeShareGroupOffsets = 90: DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, 0..=0;
    AlterShareGroupOffsets = 91: AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, 0..=0;
    DeleteShareGroupOffsets = 92: DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse, 0..=0;
}
