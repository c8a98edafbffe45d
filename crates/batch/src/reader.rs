//! Reads fields out of a buffer without ever going past its end.

use std::ops::Range;

use bytes::Bytes;

/// Why a field cannot be read; ends up in [`crate::BatchError::Record`].
pub(crate) type Fault = &'static str;

/// A position in a buffer, and an end that may lie before that of the buffer.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    bytes: Bytes,
    at: usize,
    end: usize,
}

impl Reader {
    pub(crate) fn new(bytes: Bytes) -> Self {
        let end = bytes.len();
        Self { bytes, at: 0, end }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.end - self.at
    }

    /// Narrows the reader to its next `len` bytes; the answer goes to [`Reader::widen`].
    pub(crate) fn narrow(&mut self, len: usize) -> Result<usize, Fault> {
        if len > self.remaining() {
            return Err("the record is longer than the rest of the batch");
        }
        Ok(std::mem::replace(&mut self.end, self.at + len))
    }

    /// Takes back what [`Reader::narrow`] did.
    pub(crate) fn widen(&mut self, end: usize) {
        self.end = end;
    }

    fn take(&mut self, len: usize) -> Result<&[u8], Fault> {
        if len > self.remaining() {
            return Err("a field goes past the end");
        }
        let from = self.at;
        self.at += len;
        Ok(&self.bytes[from..self.at])
    }

    /// The buffer, in which spans are places.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Where the next `len` bytes are.
    fn span(&mut self, len: usize) -> Result<Range<usize>, Fault> {
        if len > self.remaining() {
            return Err("a length goes past the end");
        }
        let from = self.at;
        self.at += len;
        Ok(from..self.at)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut value = [0; N];
        value.copy_from_slice(self.take(N)?);
        Ok(value)
    }

    pub(crate) fn i8(&mut self) -> Result<i8, Fault> {
        self.array().map(i8::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Fault> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Fault> {
        self.array().map(i64::from_be_bytes)
    }

    /// Base 128, least significant group first. Bits beyond the 64th are dropped, as Kafka does.
    fn unsigned(&mut self, bytes_max: usize) -> Result<u64, Fault> {
        let mut value = 0;
        for (group, byte) in self.bytes[self.at..self.end].iter().take(bytes_max).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * group);
            if byte & 0x80 == 0 {
                self.at += group + 1;
                return Ok(value);
            }
        }
        Err("a variable-length number does not end")
    }

    /// A zig-zag number of at most 5 bytes.
    pub(crate) fn varint(&mut self) -> Result<i32, Fault> {
        let value = self.unsigned(5)? as u32;
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// A zig-zag number of at most 10 bytes.
    pub(crate) fn varlong(&mut self) -> Result<i64, Fault> {
        let value = self.unsigned(10)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A variable-length length and that many bytes: where they are; null for any negative length,
    /// as Kafka reads.
    pub(crate) fn nullable(&mut self) -> Result<Option<Range<usize>>, Fault> {
        let length = self.varint()?;
        usize::try_from(length).ok().map(|length| self.span(length)).transpose()
    }

    /// A 4-byte length and that many bytes (formats 0 and 1), by reference to the same buffer.
    pub(crate) fn nullable_fixed(&mut self) -> Result<Option<Bytes>, Fault> {
        let length = self.i32()?;
        let span = usize::try_from(length).ok().map(|length| self.span(length)).transpose()?;
        Ok(span.map(|span| self.bytes.slice(span)))
    }
}

/// Appends `value` in zig-zag base 128; for 32-bit numbers the bytes are the same.
pub(crate) fn put_varlong(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// How many bytes [`put_varlong`] appends.
pub(crate) fn varlong_bytes(value: i64) -> usize {
    let zigzag = ((value << 1) ^ (value >> 63)) as u64;
    (64 - (zigzag | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_length_numbers_are_those_of_kafka() {
        // Kafka's ByteUtilsTest.
        let cases: [(i64, &[u8]); 10] = [
            (0, &[0x00]),
            (-1, &[0x01]),
            (1, &[0x02]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (8191, &[0xfe, 0x7f]),
            (i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
            (i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ];
        for (value, bytes) in cases {
            let mut out = Vec::new();
            put_varlong(&mut out, value);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(varlong_bytes(value), bytes.len(), "{value}");
            assert_eq!(Reader::new(Bytes::from_static(bytes)).varlong(), Ok(value));
            if let Ok(small) = i32::try_from(value) {
                assert_eq!(Reader::new(Bytes::from_static(bytes)).varint(), Ok(small));
            }
        }
    }

    #[test]
    fn a_number_that_does_not_end_is_refused() {
        assert!(Reader::new(Bytes::from_static(&[0x80; 5])).varint().is_err());
        assert!(Reader::new(Bytes::from_static(&[0xff; 11])).varlong().is_err());
        assert!(Reader::new(Bytes::from_static(&[0x80])).varlong().is_err());
    }
}
