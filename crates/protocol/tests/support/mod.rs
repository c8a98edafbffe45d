//! Messages with something in every field, for tests that go over all of them.
//!
//! Nobody writes 600 messages by hand, and a default message has empty arrays, which hides
//! everything inside them. So the decoder is run on a source that makes up what it is asked for:
//! every array has one element, every string one letter, every nullable field is there. What was
//! handed out is a filled message, and where each integer lies in it is known.

#![allow(dead_code, reason = "each test binary uses its part")]

use bytes::{Buf, Bytes, TryGetError};
use kafka_protocol::protocol::Decodable;
use kafka_protocol::protocol::buf::{ByteBuf, NotEnoughBytesError};
use std::ops::Range;

/// What was read at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One byte: a flag, or a varint of one byte.
    Byte,
    /// Two bytes: a number, or the length of a string.
    Short,
    /// Four bytes: a number, or the length of an array or of bytes.
    Int,
}

/// A message and the places of its numbers.
pub(crate) struct Filled {
    pub(crate) bytes: Bytes,
    pub(crate) places: Vec<(usize, Kind)>,
}

/// The filled message of a type at a version.
pub(crate) fn filled<M: Decodable>(version: i16) -> Filled {
    let mut source = Source { bytes: Vec::new(), places: Vec::new() };
    assert!(M::decode(&mut source, version).is_ok(), "an endless source is enough");
    Filled { bytes: source.bytes.into(), places: source.places }
}

/// Makes up whatever is read.
struct Source {
    bytes: Vec<u8>,
    places: Vec<(usize, Kind)>,
}

impl Source {
    fn number(&mut self, kind: Kind, bytes: &[u8]) {
        self.places.push((self.bytes.len(), kind));
        self.bytes.extend_from_slice(bytes);
    }
}

impl Buf for Source {
    fn remaining(&self) -> usize {
        usize::MAX / 2
    }

    fn chunk(&self) -> &[u8] {
        unreachable!("the codec reads through the methods below")
    }

    fn advance(&mut self, _count: usize) {
        unreachable!("the codec reads through the methods below")
    }

    /// As a varint 2 is the length 1, or two tagged fields with the tag 2.
    fn try_get_u8(&mut self) -> Result<u8, TryGetError> {
        self.number(Kind::Byte, &[2]);
        Ok(2)
    }

    /// As the mark of a nullable struct 1 says that it is there.
    fn try_get_i8(&mut self) -> Result<i8, TryGetError> {
        self.bytes.push(1);
        Ok(1)
    }

    fn try_get_i16(&mut self) -> Result<i16, TryGetError> {
        self.number(Kind::Short, &1_i16.to_be_bytes());
        Ok(1)
    }

    fn try_get_u16(&mut self) -> Result<u16, TryGetError> {
        self.number(Kind::Short, &1_u16.to_be_bytes());
        Ok(1)
    }

    fn try_get_i32(&mut self) -> Result<i32, TryGetError> {
        self.number(Kind::Int, &1_i32.to_be_bytes());
        Ok(1)
    }

    fn try_get_u32(&mut self) -> Result<u32, TryGetError> {
        self.number(Kind::Int, &1_u32.to_be_bytes());
        Ok(1)
    }

    fn try_get_i64(&mut self) -> Result<i64, TryGetError> {
        self.bytes.extend_from_slice(&7_i64.to_be_bytes());
        Ok(7)
    }

    fn try_get_f64(&mut self) -> Result<f64, TryGetError> {
        self.bytes.extend_from_slice(&0.5_f64.to_be_bytes());
        Ok(0.5)
    }

    fn try_copy_to_slice(&mut self, slice: &mut [u8]) -> Result<(), TryGetError> {
        slice.fill(9);
        self.bytes.extend_from_slice(slice);
        Ok(())
    }
}

impl ByteBuf for Source {
    fn peek_bytes(&mut self, _range: Range<usize>) -> Bytes {
        unreachable!("the codec does not look ahead")
    }

    fn get_bytes(&mut self, size: usize) -> Bytes {
        let bytes = vec![b'a'; size];
        self.bytes.extend_from_slice(&bytes);
        bytes.into()
    }

    fn try_get_bytes(&mut self, size: usize) -> Result<Bytes, NotEnoughBytesError> {
        Ok(self.get_bytes(size))
    }
}
