//! Everything that looks random in a cluster, from its seed: ids of topics, producers and members.
//!
//! Is not for secrets.

/// Small, seeded, and the same on every machine (SplitMix64).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A version 4 UUID.
    pub(crate) fn id(&mut self) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.next().to_be_bytes());
        id[8..].copy_from_slice(&self.next().to_be_bytes());
        id[6] = (id[6] & 0x0f) | 0x40;
        id[8] = (id[8] & 0x3f) | 0x80;
        id
    }

    /// An id as the group coordinator makes it for members of KIP-848 that have none: Kafka's
    /// `Uuid` as a text, 22 characters of URL-safe base64. Like Kafka's, it never begins with a
    /// dash, which command lines would take for an option.
    pub(crate) fn member_id(&mut self) -> String {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        loop {
            // 128 bits and four that are missing for the last character.
            let bits = u128::from_be_bytes(self.id());
            let sextet = |index: u32| match index {
                21 => bits << 4,
                _ => bits >> (122 - 6 * index),
            };
            let text: String = (0..22)
                .map(|index| char::from(ALPHABET[(sextet(index) & 0x3f) as usize]))
                .collect();
            if !text.starts_with('-') {
                return text;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn member_ids_are_uuids_in_base64() {
        let id = Random::new(7).id();
        let text = Random::new(7).member_id();
        assert_eq!(text.len(), 22);
        // Decoded by hand: six bits a character, the first 128 of them.
        let value = |c: u8| match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'-' => 62,
            _ => 63,
        };
        let bits: Vec<u8> =
            text.bytes().flat_map(|c| (0..6).rev().map(move |bit| (value(c) >> bit) & 1)).collect();
        let byte = |bits: &[u8]| bits.iter().fold(0, |byte, bit| byte << 1 | bit);
        let decoded: Vec<u8> = bits[..128].chunks(8).map(byte).collect();
        assert_eq!(decoded, id);
        assert_eq!(bits[128..], [0; 4]);
    }

    #[test]
    fn no_member_id_begins_with_a_dash() {
        let mut random = Random::new(1);
        assert!((0..1_000).all(|_| !random.member_id().starts_with('-')));
    }
}
