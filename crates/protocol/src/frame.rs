//! Frames: a four-byte length, a header, a message.
//!
//! Header versions: a request has header 1, or 2 (tagged fields) where its version is flexible; an
//! answer has header 0, or 1. The client id is a plain string even in header 2.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable};

use crate::primitive::{put_string, skip_tagged_fields};
use crate::{ApiKey, ProtocolError, Request};

/// A request as a broker meets it: the header read, the body still bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFrame {
    /// The API.
    pub api: ApiKey,
    /// The version of the body. For `ApiVersions` it may be one that nobody knows: the broker then
    /// answers version 0 with error 35 (KIP-511). For any other API it is in the table.
    pub version: i16,
    /// What the answer is to carry.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
    /// The request without its header.
    pub body: Bytes,
}

impl RequestFrame {
    /// Reads the header of a request. `frame` begins after the four bytes of the length.
    pub fn parse(mut frame: Bytes) -> Result<Self, ProtocolError> {
        const WHAT: &str = "request header";
        let length = frame.len();
        let truncated = || ProtocolError::Truncated { what: WHAT, length };
        let key = frame.try_get_i16().map_err(|_| truncated())?;
        let version = frame.try_get_i16().map_err(|_| truncated())?;
        let correlation_id = frame.try_get_i32().map_err(|_| truncated())?;
        let api = ApiKey::from_key(key).ok_or(ProtocolError::UnknownApi { key, correlation_id })?;
        if api != ApiKey::ApiVersions {
            check_version(api, version)?;
        }
        let client_id = match frame.try_get_i16().map_err(|_| truncated())? {
            -1 => None,
            length => {
                let length = usize::try_from(length).map_err(|_| ProtocolError::Header {
                    what: WHAT,
                    reason: format!("the client id has the length {length}"),
                })?;
                if length > frame.len() {
                    return Err(truncated());
                }
                let text = frame.split_to(length);
                Some(String::from_utf8(text.into()).map_err(|_| ProtocolError::Header {
                    what: WHAT,
                    reason: "the client id is not UTF-8".to_owned(),
                })?)
            }
        };
        if api.request_header_version(version) >= 2 {
            skip_tagged_fields(&mut frame).ok_or_else(truncated)?;
        }
        Ok(Self { api, version, correlation_id, client_id, body: frame })
    }
}

/// The header of a request (without the length before it), for a body that is sent in parts.
///
/// # Panics
///
/// When the client id is longer than 32,767 bytes, which no frame can carry.
pub fn encode_request_header(
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: &str,
    buf: &mut BytesMut,
) {
    assert!(i16::try_from(client_id.len()).is_ok(), "a client id of {} bytes", client_id.len());
    buf.put_i16(api.key());
    buf.put_i16(version);
    buf.put_i32(correlation_id);
    put_string(buf, Some(client_id));
    if api.request_header_version(version) >= 2 {
        buf.put_u8(0);
    }
}

/// The body of a request, without header.
pub fn encode_body<R: Request>(request: &R, version: i16) -> Result<Bytes, ProtocolError> {
    check_version(R::KEY, version)?;
    let mut buf = BytesMut::new();
    encode_message::<R, _>("request", request, version, &mut buf)?;
    Ok(buf.freeze())
}

/// A whole request frame, length included. Panics as [`encode_request_header`] does.
pub fn encode_request<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: &str,
) -> Result<Bytes, ProtocolError> {
    check_version(R::KEY, version)?;
    let mut buf = BytesMut::new();
    buf.put_i32(0);
    encode_request_header(R::KEY, version, correlation_id, client_id, &mut buf);
    encode_message::<R, _>("request", request, version, &mut buf)?;
    Ok(with_length(buf))
}

/// A whole answer frame, length included. `version` is the version of the request, except that an
/// `ApiVersions` request of an unknown version is answered at version 0.
pub fn encode_response<R: Request>(
    response: &R::Response,
    version: i16,
    correlation_id: i32,
) -> Result<Bytes, ProtocolError> {
    check_version(R::KEY, version)?;
    let mut buf = BytesMut::new();
    buf.put_i32(0);
    buf.put_i32(correlation_id);
    if R::KEY.response_header_version(version) >= 1 {
        buf.put_u8(0);
    }
    encode_message::<R, _>("answer", response, version, &mut buf)?;
    Ok(with_length(buf))
}

/// Reads a request that [`RequestFrame::parse`] has taken from its frame.
pub fn decode_request<R: Request>(body: Bytes, version: i16) -> Result<R, ProtocolError> {
    check_version(R::KEY, version)?;
    decode_message::<R, R>("request", body, version)
}

/// Reads the body of an answer to the request `R`. Byte fields are slices of `body`.
pub fn decode_response<R: Request>(
    body: Bytes,
    version: i16,
) -> Result<R::Response, ProtocolError> {
    check_version(R::KEY, version)?;
    decode_message::<R, R::Response>("answer", body, version)
}

/// Takes the header from an answer: the correlation id and the body. `frame` begins after the four
/// bytes of the length.
pub fn decode_response_header(
    api: ApiKey,
    version: i16,
    mut frame: Bytes,
) -> Result<(i32, Bytes), ProtocolError> {
    let truncated = ProtocolError::Truncated { what: "answer header", length: frame.len() };
    let Ok(correlation_id) = frame.try_get_i32() else { return Err(truncated) };
    if api.response_header_version(version) >= 1 {
        skip_tagged_fields(&mut frame).ok_or(truncated)?;
    }
    Ok((correlation_id, frame))
}

fn check_version(api: ApiKey, version: i16) -> Result<(), ProtocolError> {
    let supported = api.versions();
    if supported.contains(version) {
        Ok(())
    } else {
        Err(ProtocolError::UnsupportedVersion { api, version, supported })
    }
}

fn encode_message<R: Request, M: Encodable>(
    what: &'static str,
    message: &M,
    version: i16,
    buf: &mut BytesMut,
) -> Result<(), ProtocolError> {
    let failed = |reason: String| ProtocolError::Encode { what, api: R::KEY, version, reason };
    let size = message.compute_size(version).map_err(|error| failed(error.to_string()))?;
    buf.reserve(size);
    message.encode(buf, version).map_err(|error| failed(error.to_string()))
}

fn decode_message<R: Request, M: Decodable>(
    what: &'static str,
    mut body: Bytes,
    version: i16,
) -> Result<M, ProtocolError> {
    let message = M::decode(&mut body, version).map_err(|error| ProtocolError::Decode {
        what,
        api: R::KEY,
        version,
        reason: error.to_string(),
    })?;
    match body.len() {
        0 => Ok(message),
        left => Err(ProtocolError::Trailing { what, api: R::KEY, version, left }),
    }
}

fn with_length(mut frame: BytesMut) -> Bytes {
    let length = i32::try_from(frame.len() - 4).expect("a frame of less than 2 GiB");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}
