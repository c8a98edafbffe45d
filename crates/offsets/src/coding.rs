//! Numbers and names as bytes: the primitives of every durable form in this crate.
//!
//! Unsigned numbers are LEB128 varints in their shortest form, signed ones are zigzagged first,
//! texts carry their length. Only the shortest form is read, so that equal values are equal bytes:
//! a compacted topic compares keys byte by byte.

use crate::Malformed;

/// The version that every durable form of this crate starts with.
pub(crate) const VERSION: u8 = 1;

/// Appends `value` in 1 to 10 bytes.
pub(crate) fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` zigzagged, so that small negative numbers stay short.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends `text` with its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_unsigned(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads what the `put_` functions wrote. Never reads past the end, never allocates.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (&byte, rest) = self.0.split_first().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(byte)
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn unsigned(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit; a last byte of zero says nothing.
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return Err(Malformed::Number);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Number)
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A number of a narrower type.
    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.unsigned()?).map_err(|_| Malformed::Number)
    }

    /// A signed number of a narrower type.
    pub(crate) fn narrow_signed<T: TryFrom<i64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.signed()?).map_err(|_| Malformed::Number)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        // A length beyond the address space is certainly beyond the end.
        let length = usize::try_from(self.unsigned()?).map_err(|_| Malformed::Truncated)?;
        std::str::from_utf8(self.take(length)?).map_err(|_| Malformed::Text)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Malformed::Flag(other)),
        }
    }

    /// The version byte; any other than ours is an error.
    pub(crate) fn version(&mut self) -> Result<(), Malformed> {
        match self.byte()? {
            VERSION => Ok(()),
            other => Err(Malformed::Version(other)),
        }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.0.len()
    }

    /// States that everything was read.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        match self.0.len() {
            0 => Ok(()),
            bytes => Err(Malformed::Trailing(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_at_the_edges_of_every_length() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, (1u64 << shift).wrapping_neg()] {
                let mut bytes = Vec::new();
                put_unsigned(&mut bytes, value);
                put_signed(&mut bytes, value as i64);
                let mut reader = Reader::new(&bytes);
                assert_eq!(reader.unsigned(), Ok(value));
                assert_eq!(reader.signed(), Ok(value as i64));
                assert_eq!(reader.end(), Ok(()));
            }
        }
    }

    #[test]
    fn only_the_shortest_form_of_a_number_is_read() {
        assert_eq!(Reader::new(&[0x80, 0x00]).unsigned(), Err(Malformed::Number));
        assert_eq!(Reader::new(&[0x00]).unsigned(), Ok(0));
        let mut eleven = [0xff; 11];
        assert_eq!(Reader::new(&eleven).unsigned(), Err(Malformed::Number));
        eleven[9] = 0x01;
        assert_eq!(Reader::new(&eleven).unsigned(), Ok(u64::MAX));
        eleven[9] = 0x02;
        assert_eq!(Reader::new(&eleven).unsigned(), Err(Malformed::Number));
    }

    #[test]
    fn a_length_beyond_the_end_is_refused_before_anything_is_allocated() {
        let mut bytes = Vec::new();
        put_unsigned(&mut bytes, u64::MAX);
        bytes.push(b'x');
        assert_eq!(Reader::new(&bytes).text(), Err(Malformed::Truncated));
    }
}
