//! The few primitive encodings that the hand-written headers and envelopes need.

use bytes::{Buf, BufMut, Bytes};

/// Writes Kafka's unsigned varint: seven bits a byte, the lowest first.
pub(crate) fn put_uvarint(buf: &mut impl BufMut, mut value: u32) {
    while value >= 0x80 {
        buf.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    buf.put_u8(value as u8);
}

/// Reads an unsigned varint; `None` when the bytes end inside it or it has more than 32 bits.
pub(crate) fn get_uvarint(buf: &mut Bytes) -> Option<u32> {
    let mut value = 0_u64;
    for shift in (0..35).step_by(7) {
        let byte = buf.try_get_u8().ok()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return u32::try_from(value).ok();
        }
    }
    None
}

/// Steps over a tagged-field section; `None` when the bytes end inside it.
pub(crate) fn skip_tagged_fields(buf: &mut Bytes) -> Option<()> {
    for _ in 0..get_uvarint(buf)? {
        let _tag = get_uvarint(buf)?;
        let size = get_uvarint(buf)? as usize;
        if size > buf.remaining() {
            return None;
        }
        buf.advance(size);
    }
    Some(())
}

/// Writes a string of the old encoding; `None` is null. The caller has checked the length.
pub(crate) fn put_string(buf: &mut impl BufMut, text: Option<&str>) {
    match text {
        Some(text) => {
            buf.put_i16(text.len() as i16);
            buf.put_slice(text.as_bytes());
        }
        None => buf.put_i16(-1),
    }
}

/// Writes a string of the flexible encoding; `None` is null.
pub(crate) fn put_compact_string(buf: &mut impl BufMut, text: Option<&str>) {
    match text {
        Some(text) => {
            put_uvarint(buf, text.len() as u32 + 1);
            buf.put_slice(text.as_bytes());
        }
        None => buf.put_u8(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varint_is_read_as_it_was_written() {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 0x0fff_ffff, 0x1000_0000, u32::MAX] {
            let mut bytes = Vec::new();
            put_uvarint(&mut bytes, value);
            let mut bytes = Bytes::from(bytes);
            assert_eq!(get_uvarint(&mut bytes), Some(value));
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn a_varint_of_more_than_32_bits_is_none() {
        assert_eq!(get_uvarint(&mut Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0x1f])), None);
        assert_eq!(get_uvarint(&mut Bytes::from_static(&[0xff; 6])), None);
    }

    #[test]
    fn a_tagged_field_that_claims_more_than_there_is_ends_nothing() {
        assert_eq!(skip_tagged_fields(&mut Bytes::from_static(&[1, 0, 3, 1, 2])), None);
        assert_eq!(
            skip_tagged_fields(&mut Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0x0f])),
            None
        );
        assert_eq!(skip_tagged_fields(&mut Bytes::from_static(&[1, 0, 2, 1, 2])), Some(()));
    }
}
