//! Batches as they are sent: passed with a new head, or encoded anew.

use bytes::{Bytes, BytesMut};
use twinlog_types::{Cut, Sequence};

use crate::head::{APPEND_TIME, CONTROL, DELETE_HORIZON, LENGTH_FROM, TRANSACTIONAL};
use crate::{Batch, Codec, HEAD_BYTES, Head, Record};

/// A batch ready for a Produce request: a head of its own, and the body by reference.
#[derive(Clone, Debug)]
pub struct Outgoing {
    head: [u8; HEAD_BYTES],
    body: Bytes,
    cut: Cut,
    max_timestamp: i64,
}

impl Outgoing {
    /// Seals `head` (its CRC is computed here) around `body`.
    fn seal(mut head: Head, body: Bytes, cut: Cut) -> Self {
        let length = HEAD_BYTES - LENGTH_FROM + body.len();
        head.batch_length = i32::try_from(length).expect("a batch takes less than 2 GiB");
        Self { head: head.seal(&body), body, cut, max_timestamp: head.max_timestamp }
    }

    /// The head.
    pub fn head(&self) -> &[u8; HEAD_BYTES] {
        &self.head
    }

    /// Everything after the head. On the pass path these are the bytes that were fetched.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Bytes of the whole batch: what a broker compares with `max.message.bytes`.
    #[expect(clippy::len_without_is_empty, reason = "a batch is never empty: it has a head")]
    pub fn len(&self) -> usize {
        HEAD_BYTES + self.body.len()
    }

    /// What the broker will recognise the batch by. Without a producer: id and epoch -1, and a
    /// sequence that means nothing.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// The largest timestamp of the batch.
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Head and body in one buffer, for callers that cannot write two.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(self.len());
        bytes.extend_from_slice(&self.head);
        bytes.extend_from_slice(&self.body);
        bytes.freeze()
    }
}

/// The batch with its body untouched and a head of ours: base offset 0, no leader epoch, the
/// producer fields of `cut`, the transactional, append-time and delete-horizon bits cleared.
///
/// Timestamps stay as they were produced. Where the source stamped the batch
/// ([`Head::is_append_time`]) its consumers see another time: encode such a batch anew unless the
/// target stamps too. A delete horizon passes: records count from it as from any base timestamp.
///
/// # Panics
///
/// When the batch has holes, is a marker, or does not hold `cut.count` records. Patching a hole
/// away would be stored and read wrong: brokers check the offset deltas of compressed batches only.
pub fn pass(batch: &Batch, cut: Cut) -> Outgoing {
    let head = *batch.head();
    assert!(head.is_dense(), "only a batch without holes passes, not {head:?}");
    assert!(!head.is_control(), "a marker is not data: {head:?}");
    assert_eq!(head.record_count.unsigned_abs(), cut.count, "the cut counts other records");
    let head = Head {
        base_offset: 0,
        leader_epoch: -1,
        attributes: head.attributes & !(APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON),
        producer_id: cut.producer_id,
        producer_epoch: cut.producer_epoch,
        base_sequence: cut.base_sequence.to_wire(),
        ..head
    };
    Outgoing::seal(head, batch.bytes().slice(HEAD_BYTES..), cut)
}

/// The records in their order as one batch without holes. Their own offsets do not matter.
///
/// # Panics
///
/// When there are no records, or not `cut.count`, or they take 2 GiB or more.
pub fn encode(records: &[Record], codec: Codec, cut: Cut) -> Outgoing {
    encode_dense(records, codec, cut, cut.base_sequence.to_wire(), 0)
}

/// As [`encode`], without a producer: nothing recognises a repetition.
pub fn encode_plain(records: &[Record], codec: Codec) -> Outgoing {
    let cut = Cut {
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: Sequence::default(),
        count: records.len() as u32,
    };
    encode_dense(records, codec, cut, -1, 0)
}

/// As [`encode`], as part of the producer's open transaction.
pub fn encode_transactional(records: &[Record], codec: Codec, cut: Cut) -> Outgoing {
    encode_dense(records, codec, cut, cut.base_sequence.to_wire(), TRANSACTIONAL)
}

fn encode_dense(
    records: &[Record],
    codec: Codec,
    cut: Cut,
    base_sequence: i32,
    flags: i16,
) -> Outgoing {
    assert_eq!(records.len(), cut.count as usize, "the cut counts other records");
    let deltas = 0..i32::try_from(records.len()).expect("a batch counts its records in 31 bits");
    let (head, body) = write(records, &deltas, codec);
    let head = Head {
        attributes: head.attributes | flags,
        producer_id: cut.producer_id,
        producer_epoch: cut.producer_epoch,
        base_sequence,
        ..head
    };
    Outgoing::seal(head, body, cut)
}

/// A batch without a producer that keeps the records' offsets, which ascend, and ends at
/// `last_offset`: what a converted batch of an old format is.
pub(crate) fn encode_in_place(records: &[Record], last_offset: i64, codec: Codec) -> Bytes {
    let base = records[0].offset;
    let deltas = records.iter().map(|record| (record.offset - base) as i32);
    let (head, body) = write(records, &deltas, codec);
    let last_offset_delta = (last_offset - base) as i32;
    let head = Head { base_offset: base, last_offset_delta, ..head };
    let cut = Cut {
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: Sequence::default(),
        count: records.len() as u32,
    };
    Outgoing::seal(head, body, cut).to_bytes()
}

/// The body, and a head without producer that fits it, save for length and CRC.
fn write(
    records: &[Record],
    deltas: &(impl Iterator<Item = i32> + Clone),
    codec: Codec,
) -> (Head, Bytes) {
    // As Kafka's producer does: the first record's timestamp is the base, later ones may be lower.
    let base_timestamp = records.first().expect("a batch has records").timestamp;
    let placed = || records.iter().zip(deltas.clone());
    let bytes = placed().map(|(record, delta)| record.bytes(base_timestamp, delta)).sum();
    let mut body = Vec::with_capacity(bytes);
    let mut max_timestamp = base_timestamp;
    let mut last_offset_delta = 0;
    for (record, delta) in placed() {
        record.write(&mut body, base_timestamp, delta);
        max_timestamp = max_timestamp.max(record.timestamp);
        last_offset_delta = delta;
    }
    let head = Head {
        base_offset: 0,
        batch_length: 0,
        leader_epoch: -1,
        magic: 2,
        crc: 0,
        attributes: i16::from(codec.id()),
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: records.len() as i32,
    };
    (head, Bytes::from(codec.compress(body)))
}

/// Most bytes that a batch of `records` takes before compression, head included.
///
/// What does not compress grows by a few bytes per block instead: compare [`Outgoing::len`] with
/// the limit where it is close.
pub fn encoded_size_estimate(records: &[Record]) -> usize {
    HEAD_BYTES + records.iter().map(Record::encoded_size_max).sum::<usize>()
}

/// Cuts `records` into stretches of at most `records_max` whose uncompressed batches take at most
/// `batch_bytes_max` bytes each. A record that alone takes more comes alone. A limit of 0 records
/// counts as 1.
pub fn split(
    records: &[Record],
    batch_bytes_max: usize,
    records_max: usize,
) -> impl Iterator<Item = &[Record]> {
    let mut rest = records;
    std::iter::from_fn(move || {
        let mut bytes = HEAD_BYTES;
        let fits = rest
            .iter()
            .take(records_max)
            .take_while(|record| {
                bytes = bytes.saturating_add(record.encoded_size_max());
                bytes <= batch_bytes_max
            })
            .count();
        let (stretch, later) = rest.split_at_checked(fits.max(1))?;
        rest = later;
        Some(stretch)
    })
}
