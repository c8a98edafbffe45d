//! Logging in: `SaslHandshake`, `SaslAuthenticate`, and the mechanism PLAIN.
//!
//! A connection that must log in is served by [`log_in`] until it has: besides logging in it may
//! only ask for ApiVersions, and anything else closes it, as `SaslServerAuthenticator` does.
//!
//! Does not speak SCRAM, GSSAPI or OAUTHBEARER, does not encrypt, and does not ask a connection to
//! log in again after a while.
//!
//! References: KIP-43, KIP-152, RFC 4616.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;
use twinlog_protocol::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
    StrBytes, string,
};
use twinlog_protocol::{ApiKey, RequestFrame, decode_request};

use crate::cluster::EmbeddedCluster;
use crate::code::{ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM};
use crate::frames::Frame;
use crate::rights::Peer;
use crate::server::{Call, Closed, begin, deliver, dispatch, encode, next_frame};

const PLAIN: &str = "PLAIN";
/// `connection.failed.authentication.delay.ms`: who fails is answered late.
const FAILURE_DELAY: Duration = Duration::from_millis(100);
/// What a wrong name and a wrong password are told alike.
const WRONG: &str = "Authentication failed: Invalid username or password";

/// Where a connection stands that logs in.
enum Stage {
    /// No mechanism is agreed on.
    Begin,
    /// The next request is SaslAuthenticate.
    Framed,
    /// After a handshake of version 0 the next frame is the mechanism's own bytes, without a header.
    Bare,
}

/// Serves a connection until it has logged in; answers who it is.
pub(crate) async fn log_in<S>(
    cluster: &EmbeddedCluster,
    broker: i32,
    connection: u64,
    stream: &mut S,
    host: &str,
) -> Result<Peer, Closed>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut stage = Stage::Begin;
    loop {
        // Its room, where it has any, is held until it is answered.
        let Frame { bytes: frame, room: _room } = next_frame(cluster, broker, stream).await?;
        if matches!(stage, Stage::Bare) {
            let user = plain(cluster, &frame).map_err(|_| Closed::NotLoggedIn)?;
            stream.write_i32(0).await?; // PLAIN has nothing to answer
            stream.flush().await?;
            return Ok(peer(&user, host));
        }
        let frame = RequestFrame::parse(frame)?;
        let mut call = Call::new(cluster, broker, connection, Peer::anonymous(host), &frame);
        match (frame.api, &stage) {
            (ApiKey::ApiVersions, Stage::Begin) => {
                let answer = dispatch(&mut call, frame.body, frame.correlation_id).await?;
                deliver(&call, answer, stream).await?;
            }
            (ApiKey::SaslHandshake, Stage::Begin) => {
                let request: SaslHandshakeRequest = decode_request(frame.body, call.version)?;
                if !begin(&mut call, &request).await? {
                    continue;
                }
                let known = request.mechanism.as_str() == PLAIN;
                let answer = SaslHandshakeResponse::default()
                    .with_error_code(if known { 0 } else { UNSUPPORTED_SASL_MECHANISM })
                    .with_mechanisms(vec![StrBytes::from_static_str(PLAIN)]);
                let answer =
                    encode::<SaslHandshakeRequest>(&call, Some(answer), frame.correlation_id)?;
                deliver(&call, answer, stream).await?;
                if !known {
                    return Err(Closed::NotLoggedIn);
                }
                stage = if call.version == 0 { Stage::Bare } else { Stage::Framed };
            }
            (ApiKey::SaslAuthenticate, Stage::Framed) => {
                let request: SaslAuthenticateRequest = decode_request(frame.body, call.version)?;
                if !begin(&mut call, &request).await? {
                    continue;
                }
                let result = plain(cluster, &request.auth_bytes);
                let answer = match &result {
                    Ok(_) => SaslAuthenticateResponse::default().with_error_message(None),
                    Err(why) => {
                        sleep(FAILURE_DELAY).await;
                        SaslAuthenticateResponse::default()
                            .with_error_code(SASL_AUTHENTICATION_FAILED)
                            .with_error_message(Some(string(why)))
                    }
                };
                let answer =
                    encode::<SaslAuthenticateRequest>(&call, Some(answer), frame.correlation_id)?;
                deliver(&call, answer, stream).await?;
                let user = result.map_err(|_| Closed::NotLoggedIn)?;
                return Ok(peer(&user, host));
            }
            _ => return Err(Closed::NotLoggedIn),
        }
    }
}

fn peer(user: &str, host: &str) -> Peer {
    Peer { principal: format!("User:{user}"), host: host.to_owned() }
}

/// Judges a message of PLAIN: `authorization id NUL user NUL password`.
fn plain(cluster: &EmbeddedCluster, message: &Bytes) -> Result<String, String> {
    let parts: Vec<&[u8]> = message.split(|&byte| byte == 0).collect();
    let [acts_as, user, password] = parts.as_slice() else {
        return Err(format!("Invalid SASL/PLAIN response: expected 3 tokens, got {}", parts.len()));
    };
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned);
    let (Ok(acts_as), Ok(user), Ok(password)) = (text(acts_as), text(user), text(password)) else {
        return Err(WRONG.to_owned());
    };
    if user.is_empty() {
        return Err("Authentication failed: username not specified".to_owned());
    }
    if password.is_empty() {
        return Err("Authentication failed: password not specified".to_owned());
    }
    let right = cluster.with(|state| {
        let known = state.options.sasl_users.get(&user);
        known.is_some_and(|secret| same(secret.reveal().as_bytes(), password.as_bytes()))
    });
    if !right {
        return Err(WRONG.to_owned());
    }
    if !acts_as.is_empty() && acts_as != user {
        return Err("Authentication failed: Client requested an authorization id that is different from username".to_owned());
    }
    Ok(user)
}

/// Compares in a time that does not tell where two passwords part.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Who is logged in, or never had to, cannot log in again.
pub(crate) fn handshake_again(_: &Call, _: &SaslHandshakeRequest) -> SaslHandshakeResponse {
    SaslHandshakeResponse::default().with_error_code(ILLEGAL_SASL_STATE)
}

/// See [`handshake_again`].
pub(crate) fn authenticate_again(
    _: &Call,
    _: &SaslAuthenticateRequest,
) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse::default().with_error_code(ILLEGAL_SASL_STATE).with_error_message(
        Some(StrBytes::from_static_str(
            "SaslAuthenticate request received after successful authentication",
        )),
    )
}
