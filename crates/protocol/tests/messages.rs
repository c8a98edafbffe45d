//! Every message of the table, filled, through its frame and back.

mod support;

use bytes::{Buf, Bytes};
use proptest::prelude::*;
use support::filled;
use twinlog_protocol::messages::{
    ApiVersionsRequest, FetchRequest, FetchResponse, FindCoordinatorRequest, InitProducerIdRequest,
    TransactionalId,
    fetch_response::{FetchableTopicResponse, PartitionData},
};
use twinlog_protocol::{
    ApiKey, ApiVisitor, ProtocolError, Request, RequestFrame, decode_request, decode_response,
    decode_response_header, encode_request, encode_response, visit_apis,
};

struct RoundTrip(usize);

impl ApiVisitor for RoundTrip {
    fn visit<R: Request>(&mut self) {
        for version in R::MIN..=R::MAX {
            let what = format!("{} version {version}", R::KEY);
            let request: R = decode_request(filled::<R>(version).bytes, version).expect(&what);
            let mut frame = encode_request(&request, version, 77, "me").expect(&what);
            assert_eq!(frame.get_i32() as usize, frame.len(), "{what}");
            let parsed = RequestFrame::parse(frame).expect(&what);
            assert_eq!((parsed.api, parsed.version), (R::KEY, version));
            assert_eq!((parsed.correlation_id, parsed.client_id.as_deref()), (77, Some("me")));
            assert_eq!(decode_request::<R>(parsed.body, version).expect(&what), request, "{what}");

            let response =
                decode_response::<R>(filled::<R::Response>(version).bytes, version).expect(&what);
            let mut frame = encode_response::<R>(&response, version, 77).expect(&what);
            assert_eq!(frame.get_i32() as usize, frame.len(), "{what}");
            let (correlation_id, body) =
                decode_response_header(R::KEY, version, frame).expect(&what);
            assert_eq!(correlation_id, 77);
            assert_eq!(decode_response::<R>(body, version).expect(&what), response, "{what}");
            self.0 += 2;
        }
        for version in [R::MIN - 1, R::MAX + 1] {
            let refused = decode_request::<R>(Bytes::new(), version);
            assert!(matches!(refused, Err(ProtocolError::UnsupportedVersion { .. })), "{version}");
        }
    }
}

#[test]
fn every_message_at_every_version_survives_its_frame() {
    let mut messages = RoundTrip(0);
    visit_apis(&mut messages);
    assert!(messages.0 > 300, "only {} messages", messages.0);
}

#[test]
fn an_api_versions_answer_has_the_old_header_whatever_the_version() {
    for version in 0..=4 {
        assert_eq!(ApiKey::ApiVersions.response_header_version(version), 0);
    }
    assert_eq!(ApiKey::ApiVersions.request_header_version(2), 1);
    assert_eq!(ApiKey::ApiVersions.request_header_version(3), 2);
    assert_eq!(ApiKey::Fetch.response_header_version(11), 0);
    assert_eq!(ApiKey::Fetch.response_header_version(12), 1);
}

#[test]
fn an_api_versions_request_from_the_future_can_still_be_answered() {
    let frame = [0, 18, 0, 99, 0, 0, 0, 5, 0, 2, b'm', b'e', 0, 1, 2, 3];
    let parsed = RequestFrame::parse(Bytes::copy_from_slice(&frame)).expect("a header");
    assert_eq!((parsed.api, parsed.version, parsed.correlation_id), (ApiKey::ApiVersions, 99, 5));
    assert_eq!(parsed.body, &[1, 2, 3][..]);
}

#[test]
fn requests_outside_the_table_are_named() {
    let unknown = RequestFrame::parse(Bytes::from_static(&[0x7f, 0, 0, 0, 0, 0, 0, 9, 0, 0]));
    assert_eq!(unknown, Err(ProtocolError::UnknownApi { key: 0x7f00, correlation_id: 9 }));
    let version = RequestFrame::parse(Bytes::from_static(&[0, 1, 0, 3, 0, 0, 0, 9, 0, 0]));
    assert_eq!(
        version.expect_err("Fetch 3 is older than the table").to_string(),
        "Fetch version 3 is outside the versions 4-18 twinlog speaks"
    );
}

#[test]
fn the_versions_are_those_of_the_structs_where_the_codec_claims_more() {
    // The codec's own table says 10, 10 and 6 here, and fails when they are used.
    assert_eq!(ApiKey::OffsetCommit.versions().max, 9);
    assert_eq!(ApiKey::OffsetFetch.versions().max, 9);
    assert_eq!(ApiKey::InitProducerId.versions().max, 5);
}

#[test]
fn bytes_left_over_are_an_error() {
    let mut frame =
        encode_request(&ApiVersionsRequest::default(), 0, 1, "me").expect("encodes").to_vec();
    frame.push(0);
    let parsed = RequestFrame::parse(Bytes::from(frame).slice(4..)).expect("a header");
    assert_eq!(
        decode_request::<ApiVersionsRequest>(parsed.body, 0),
        Err(ProtocolError::Trailing {
            what: "request",
            api: ApiKey::ApiVersions,
            version: 0,
            left: 1
        })
    );
}

#[test]
fn a_field_that_the_version_lacks_is_an_error_and_not_silence() {
    let request = FindCoordinatorRequest::default().with_key("group".into());
    let error = encode_request(&request, 4, 1, "me").expect_err("version 4 has a list of keys");
    assert!(error.to_string().starts_with("the request of FindCoordinator version 4 cannot be"));
}

#[test]
fn a_nullable_field_is_empty_and_not_null_by_default() {
    assert_eq!(InitProducerIdRequest::default().transactional_id, Some(TransactionalId("".into())));
}

#[test]
fn fetched_records_are_slices_of_the_frame() {
    let records = Bytes::from(vec![0x5a; 1000]);
    let partition = PartitionData::default().with_records(Some(records.clone()));
    let topic = FetchableTopicResponse::default().with_partitions(vec![partition]);
    let answer = FetchResponse::default().with_responses(vec![topic]);
    let frame = encode_response::<FetchRequest>(&answer, 17, 1).expect("encodes").slice(4..);
    let frame_range = frame.as_ptr_range();

    let (_, body) = decode_response_header(ApiKey::Fetch, 17, frame.clone()).expect("a header");
    let answer = decode_response::<FetchRequest>(body, 17).expect("decodes");
    let found = answer.responses[0].partitions[0].records.as_ref().expect("records");
    assert_eq!(found, &records);
    assert!(frame_range.contains(&found.as_ptr()), "the records were copied");
}

proptest! {
    #[test]
    fn any_bytes_are_a_header_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let bytes = Bytes::from(bytes);
        let _ = RequestFrame::parse(bytes.clone());
        for api in ApiKey::ALL {
            let _ = decode_response_header(*api, api.versions().max, bytes.clone());
        }
    }

    #[test]
    fn any_bytes_after_a_known_api_are_a_request_or_an_error(
        key in 0_i16..100,
        version in 0_i16..20,
        rest in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut frame = key.to_be_bytes().to_vec();
        frame.extend(version.to_be_bytes());
        frame.extend(rest);
        if let Ok(frame) = RequestFrame::parse(frame.into()) {
            visit_apis(&mut DecodeIf(frame));
        }
    }
}

struct DecodeIf(RequestFrame);

impl ApiVisitor for DecodeIf {
    fn visit<R: Request>(&mut self) {
        if self.0.api == R::KEY {
            let _ = decode_request::<R>(self.0.body.clone(), self.0.version);
            let _ = decode_response::<R>(self.0.body.clone(), self.0.version);
        }
    }
}
