//! LZ4 frames as Kafka clients write and read them.
//!
//! Written: independent blocks of 64 KiB, no checksums, no content size, as `Lz4BlockOutputStream`
//! does. Read: one frame with any of the options of the frame format except dictionaries. What
//! follows the end mark is ignored, as `Lz4BlockInputStream` ignores it. The reader is ours because
//! the library's takes buffers of the size a frame asks for, and cannot read the frames of format 0,
//! whose header checksum Kafka 0.8 and 0.9 computed over the magic number too.
//!
//! Reference: lz4_Frame_format.md; KAFKA-3160.

use std::io::Write;

use lz4_flex::block::{DecompressError, decompress_into, decompress_into_with_dict};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use twox_hash::XxHash32;

use super::CodecFault;

/// Whether the checksum of the frame header is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// It must hold.
    Checked,
    /// It may be anything: format 0.
    Unchecked,
}

const MAGIC: u32 = 0x184d_2204;

const VERSION_MASK: u8 = 0b1100_0000;
const VERSION: u8 = 0b0100_0000;
const INDEPENDENT: u8 = 0b0010_0000;
const BLOCK_CHECKSUM: u8 = 0b0001_0000;
const CONTENT_SIZE: u8 = 0b0000_1000;
const CONTENT_CHECKSUM: u8 = 0b0000_0100;
const RESERVED: u8 = 0b0000_0010;
const DICTIONARY: u8 = 0b0000_0001;

/// The bit of a block length that says the block is stored as it is.
const STORED: u32 = 1 << 31;

/// How far back a block that is not independent may reach.
const WINDOW_BYTES: usize = 64 << 10;

/// No block grows by more than this: each further byte of a length stands for 255 bytes.
const GROWTH_MAX: usize = 255;

pub(super) fn compress(body: &[u8]) -> Vec<u8> {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(body).expect("memory takes what is written");
    encoder.finish().expect("memory takes what is written")
}

/// The fields of a frame that are left to read.
struct Frame<'a> {
    rest: &'a [u8],
}

impl<'a> Frame<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], CodecFault> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| CodecFault::damaged("the frame is cut off"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, CodecFault> {
        self.take(1).map(|byte| byte[0])
    }

    fn word(&mut self) -> Result<u32, CodecFault> {
        let mut word = [0; 4];
        word.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(word))
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    XxHash32::oneshot(0, bytes)
}

pub(super) fn decompress(
    packed: &[u8],
    limit: usize,
    header: Header,
) -> Result<Vec<u8>, CodecFault> {
    let mut frame = Frame { rest: packed };
    if frame.word()? != MAGIC {
        return Err(CodecFault::damaged("the frame does not begin with LZ4's magic number"));
    }
    let descriptor = frame.rest;
    let flags = frame.byte()?;
    let block_bytes_max = match (flags & VERSION_MASK, frame.byte()? >> 4) {
        (VERSION, size @ 4..=7) => 1 << (8 + 2 * size),
        (VERSION, _) => return Err(CodecFault::damaged("the block size is none that LZ4 knows")),
        _ => return Err(CodecFault::damaged("the frame has an unknown version")),
    };
    if flags & (RESERVED | DICTIONARY) != 0 {
        return Err(CodecFault::damaged("the frame needs a dictionary or an unknown option"));
    }
    if flags & CONTENT_SIZE != 0 {
        frame.take(8)?;
    }
    let descriptor = &descriptor[..descriptor.len() - frame.rest.len()];
    if frame.byte()? != (checksum(descriptor) >> 8) as u8 && header == Header::Checked {
        return Err(CodecFault::damaged("the frame header fails its checksum"));
    }

    let mut body = Vec::new();
    loop {
        let length = frame.word()?;
        if length == 0 {
            break;
        }
        let block = frame.take((length & !STORED) as usize)?;
        if flags & BLOCK_CHECKSUM != 0 && frame.word()? != checksum(block) {
            return Err(CodecFault::damaged("a block fails its checksum"));
        }
        if length & STORED == 0 {
            append(block, &mut body, block_bytes_max, limit, flags & INDEPENDENT != 0)?;
        } else if block.len() > block_bytes_max {
            return Err(CodecFault::damaged("a block is larger than the frame allows"));
        } else if block.len() > limit - body.len() {
            return Err(CodecFault::TooLarge);
        } else {
            body.extend_from_slice(block);
        }
    }
    if flags & CONTENT_CHECKSUM != 0 && frame.word()? != checksum(&body) {
        return Err(CodecFault::damaged("the content fails its checksum"));
    }
    Ok(body)
}

/// Decompresses one block to the end of `body`.
fn append(
    block: &[u8],
    body: &mut Vec<u8>,
    block_bytes_max: usize,
    limit: usize,
    independent: bool,
) -> Result<(), CodecFault> {
    let from = body.len();
    let possible = block_bytes_max.min(block.len().saturating_mul(GROWTH_MAX));
    let room = possible.min(limit - from);
    body.resize(from + room, 0);
    let (before, into) = body.split_at_mut(from);
    let decompressed = if independent {
        decompress_into(block, into)
    } else {
        let window = &before[before.len().saturating_sub(WINDOW_BYTES)..];
        decompress_into_with_dict(block, into, window)
    };
    match decompressed {
        Ok(len) => {
            body.truncate(from + len);
            Ok(())
        }
        Err(DecompressError::OutputTooSmall { .. }) if room < possible => Err(CodecFault::TooLarge),
        Err(error) => Err(CodecFault::damaged(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(info: FrameInfo, body: &[u8]) -> Vec<u8> {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(body).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn frames_begin_as_javas_do() {
        // Magic, version 1 with independent blocks, 64 KiB, header checksum.
        assert_eq!(compress(b"x")[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
    }

    #[test]
    fn every_option_of_the_frame_is_read() {
        let body: Vec<u8> = (0..200_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for mode in [BlockMode::Independent, BlockMode::Linked] {
            for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
                for checksums in [false, true] {
                    let info = FrameInfo::new()
                        .block_mode(mode)
                        .block_size(size)
                        .block_checksums(checksums)
                        .content_checksum(checksums)
                        .content_size(checksums.then_some(body.len() as u64));
                    let packed = pack(info, &body);
                    let read = decompress(&packed, body.len(), Header::Checked);
                    assert!(read.as_ref() == Ok(&body), "{mode:?} {size:?} {checksums}");
                }
            }
        }
    }

    #[test]
    fn damage_under_a_checksum_is_found() {
        let info = FrameInfo::new().block_checksums(true).content_checksum(true);
        let packed = pack(info, b"some content");
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x10;
            assert!(decompress(&damaged, 1 << 20, Header::Checked).is_err(), "byte {at}");
        }
    }

    #[test]
    fn the_header_checksum_of_old_clients_is_read_where_it_is_allowed() {
        let mut packed = compress(b"from Kafka 0.8");
        packed[6] = (checksum(&packed[..6]) >> 8) as u8;
        assert_eq!(decompress(&packed, 99, Header::Unchecked), Ok(b"from Kafka 0.8".to_vec()));
        assert!(decompress(&packed, 99, Header::Checked).is_err());
    }
}
