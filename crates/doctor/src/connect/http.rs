//! `GET` over HTTP/1.1, and JSON for an answer.
//!
//! Plain and small on purpose: one request a connection, no redirections, no compression, no TLS.
//! A client library would bring some thirty crates for this.
//!
//! References: RFC 9112 (message framing, chunked coding).

use std::fmt;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A flow of 8,000 partitions answers with about one megabyte.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// No head is larger.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// A part of an answer that is quoted.
const QUOTED_CHARS_MAX: usize = 200;

/// Where a REST API is: `http://connect:8083`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    host: String,
    port: u16,
    /// Before every path, without a slash at its end.
    base: String,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}{}", self.host, self.port, self.base)
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum RestError {
    /// Nobody answers there.
    Unreachable(std::io::Error),
    /// It took too long.
    TimedOut,
    /// Another status than 200: the status, and what was said.
    Status(u16, String),
    /// What came is no HTTP answer with JSON in it.
    NotUnderstood(String),
}

impl fmt::Display for RestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "cannot be reached: {error}"),
            Self::TimedOut => f.write_str("did not answer in time"),
            Self::Status(status, said) => write!(f, "answered {status}: {said}"),
            Self::NotUnderstood(why) => write!(f, "{why}: is it Connect's REST API?"),
        }
    }
}

impl std::error::Error for RestError {}

impl From<std::io::Error> for RestError {
    fn from(error: std::io::Error) -> Self {
        Self::Unreachable(error)
    }
}

impl Url {
    /// Reads `http://host:port/base`; the scheme may be left out, the port is 8083 by default.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with("https://") {
            return Err("https is not supported: give a plain http listener".into());
        }
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let (authority, base) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let base = base.trim_end_matches('/');
        if authority.contains('@') {
            return Err("a user in the address is not supported".into());
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| format!("`{port}` is no port"))?)
            }
            _ => (authority, 8083),
        };
        let printable = |part: &str| part.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || !printable(host) || !printable(base) {
            return Err("write it like http://connect:8083".into());
        }
        Ok(Self { host: host.to_owned(), port, base: base.to_owned() })
    }

    /// What stands at `path`.
    pub(super) async fn get(&self, path: &str) -> Result<Value, RestError> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut stream = TcpStream::connect((host, self.port)).await?;
        let request = format!(
            "GET {}{path} HTTP/1.1\r\nHost: {}:{}\r\nAccept: application/json\r\n\
             User-Agent: twinlog\r\nConnection: close\r\n\r\n",
            self.base, self.host, self.port
        );
        stream.write_all(request.as_bytes()).await?;
        let mut bytes = Vec::new();
        let read = stream.take(ANSWER_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await;
        // Whoever sent everything may end the connection without ceremony.
        if let Err(error) = read
            && bytes.is_empty()
        {
            return Err(error.into());
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(RestError::NotUnderstood("the answer is larger than 64 MiB".into()));
        }
        answer(&bytes)
    }
}

/// A name as a part of a path.
pub(crate) fn segment(name: &str) -> String {
    use fmt::Write;
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The JSON of a whole answer.
fn answer(bytes: &[u8]) -> Result<Value, RestError> {
    let odd = |why: &str| RestError::NotUnderstood(why.to_owned());
    let head_end = bytes
        .windows(4)
        .take(HEAD_BYTES_MAX)
        .position(|window| window == b"\r\n\r\n")
        .ok_or_else(|| odd("what answered speaks no HTTP"))?;
    let head = std::str::from_utf8(&bytes[..head_end]).map_err(|_| odd("the head is no text"))?;
    let body = &bytes[head_end + 4..];
    let mut first = head.split("\r\n").next().unwrap_or_default().split(' ');
    if !first.next().unwrap_or_default().starts_with("HTTP/1.") {
        return Err(odd("what answered speaks no HTTP"));
    }
    let status: u16 = first
        .next()
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| odd("the answer has no status"))?;
    let header = |name: &str| {
        let mut found = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        found.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let chunked =
        header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
    let body = if chunked {
        unchunked(body).ok_or_else(|| odd("the answer ends too early"))?
    } else {
        match header("content-length").map(str::parse::<usize>) {
            Some(Ok(length)) => {
                body.get(..length).ok_or_else(|| odd("the answer ends too early"))?.to_vec()
            }
            Some(Err(_)) => return Err(odd("the answer has no sound length")),
            None => body.to_vec(),
        }
    };
    if status != 200 {
        let said = serde_json::from_slice::<Value>(&body).ok();
        let said = said.and_then(|said| said["message"].as_str().map(str::to_owned));
        let said = said.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
        return Err(RestError::Status(status, said.chars().take(QUOTED_CHARS_MAX).collect()));
    }
    serde_json::from_slice(&body).map_err(|error| odd(&format!("the answer is no JSON ({error})")))
}

/// The chunks of a body, joined; `None` where it is cut off.
fn unchunked(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut joined = Vec::new();
    loop {
        let end = body.windows(2).position(|window| window == b"\r\n")?;
        let line = std::str::from_utf8(&body[..end]).ok()?;
        let size = line.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        body = &body[end + 2..];
        if size == 0 {
            return Some(joined);
        }
        joined.extend_from_slice(body.get(..size)?);
        body = body.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let told = |text: &str| Url::parse(text).map(|url| url.to_string());
        for (text, url) in [
            ("http://connect:8083", "http://connect:8083"),
            ("connect:18083", "http://connect:18083"),
            ("connect", "http://connect:8083"),
            ("http://gate/kafka/connect/", "http://gate:8083/kafka/connect"),
            ("http://[::1]:9000", "http://[::1]:9000"),
            ("http://[::1]", "http://[::1]:8083"),
        ] {
            assert_eq!(told(text).as_deref(), Ok(url), "{text}");
        }
        for wrong in ["https://c:1", "http://", "http://c:x", "http://a b", "http://u@c", "c:99999"]
        {
            assert!(told(wrong).is_err(), "{wrong}");
        }
        // Nothing in an address becomes a header.
        assert!(told("http://c/\r\nX: y").is_err());
    }

    #[test]
    fn answers_of_any_framing_are_read() {
        let json = serde_json::json!({"a": 1});
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
            "HTTP/1.1 200 OK\r\ncontent-length:7\r\n\r\n{\"a\":1}and more",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\n{\"a\":1}",
        ] {
            assert_eq!(answer(text.as_bytes()).expect(text), json);
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_a_refusal_is_quoted() {
        for text in [
            "",
            "hello",
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}",
            "HTTP/1.1 200 OK\r\n\r\n<html>",
        ] {
            let error = answer(text.as_bytes()).expect_err(text);
            assert!(matches!(error, RestError::NotUnderstood(_)), "{text}: {error}");
        }
        // As Connect 4.3.0 answers.
        let body = r#"{"error_code":404,"message":"HTTP 404 Not Found"}"#;
        let text =
            format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let error = answer(text.as_bytes()).expect_err("a refusal");
        assert_eq!(error.to_string(), "answered 404: HTTP 404 Not Found");
    }

    #[test]
    fn a_connectors_name_stays_one_part_of_a_path() {
        assert_eq!(segment("hello->world/x ?"), "hello-%3Eworld%2Fx%20%3F");
    }
}
