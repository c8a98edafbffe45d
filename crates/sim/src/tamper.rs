//! Wrong answers: what no broker should send and some proxy, bug or memory error sends all the same.
//!
//! Answers are changed on their way to the client, after a broker that knows nothing of it has done
//! what was asked.

use bytes::{Bytes, BytesMut};
use twinlog_protocol::messages::{
    AddPartitionsToTxnRequest, CreateTopicsRequest, DescribeConfigsRequest,
    DescribeProducersRequest, FetchRequest, FindCoordinatorRequest, ListGroupsRequest,
    ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, fetch_response::PartitionData,
};
use twinlog_protocol::{ApiKey, Request, decode_response, decode_response_header, encode_response};

use crate::network::Heard;

/// A kind of wrong answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lie {
    /// The answer never comes; the connection stays.
    Lost,
    /// It comes twice.
    Doubled,
    /// It carries a correlation id that nobody waits for.
    WrongCorrelation,
    /// The last thing that was asked about is missing in it.
    Fewer,
    /// A fetch is answered with records that were fetched before.
    NoProgress,
    /// It says nothing about anything that was asked, and no error.
    Empty,
    /// Half of it comes, then the connection closes.
    Cut,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Lost,
        Self::Doubled,
        Self::WrongCorrelation,
        Self::Fewer,
        Self::NoProgress,
        Self::Empty,
        Self::Cut,
    ];
}

/// What the client hears in the place of `frame`; `None` where the lie makes no sense of this API.
pub fn lie(lie: Lie, api: i16, version: i16, frame: &Bytes) -> Option<Heard> {
    let api = ApiKey::from_key(api)?;
    match lie {
        Lie::Lost => Some(Heard::All(Vec::new())),
        Lie::Doubled => Some(Heard::All(vec![frame.clone(), frame.clone()])),
        Lie::WrongCorrelation => {
            let mut wrong = BytesMut::from(&frame[..]);
            wrong.get_mut(..4)?.copy_from_slice(&0x7000_0000_i32.to_be_bytes());
            Some(Heard::All(vec![wrong.freeze()]))
        }
        Lie::Cut => {
            let mut half = BytesMut::from(&(frame.len() as i32).to_be_bytes()[..]);
            half.extend_from_slice(&frame[..frame.len() / 2]);
            Some(Heard::Cut(half.freeze()))
        }
        Lie::Fewer | Lie::Empty | Lie::NoProgress => {
            let shrunk = shrink(lie, api, version, frame)?;
            Some(Heard::All(vec![shrunk]))
        }
    }
}

/// Applies `change` to the answer; `None` when it changes nothing.
fn edit<R: Request>(
    version: i16,
    frame: &Bytes,
    change: impl FnOnce(&mut R::Response),
) -> Option<Bytes> {
    let (correlation, body) = decode_response_header(R::KEY, version, frame.clone()).ok()?;
    let mut response = decode_response::<R>(body, version).ok()?;
    let before = response.clone();
    change(&mut response);
    if response == before {
        return None;
    }
    Some(encode_response::<R>(&response, version, correlation).ok()?.slice(4..))
}

/// Takes the last element, or everything.
fn take<T>(from: &mut Vec<T>, lie: Lie) {
    match lie {
        Lie::Empty => from.clear(),
        _ => {
            from.pop();
        }
    }
}

/// Takes the last partition of the last topic, or everything.
macro_rules! take_partition {
    ($topics:expr, $partitions:ident, $lie:expr) => {
        if $lie == Lie::Empty {
            $topics.clear();
        } else if let Some(topic) = $topics.last_mut() {
            topic.$partitions.pop();
        }
    };
}

fn shrink(lie: Lie, api: ApiKey, version: i16, frame: &Bytes) -> Option<Bytes> {
    if lie == Lie::NoProgress && api != ApiKey::Fetch {
        return None;
    }
    match api {
        ApiKey::Produce => edit::<ProduceRequest>(version, frame, |answer| {
            take_partition!(answer.responses, partition_responses, lie);
        }),
        ApiKey::Fetch => edit::<FetchRequest>(version, frame, |answer| {
            if lie == Lie::NoProgress {
                let topics = answer.responses.iter_mut();
                topics.flat_map(|topic| &mut topic.partitions).for_each(fetched_before);
            } else {
                take_partition!(answer.responses, partitions, lie);
            }
        }),
        ApiKey::ListOffsets => edit::<ListOffsetsRequest>(version, frame, |answer| {
            take_partition!(answer.topics, partitions, lie);
        }),
        ApiKey::OffsetForLeaderEpoch => {
            edit::<OffsetForLeaderEpochRequest>(version, frame, |answer| {
                take_partition!(answer.topics, partitions, lie);
            })
        }
        ApiKey::DescribeProducers => edit::<DescribeProducersRequest>(version, frame, |answer| {
            take_partition!(answer.topics, partitions, lie);
        }),
        ApiKey::OffsetCommit => edit::<OffsetCommitRequest>(version, frame, |answer| {
            take_partition!(answer.topics, partitions, lie);
        }),
        ApiKey::OffsetFetch => edit::<OffsetFetchRequest>(version, frame, |answer| {
            take(&mut answer.groups, lie);
        }),
        ApiKey::Metadata => edit::<MetadataRequest>(version, frame, |answer| {
            take(&mut answer.topics, lie);
        }),
        ApiKey::FindCoordinator => edit::<FindCoordinatorRequest>(version, frame, |answer| {
            take(&mut answer.coordinators, lie);
        }),
        ApiKey::ListGroups => edit::<ListGroupsRequest>(version, frame, |answer| {
            take(&mut answer.groups, lie);
        }),
        ApiKey::CreateTopics => edit::<CreateTopicsRequest>(version, frame, |answer| {
            take(&mut answer.topics, lie);
        }),
        ApiKey::DescribeConfigs => edit::<DescribeConfigsRequest>(version, frame, |answer| {
            take(&mut answer.results, lie);
        }),
        ApiKey::AddPartitionsToTxn => edit::<AddPartitionsToTxnRequest>(version, frame, |answer| {
            take(&mut answer.results_by_topic_v3_and_below, lie);
            take(&mut answer.results_by_transaction, lie);
        }),
        _ => None,
    }
}

/// Moves the records of a fetch in front of where they lie, so that they end where the fetch began.
fn fetched_before(partition: &mut PartitionData) {
    const BASE: std::ops::Range<usize> = 0..8;
    const DELTA: std::ops::Range<usize> = 23..27;
    let Some(records) = &mut partition.records else { return };
    let number = |range: std::ops::Range<usize>| records.get(range);
    let (Some(base), Some(delta)) = (number(BASE), number(DELTA)) else { return };
    let base = base.iter().fold(0_i64, |value, &byte| value << 8 | i64::from(byte));
    let delta = delta.iter().fold(0_i64, |value, &byte| value << 8 | i64::from(byte));
    if base <= delta {
        *records = Bytes::new(); // there is no room in front of it
        return;
    }
    // Only this batch: what comes behind it would look like the end of a hole.
    let length = records.get(8..12).map_or(0, |bytes| {
        12 + bytes.iter().fold(0_usize, |value, &byte| value << 8 | usize::from(byte))
    });
    let mut moved = BytesMut::from(&records[..length.min(records.len())]);
    // The base offset is outside of the batch's checksum.
    moved[BASE].copy_from_slice(&(base - delta - 1).to_be_bytes());
    *records = moved.freeze();
}
