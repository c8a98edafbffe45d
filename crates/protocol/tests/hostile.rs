//! No bytes abort the process, and none cost more memory than they are worth.
//!
//! In a test binary of its own, with one test, because the allocator counts for the whole process.

mod support;

use bytes::{Bytes, BytesMut};
use peak_alloc::PeakAlloc;
use support::{Filled, Kind, filled};
use twinlog_protocol::{ApiKey, ApiVisitor, Request, decode_request, decode_response, visit_apis};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What decoding a message of a few hundred bytes may take at its worst: 64 KiB reserved at each
/// level of nested arrays, and the elements that are really there.
const PEAK_BYTES_MAX: usize = 512 * 1024;

#[test]
fn a_hostile_length_anywhere_is_an_error_or_a_value_and_costs_little() {
    let mut hostile = Hostile { decoded: 0, refused: 0 };
    visit_apis(&mut hostile);
    // That the test tests something: both outcomes are common.
    assert!(hostile.refused > 30_000, "only {} refused", hostile.refused);
    assert!(hostile.decoded > 10_000, "only {} decoded", hostile.decoded);
}

struct Hostile {
    decoded: usize,
    refused: usize,
}

impl ApiVisitor for Hostile {
    fn visit<R: Request>(&mut self) {
        for version in R::MIN..=R::MAX {
            let request = filled::<R>(version);
            self.attack::<R>("request", version, &request, |bytes| {
                decode_request::<R>(bytes, version).is_ok()
            });
            let response = filled::<R::Response>(version);
            self.attack::<R>("answer", version, &response, |bytes| {
                decode_response::<R>(bytes, version).is_ok()
            });
        }
    }
}

impl Hostile {
    fn attack<R: Request>(
        &mut self,
        what: &str,
        version: i16,
        message: &Filled,
        decode: impl Fn(Bytes) -> bool,
    ) {
        let name = || format!("{what} of {} version {version}", R::KEY);
        assert!(decode(message.bytes.clone()), "the filled {} is sound", name());
        for &(place, kind) in &message.places {
            let rest = message.bytes.len() - place;
            for claim in claims(kind, rest) {
                let mut bytes = BytesMut::from(&message.bytes[..place]);
                bytes.extend_from_slice(&claim);
                bytes.extend_from_slice(&message.bytes[place + width(kind)..]);
                self.measure(&name, place, &claim, bytes.freeze(), &decode);
            }
        }
        for cut in 0..message.bytes.len() {
            let sound = self.measure(&name, cut, &[], message.bytes.slice(..cut), &decode);
            assert!(!sound, "{} is complete after {cut} bytes", name());
        }
    }

    fn measure(
        &mut self,
        name: &impl Fn() -> String,
        place: usize,
        claim: &[u8],
        bytes: Bytes,
        decode: &impl Fn(Bytes) -> bool,
    ) -> bool {
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let sound = decode(bytes);
        let peak = ALLOCATOR.peak_usage().saturating_sub(before);
        assert!(peak <= PEAK_BYTES_MAX, "{}: {claim:x?} at {place} takes {peak} bytes", name());
        if sound {
            self.decoded += 1;
        } else {
            self.refused += 1;
        }
        sound
    }
}

fn width(kind: Kind) -> usize {
    match kind {
        Kind::Byte => 1,
        Kind::Short => 2,
        Kind::Int => 4,
    }
}

/// What a place is made to say instead: the largest numbers, negative ones, and just more and just
/// as much as there is.
fn claims(kind: Kind, rest: usize) -> Vec<Vec<u8>> {
    let rest = rest as i32;
    match kind {
        Kind::Int => [i32::MAX, i32::MIN, -2, -1, 0, rest, rest + 1, 0x00ff_ffff]
            .map(|claim| claim.to_be_bytes().to_vec())
            .to_vec(),
        Kind::Short => [i16::MAX, i16::MIN, -2, -1, 0, rest as i16]
            .map(|claim| claim.to_be_bytes().to_vec())
            .to_vec(),
        Kind::Byte => vec![
            vec![0xff, 0xff, 0xff, 0xff, 0x0f],
            vec![0xff, 0xff, 0xff, 0xff, 0x07],
            vec![0xff, 0xff, 0xff, 0xff, 0xff],
            vec![0xff, 0xff, 0x03],
            vec![0x80, 0x00],
            vec![rest.clamp(0, 0x7f) as u8],
            vec![0],
            vec![1],
        ],
    }
}

// The table is the one the crate offers; a new API is attacked without a line here.
const _: () = assert!(ApiKey::ALL.len() > 50);
