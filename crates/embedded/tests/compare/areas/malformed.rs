//! Bytes that are no request of Kafka's: what happens to the connection.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use twinlog_protocol::messages::{
    ApiVersionsRequest, FetchRequest, MetadataRequest, ProduceRequest,
};
use twinlog_protocol::{ApiKey, encode_request};

use crate::pair::{Pair, Result};

/// Where Java reads what our codec takes for nonsense, or the other way round, and what each makes of
/// it. Nobody sends any of it.
const READ_DIFFERENTLY: &[(&str, &str, &str)] = &[
    ("a request with bytes behind it", "an answer", "the connection closed"),
    ("an array of a negative length", "an answer", "the connection closed"),
    ("a null name where there is none", "the connection closed", "an answer"),
    ("a name that is no text", "an answer", "the connection closed"),
];

/// Every broker answers or closes, some time.
const LIMIT: Duration = Duration::from_mins(1);

fn head(key: i16, version: i16) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_i16(key);
    bytes.put_i16(version);
    bytes.put_i32(7);
    bytes.put_i16(4);
    bytes.put_slice(b"test");
    bytes
}

fn framed(body: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_i32(body.len() as i32);
    frame.put_slice(body);
    frame.freeze()
}

pub(crate) fn run(pair: &mut Pair) -> Result {
    let mut cases: Vec<(String, Bytes)> = Vec::new();
    for key in [-1, 999, 4, 5, 6, 7, 50, 58] {
        cases.push((format!("the api key {key}"), framed(&head(key, 0))));
    }
    for api in ApiKey::ALL {
        if *api == ApiKey::ApiVersions {
            continue;
        }
        for version in [-1, 99] {
            cases.push((format!("{api} {version}"), framed(&head(api.key(), version))));
        }
    }
    let metadata = encode_request(&MetadataRequest::default(), 9, 7, "test")?;
    for cut in [1, 5, metadata.len() - 6] {
        let body = &metadata[4..metadata.len() - cut];
        cases.push((format!("a request without its last {cut} bytes"), framed(body)));
    }
    let longer = [&metadata[4..], &[1, 2, 3]].concat();
    cases.push(("a request with bytes behind it".into(), framed(&longer)));
    let fetch = encode_request(&FetchRequest::default().with_cluster_id(None), 4, 7, "test")?;
    cases.push(("half a request".into(), framed(&fetch[4..fetch.len() - 3])));
    let produce = encode_request(
        &ProduceRequest::default().with_transactional_id(None).with_acks(1),
        3,
        7,
        "test",
    )?;
    cases.push(("a Produce that ends early".into(), framed(&produce[4..produce.len() - 2])));
    let mut array = head(3, 1);
    array.put_i32(i32::MAX);
    cases.push(("an array that is far too long".into(), framed(&array)));
    let mut array = head(3, 1);
    array.put_i32(-2);
    cases.push(("an array of a negative length".into(), framed(&array)));
    let mut name = head(3, 1);
    name.put_i32(1);
    name.put_i16(-1);
    cases.push(("a null name where there is none".into(), framed(&name)));
    let mut name = head(3, 1);
    name.put_i32(1);
    name.put_i16(2);
    name.put_slice(&[0xff, 0xfe]);
    cases.push(("a name that is no text".into(), framed(&name)));
    cases.push(("an empty frame".into(), framed(&[])));
    cases.push(("a frame of two bytes".into(), framed(&[0, 3])));
    cases.push(("a negative length".into(), Bytes::from_static(&[0xff; 8])));
    cases.push(("a length of two gigabytes".into(), Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff])));
    cases.push((
        "a request for another protocol".into(),
        Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n"),
    ));
    for version in [5, 99, -1] {
        let mut bytes = head(18, version);
        bytes.put_slice(&[0, 2, b'a', 2, b'b', 0]);
        cases.push((format!("ApiVersions {version}"), framed(&bytes)));
    }
    let versions = encode_request(&ApiVersionsRequest::default(), 3, 7, "test")?;
    cases.push(("ApiVersions that ends early".into(), framed(&versions[4..versions.len() - 2])));
    for (what, bytes) in cases {
        pair.step(format!("malformed: {what}"));
        let exact = what.starts_with("ApiVersions");
        let differs = READ_DIFFERENTLY.iter().find(|(name, _, _)| *name == what);
        let differs = differs.map(|(_, kafka, embedded)| (*kafka, *embedded));
        pair.raw(ApiKey::ApiVersions, &bytes, exact, differs, LIMIT)?;
    }
    Ok(())
}
