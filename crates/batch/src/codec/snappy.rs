//! Snappy, in xerial's framing and bare.
//!
//! Java's `SnappyOutputStream` writes a 16-byte header (magic, version, oldest compatible version)
//! and then blocks of at most 32 KiB, each after its compressed length. The header may come again
//! where streams were joined. Some clients write one bare block; Java reads that too.

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::CodecFault;

/// `\x82SNAPPY\0`.
const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];

/// Magic, version 1, readable from version 1 on.
const HEADER: [u8; 16] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];

/// `SnappyOutputStream`'s default, which Kafka leaves.
const BLOCK_BYTES: usize = 32 << 10;

/// No block grows by more than this: a copy of 64 bytes takes 3 bytes.
const GROWTH_MAX: usize = 22;

pub(super) fn compress(body: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(HEADER.len() + body.len() / 2);
    packed.extend_from_slice(&HEADER);
    let mut encoder = Encoder::new();
    let mut buffer = vec![0; max_compress_len(BLOCK_BYTES)];
    for block in body.chunks(BLOCK_BYTES) {
        let len = encoder.compress(block, &mut buffer).expect("the buffer holds the worst case");
        packed.extend_from_slice(&(len as u32).to_be_bytes());
        packed.extend_from_slice(&buffer[..len]);
    }
    packed
}

pub(super) fn decompress(packed: &[u8], limit: usize) -> Result<Vec<u8>, CodecFault> {
    let mut body = Vec::new();
    let mut decoder = Decoder::new();
    if !packed.starts_with(&MAGIC) {
        append(&mut decoder, packed, &mut body, limit)?;
        return Ok(body);
    }
    let mut rest = packed;
    while !rest.is_empty() {
        if rest.starts_with(&MAGIC) {
            rest = rest
                .get(HEADER.len()..)
                .ok_or_else(|| CodecFault::damaged("the header is cut off"))?;
            continue;
        }
        let (length, blocks) = rest
            .split_first_chunk()
            .ok_or_else(|| CodecFault::damaged("a block length is cut off"))?;
        let (block, later) = blocks
            .split_at_checked(u32::from_be_bytes(*length) as usize)
            .ok_or_else(|| CodecFault::damaged("a block is cut off"))?;
        append(&mut decoder, block, &mut body, limit)?;
        rest = later;
    }
    Ok(body)
}

/// Decompresses one block to the end of `body`.
fn append(
    decoder: &mut Decoder,
    block: &[u8],
    body: &mut Vec<u8>,
    limit: usize,
) -> Result<(), CodecFault> {
    let from = body.len();
    let claimed = decompress_len(block).map_err(CodecFault::damaged)?;
    if claimed > block.len().saturating_mul(GROWTH_MAX) {
        return Err(CodecFault::damaged("a block claims more than it can hold"));
    }
    if claimed > limit - from {
        return Err(CodecFault::TooLarge);
    }
    body.resize(from + claimed, 0);
    decoder.decompress(block, &mut body[from..]).map_err(CodecFault::damaged)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_framed_as_java_frames_them() {
        let packed = compress(b"twinlog");
        let block = [7, 6 << 2, b't', b'w', b'i', b'n', b'l', b'o', b'g'];
        let expected = [&HEADER[..], &[0, 0, 0, 9], &block].concat();
        assert_eq!(packed, expected);
        assert_eq!(decompress(&block, 7), Ok(b"twinlog".to_vec()), "a bare block is read");
    }

    #[test]
    fn joined_streams_are_read_through() {
        let packed = [compress(b"one, "), compress(b"two")].concat();
        assert_eq!(decompress(&packed, 8), Ok(b"one, two".to_vec()));
    }

    #[test]
    fn a_length_that_no_block_can_hold_is_refused_before_memory_is_taken() {
        let block = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
        let packed = [&HEADER[..], &[0, 0, 0, 6], &block].concat();
        assert!(matches!(decompress(&block, usize::MAX), Err(CodecFault::Damaged(_))));
        assert!(matches!(decompress(&packed, usize::MAX), Err(CodecFault::Damaged(_))));
    }
}
