//! Learning what a broker speaks.
//!
//! We ask at the newest version of `ApiVersions` we know. A broker that does not know it answers
//! error 35 in the body of *version 0*, whatever was asked, with its own range of `ApiVersions`
//! (KIP-511; brokers before Kafka 2.4 leave the range out), and we ask again.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use twinlog_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, string};
use twinlog_protocol::{
    ErrorCode, ProtocolError, Request as _, VersionRange, decode_response, encode_body,
};

use crate::connection::Link;
use crate::{Options, WireError};

/// What a broker said about itself.
pub(crate) struct Offer {
    /// Versions by API key, APIs that we do not know included.
    pub(crate) versions: BTreeMap<i16, VersionRange>,
    /// Finalized features and their levels.
    pub(crate) features: BTreeMap<String, i16>,
}

pub(crate) async fn negotiate(link: &Arc<Link>, options: &Options) -> Result<Offer, WireError> {
    const API: twinlog_protocol::ApiKey = ApiVersionsRequest::KEY;
    let peer = || Arc::clone(link.peer());
    let mut version = ApiVersionsRequest::MAX;
    loop {
        let mut request = ApiVersionsRequest::default();
        if version >= 3 {
            request = request
                .with_client_software_name(string(&options.software_name))
                .with_client_software_version(string(&options.software_version));
        }
        let body = encode_body(&request, version).map_err(|error| WireError::Encode {
            peer: peer(),
            api: API,
            error,
        })?;
        let body = link.request(API, version, body).await?;
        if version > 0 && error_code(&body) == Some(ErrorCode::UNSUPPORTED_VERSION) {
            version = older(version, body);
            continue;
        }
        let answer = decode_response::<ApiVersionsRequest>(body, version)
            .map_err(|error: ProtocolError| WireError::Decode { peer: peer(), api: API, error })?;
        return ErrorCode(answer.error_code).ok().map(|()| offer(&answer)).map_err(|code| {
            WireError::Connect { peer: peer(), reason: format!("{API} is refused: {code}") }
        });
    }
}

/// Every version of the answer begins with the error code.
fn error_code(body: &Bytes) -> Option<ErrorCode> {
    body.first_chunk().map(|code| ErrorCode(i16::from_be_bytes(*code)))
}

/// The version to ask next: what the refusal offers, else 0. Always below `refused`.
fn older(refused: i16, body: Bytes) -> i16 {
    let Ok(answer) = decode_response::<ApiVersionsRequest>(body, 0) else { return 0 };
    let offered = offer(&answer).versions.get(&ApiVersionsRequest::KEY.key()).copied();
    let below = VersionRange { min: 0, max: refused - 1 };
    offered.and_then(|offered| offered.newest_common(below)).unwrap_or(0)
}

fn offer(answer: &ApiVersionsResponse) -> Offer {
    let versions = answer
        .api_keys
        .iter()
        .map(|api| (api.api_key, VersionRange { min: api.min_version, max: api.max_version }))
        .collect();
    let features = answer
        .finalized_features
        .iter()
        .map(|feature| (feature.name.to_string(), feature.max_version_level))
        .collect();
    Offer { versions, features }
}
