//! Records of format 2: read one by one out of a body, and write.

use std::ops::Range;

use bytes::Bytes;

use crate::reader::{Fault, Reader, put_varlong, varlong_bytes};
use crate::{BatchError, Head};

/// One record. Keys and values are slices of the batch they came from (or of its decompressed
/// body), so a record keeps those bytes alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The record's offset in the log it was read from.
    pub offset: i64,
    /// The timestamp as a consumer of that log sees it; -1 where the format had none.
    pub timestamp: i64,
    /// The key; null and empty differ.
    pub key: Option<Bytes>,
    /// The value; null (a tombstone where the topic is compacted) and empty differ.
    pub value: Option<Bytes>,
    /// The headers in their order, repeats included.
    pub headers: Vec<Header>,
}

/// One header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The key. Kafka means UTF-8 and does not enforce it.
    pub key: Bytes,
    /// The value; null and empty differ.
    pub value: Option<Bytes>,
}

/// One record that borrows everything from its batch: for looking at many and keeping none.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// As [`Record::offset`].
    pub offset: i64,
    /// As [`Record::timestamp`].
    pub timestamp: i64,
    /// As [`Record::key`].
    pub key: Option<&'a [u8]>,
    /// As [`Record::value`].
    pub value: Option<&'a [u8]>,
    body: &'a [u8],
    headers: &'a [HeaderSpan],
}

impl<'a> RecordView<'a> {
    /// Keys and values of the headers in their order, repeats included.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)> {
        let body = self.body;
        self.headers
            .iter()
            .map(move |(key, value)| (&body[key.clone()], value.clone().map(|value| &body[value])))
    }
}

/// Where key and value of a header are in the body.
type HeaderSpan = (Range<usize>, Option<Range<usize>>);

/// Where a record is in the body. Its headers' places are kept apart, to be used again.
struct Spans {
    offset: i64,
    timestamp: i64,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
}

/// Length, attributes, timestamp delta, offset delta, null key, null value, no headers: a byte each.
const RECORD_BYTES_MIN: usize = 7;

/// An empty key and a null value: a byte each.
const HEADER_BYTES_MIN: usize = 2;

/// Most bytes a record takes beside its key, value and headers: attributes, a 10-byte timestamp
/// delta, and five 5-byte numbers (record length, offset delta, key and value length, header count).
const RECORD_OVERHEAD_MAX: usize = 1 + 10 + 5 * 5;

impl Record {
    /// Most bytes the record takes in an uncompressed batch, wherever in the batch it stands.
    pub fn encoded_size_max(&self) -> usize {
        let payload = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        let headers: usize = self
            .headers
            .iter()
            .map(|header| 2 * 5 + header.key.len() + payload(&header.value))
            .sum();
        RECORD_OVERHEAD_MAX + payload(&self.key) + payload(&self.value) + headers
    }

    /// What the record's length field says when it stands in this place.
    fn length(&self, base_timestamp: i64, offset_delta: i32) -> usize {
        1 + varlong_bytes(self.timestamp.wrapping_sub(base_timestamp))
            + varlong_bytes(i64::from(offset_delta))
            + nullable_bytes(self.key.as_ref())
            + nullable_bytes(self.value.as_ref())
            + varlong_bytes(self.headers.len() as i64)
            + self.headers.iter().map(Header::bytes).sum::<usize>()
    }

    /// Bytes that [`Record::write`] appends.
    pub(crate) fn bytes(&self, base_timestamp: i64, offset_delta: i32) -> usize {
        let length = self.length(base_timestamp, offset_delta);
        varlong_bytes(length as i64) + length
    }

    /// Appends the record to a body. `base_timestamp` is the head's.
    pub(crate) fn write(&self, out: &mut Vec<u8>, base_timestamp: i64, offset_delta: i32) {
        put_varlong(out, self.length(base_timestamp, offset_delta) as i64);
        out.push(0); // The record's own attributes: none are defined.
        put_varlong(out, self.timestamp.wrapping_sub(base_timestamp));
        put_varlong(out, i64::from(offset_delta));
        put_nullable(out, self.key.as_ref());
        put_nullable(out, self.value.as_ref());
        put_varlong(out, self.headers.len() as i64);
        for header in &self.headers {
            put_nullable(out, Some(&header.key));
            put_nullable(out, header.value.as_ref());
        }
    }
}

impl Header {
    fn bytes(&self) -> usize {
        nullable_bytes(Some(&self.key)) + nullable_bytes(self.value.as_ref())
    }
}

fn nullable_bytes(bytes: Option<&Bytes>) -> usize {
    bytes.map_or(1, |bytes| varlong_bytes(bytes.len() as i64) + bytes.len())
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&Bytes>) {
    match bytes {
        Some(bytes) => {
            put_varlong(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
        None => put_varlong(out, -1),
    }
}

/// The records of one batch, decoded one by one. After an error it ends.
#[derive(Clone, Debug)]
pub struct Records {
    body: Reader,
    base_offset: i64,
    base_timestamp: i64,
    /// Stands in for every record's timestamp where the broker stamped the batch.
    append_time: Option<i64>,
    last_offset_delta: i32,
    /// The offset delta of the record before; -1 before the first.
    previous_delta: i32,
    index: u32,
    count: u32,
    /// Of the record read last.
    headers: Vec<HeaderSpan>,
}

impl Records {
    /// `body` is the decompressed body of the batch that `head` heads.
    pub(crate) fn new(head: &Head, body: Bytes) -> Result<Self, BatchError> {
        let count = u32::try_from(head.record_count).unwrap_or(0);
        if body.len() / RECORD_BYTES_MIN < count as usize {
            let what = "there are more records than the body has room for";
            return Err(BatchError::Head { offset: head.base_offset, what });
        }
        Ok(Self {
            body: Reader::new(body),
            base_offset: head.base_offset,
            base_timestamp: head.base_timestamp,
            append_time: head.is_append_time().then_some(head.max_timestamp),
            last_offset_delta: head.last_offset_delta,
            previous_delta: -1,
            index: 0,
            count,
            headers: Vec::new(),
        })
    }

    /// The next record without keeping anything of it: no allocation but for the first headers.
    /// After an error it ends.
    pub fn next_view(&mut self) -> Option<Result<RecordView<'_>, BatchError>> {
        let spans = match self.step()? {
            Ok(spans) => spans,
            Err(error) => return Some(Err(error)),
        };
        let body: &[u8] = self.body.bytes();
        Some(Ok(RecordView {
            offset: spans.offset,
            timestamp: spans.timestamp,
            key: spans.key.map(|key| &body[key]),
            value: spans.value.map(|value| &body[value]),
            body,
            headers: &self.headers,
        }))
    }

    fn step(&mut self) -> Option<Result<Spans, BatchError>> {
        let index = self.index;
        let spans = if index < self.count {
            self.read()
        } else if self.body.remaining() > 0 && self.count > 0 {
            Err("there are bytes beyond the last record")
        } else {
            return None;
        };
        self.index += 1;
        Some(spans.map_err(|what| {
            self.count = 0;
            BatchError::Record { offset: self.base_offset, index, what }
        }))
    }

    fn read(&mut self) -> Result<Spans, Fault> {
        let length = usize::try_from(self.body.varint()?).map_err(|_| "its length is negative")?;
        let end = self.body.narrow(length)?;
        self.body.i8()?; // The record's own attributes: none are defined.
        let timestamp_delta = self.body.varlong()?;
        let offset_delta = self.body.varint()?;
        if offset_delta <= self.previous_delta || offset_delta > self.last_offset_delta {
            return Err("its offset is out of order or outside the batch");
        }
        self.previous_delta = offset_delta;
        let key = self.body.nullable()?;
        let value = self.body.nullable()?;
        self.read_headers()?;
        if self.body.remaining() > 0 {
            return Err("it is longer than its fields");
        }
        self.body.widen(end);
        Ok(Spans {
            offset: self.base_offset + i64::from(offset_delta),
            timestamp: self
                .append_time
                .unwrap_or_else(|| self.base_timestamp.wrapping_add(timestamp_delta)),
            key,
            value,
        })
    }

    fn read_headers(&mut self) -> Result<(), Fault> {
        let count =
            usize::try_from(self.body.varint()?).map_err(|_| "its header count is negative")?;
        if self.body.remaining() / HEADER_BYTES_MIN < count {
            return Err("it has more headers than it has room for");
        }
        self.headers.clear();
        self.headers.reserve(count);
        for _ in 0..count {
            let key = self.body.nullable()?.ok_or("a header key is null")?;
            let value = self.body.nullable()?;
            self.headers.push((key, value));
        }
        Ok(())
    }
}

impl Iterator for Records {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let spans = match self.step()? {
            Ok(spans) => spans,
            Err(error) => return Some(Err(error)),
        };
        let body = self.body.bytes();
        let headers = self.headers.iter().map(|(key, value)| Header {
            key: body.slice(key.clone()),
            value: value.clone().map(|value| body.slice(value)),
        });
        Some(Ok(Record {
            offset: spans.offset,
            timestamp: spans.timestamp,
            key: spans.key.map(|key| body.slice(key)),
            value: spans.value.map(|value| body.slice(value)),
            headers: headers.collect(),
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.count.saturating_sub(self.index) as usize + 1))
    }
}
