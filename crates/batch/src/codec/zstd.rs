//! Zstandard.
//!
//! Decompression is done in one piece: a streaming decoder would take the window that the frame
//! asks for (up to 128 MiB), whatever the body turns out to be.

use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd::zstd_safe::{DCtx, get_error_name, get_frame_content_size, is_error_kind};

use super::CodecFault;

/// What Kafka's producer has by default (`compression.zstd.level`).
const LEVEL: i32 = 3;

/// The first guess for a frame that does not say how long its content is (Java's do not): bodies
/// rarely shrink to less than an eighth.
const GROWTH_GUESS: usize = 8;

pub(super) fn compress(body: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(body, LEVEL).expect("the buffer holds the worst case")
}

pub(super) fn decompress(packed: &[u8], limit: usize) -> Result<Vec<u8>, CodecFault> {
    let mut decoder = DCtx::try_create().ok_or_else(|| CodecFault::damaged("out of memory"))?;
    // A claimed size is only a first guess: it may lie, and more frames may follow.
    let guess = packed.len().saturating_mul(GROWTH_GUESS).max(1 << 10);
    let mut room = match get_frame_content_size(packed) {
        Ok(Some(claimed)) => usize::try_from(claimed).unwrap_or(usize::MAX).min(guess.max(4 << 20)),
        _ => guess,
    };
    loop {
        room = room.min(limit);
        let mut body = Vec::with_capacity(room);
        match decoder.decompress(&mut body, packed) {
            // The allocator may have given more room than was asked for.
            Ok(_) if body.len() <= limit => return Ok(body),
            Ok(_) => return Err(CodecFault::TooLarge),
            Err(code) if is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) => {
                if room == limit {
                    return Err(CodecFault::TooLarge);
                }
                room = room.saturating_mul(4);
            }
            Err(code) => return Err(CodecFault::damaged(get_error_name(code))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn frames_without_a_content_size_are_read() {
        // As Java writes them: streamed, the size unknown at the start.
        let body = b"a body that shrinks a lot ".repeat(100_000);
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), LEVEL).expect("memory");
        encoder.write_all(&body).expect("memory");
        let packed = encoder.finish().expect("memory");
        assert_eq!(get_frame_content_size(&packed).ok().flatten(), None);
        assert_eq!(decompress(&packed, body.len()).as_ref(), Ok(&body));
        assert_eq!(decompress(&packed, body.len() - 1), Err(CodecFault::TooLarge));
    }

    #[test]
    fn frames_follow_one_another() {
        let packed = [compress(b"one, "), compress(b"two")].concat();
        assert_eq!(decompress(&packed, 8), Ok(b"one, two".to_vec()));
    }
}
