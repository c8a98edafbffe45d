//! gzip, one or more members.
//!
//! Java's `GZIPInputStream` reads members until what follows is not a member, and ignores the
//! rest; so does this.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;

use super::CodecFault;

/// How a member begins.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

pub(super) fn compress(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("memory takes what is written")
}

pub(super) fn decompress(mut packed: &[u8], limit: usize) -> Result<Vec<u8>, CodecFault> {
    let mut body = Vec::new();
    loop {
        let mut member = GzDecoder::new(packed);
        let left = (limit - body.len()) as u64;
        // One byte more than fits tells a full body from a larger one, and the checksum of a body
        // that fits exactly is still read.
        member
            .by_ref()
            .take(left.saturating_add(1))
            .read_to_end(&mut body)
            .map_err(CodecFault::damaged)?;
        if body.len() > limit {
            return Err(CodecFault::TooLarge);
        }
        packed = member.into_inner();
        if !packed.starts_with(&MAGIC) {
            return Ok(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_follow_one_another_and_what_is_no_member_is_ignored() {
        let mut packed = compress(b"one, ");
        packed.extend(compress(b"two"));
        packed.extend(b"tail");
        assert_eq!(decompress(&packed, 8), Ok(b"one, two".to_vec()));
        assert_eq!(decompress(&packed, 7), Err(CodecFault::TooLarge));
    }
}
