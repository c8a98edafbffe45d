//! Compression codecs as Kafka clients use them, decompression bounded by the caller.
//!
//! Does not: stream. A batch is compressed and decompressed as a whole.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use std::fmt;

use crate::BatchError;

pub(crate) use lz4::Header as Lz4Header;

/// How the body of a batch is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// RFC 1952, one or more members.
    Gzip,
    /// Snappy blocks in the framing of `SnappyOutputStream` (xerial); bare blocks are read too.
    Snappy,
    /// One LZ4 frame.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

/// Why a body cannot be decompressed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CodecFault {
    /// It would take more than the limit.
    TooLarge,
    /// It is not what the codec says.
    Damaged(String),
}

impl CodecFault {
    pub(crate) fn damaged(reason: impl fmt::Display) -> Self {
        Self::Damaged(reason.to_string())
    }

    /// The fault with its place.
    pub(crate) fn at(self, offset: i64, codec: Codec, limit: usize) -> BatchError {
        match self {
            Self::TooLarge => BatchError::TooLarge { offset, codec, limit },
            Self::Damaged(reason) => BatchError::Compression { offset, codec, reason },
        }
    }
}

impl Codec {
    /// Every codec.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The number in the attributes of a batch.
    pub fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The codec of a number; `None` for numbers Kafka has not given out.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.id() == id)
    }

    /// The name, as in `compression.type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec of a name that a producer's `compression.type` may have.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// `body` compressed, at the levels that Kafka's producer has by default.
    pub(crate) fn compress(self, body: Vec<u8>) -> Vec<u8> {
        match self {
            Self::None => body,
            Self::Gzip => gzip::compress(&body),
            Self::Snappy => snappy::compress(&body),
            Self::Lz4 => lz4::compress(&body),
            Self::Zstd => zstd::compress(&body),
        }
    }

    /// `body` decompressed into at most `limit` bytes. `lz4` matters to format 0 only.
    pub(crate) fn decompress(
        self,
        body: &[u8],
        limit: usize,
        lz4: Lz4Header,
    ) -> Result<Vec<u8>, CodecFault> {
        match self {
            Self::None if body.len() > limit => Err(CodecFault::TooLarge),
            Self::None => Ok(body.to_vec()),
            Self::Gzip => gzip::decompress(body, limit),
            Self::Snappy => snappy::decompress(body, limit),
            Self::Lz4 => lz4::decompress(body, limit, lz4),
            Self::Zstd => zstd::decompress(body, limit),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of it compresses well, half not at all, and it spans several blocks of every codec.
    fn sample() -> Vec<u8> {
        let mut state = 0x2545_f491_u32;
        let noise = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        });
        noise.take(100_000).chain(b"twinlog ".repeat(20_000)).collect()
    }

    fn unpack(codec: Codec, body: &[u8], limit: usize) -> Result<Vec<u8>, CodecFault> {
        codec.decompress(body, limit, Lz4Header::Checked)
    }

    #[test]
    fn every_codec_gives_back_what_it_took() {
        for codec in Codec::ALL {
            for body in [Vec::new(), vec![7], sample()] {
                let packed = codec.compress(body.clone());
                assert_eq!(unpack(codec, &packed, body.len()), Ok(body), "{codec}");
            }
        }
    }

    #[test]
    fn a_body_one_byte_over_the_limit_is_too_large() {
        let body = sample();
        for codec in Codec::ALL {
            let packed = codec.compress(body.clone());
            assert_eq!(
                unpack(codec, &packed, body.len() - 1),
                Err(CodecFault::TooLarge),
                "{codec}"
            );
            assert_eq!(unpack(codec, &packed, 0), Err(CodecFault::TooLarge), "{codec}");
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let body = vec![0; 64 << 20];
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let packed = codec.compress(body.clone());
            assert!(packed.len() < 4 << 20, "{codec} packs zeros");
            assert_eq!(unpack(codec, &packed, 1 << 20), Err(CodecFault::TooLarge), "{codec}");
        }
    }

    #[test]
    fn every_prefix_of_a_compressed_body_gives_no_more_than_the_whole() {
        let body: Vec<u8> = b"a body of some length, a body of some length".repeat(4);
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let packed = codec.compress(body.clone());
            for len in 0..packed.len() {
                if let Ok(part) = unpack(codec, &packed[..len], 1 << 20) {
                    assert!(body.starts_with(&part), "{codec} {len}");
                }
            }
        }
    }

    #[test]
    fn every_changed_byte_of_a_compressed_body_is_survived() {
        let body: Vec<u8> = b"a body of some length, a body of some length".repeat(4);
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let packed = codec.compress(body.clone());
            for at in 0..packed.len() {
                for value in [0x00, 0x01, 0x7f, 0x80, 0xff, packed[at] ^ 1, packed[at] ^ 0x80] {
                    let mut damaged = packed.clone();
                    damaged[at] = value;
                    if let Ok(other) = unpack(codec, &damaged, 1 << 20) {
                        assert!(other.len() <= 1 << 20);
                    }
                }
            }
        }
    }

    #[test]
    fn names_and_numbers_are_those_of_kafka() {
        let names = ["none", "gzip", "snappy", "lz4", "zstd"];
        for (id, name) in (0u8..).zip(names) {
            let codec = Codec::from_name(name).expect(name);
            assert_eq!((codec.id(), codec.name()), (id, name));
            assert_eq!(Codec::from_id(id), Some(codec));
        }
        assert_eq!(Codec::from_id(5), None);
        assert_eq!(Codec::from_name("brotli"), None);
    }
}
