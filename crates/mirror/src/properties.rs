//! `.properties` files as `java.util.Properties.load(InputStream)` reads them, with line numbers.
//!
//! Does not: know any key, resolve `${…}`.
//!
//! Bytes are Latin-1; `\uXXXX` is a UTF-16 unit; a key ends at the first unescaped `=`, `:` or
//! blank; a backslash before a line end continues the entry; a later entry of a key replaces an
//! earlier one.

use std::collections::BTreeMap;
use std::fmt;

use crate::redact::shown;

/// One entry of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key, unescaped.
    pub key: String,
    /// The value, unescaped. Trailing blanks are part of it.
    pub value: String,
    /// The line (from 1) on which the entry begins.
    pub line: u32,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}={:?}", self.line, self.key, shown(&self.key, &self.value))
    }
}

/// The entries of a properties file.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    entries: Vec<Entry>,
    last: BTreeMap<String, usize>,
}

/// A `\u` that four hexadecimal digits do not follow. Java refuses the whole file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed \\uXXXX escape in the entry on line {line}")]
pub struct Malformed {
    /// The line (from 1) on which the entry begins.
    pub line: u32,
}

impl Properties {
    /// Reads a file. The error lists every malformed entry.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Malformed>> {
        let mut properties = Self::default();
        let mut malformed = Vec::new();
        for (line, text) in logical_lines(bytes) {
            let (key, value) = split(&text);
            match (unescape(key), unescape(value)) {
                (Some(key), Some(value)) => properties.push(Entry { key, value, line }),
                _ => malformed.push(Malformed { line }),
            }
        }
        if malformed.is_empty() { Ok(properties) } else { Err(malformed) }
    }

    fn push(&mut self, entry: Entry) {
        self.last.insert(entry.key.clone(), self.entries.len());
        self.entries.push(entry);
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entry(key).map(|entry| entry.value.as_str())
    }

    /// The entry of `key` that counts: the last one.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.last.get(key).map(|&index| &self.entries[index])
    }

    /// Every key's entry, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.indexed().filter(|(counts, _)| *counts).map(|(_, entry)| entry)
    }

    /// Entries that a later entry of the same key replaced.
    pub fn replaced(&self) -> impl Iterator<Item = &Entry> {
        self.indexed().filter(|(counts, _)| !*counts).map(|(_, entry)| entry)
    }

    fn indexed(&self) -> impl Iterator<Item = (bool, &Entry)> {
        let counts = |index: usize, key: &str| self.last.get(key) == Some(&index);
        let numbered = self.entries.iter().enumerate();
        numbered.map(move |(index, entry)| (counts(index, &entry.key), entry))
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c')
}

/// Entries as raw bytes: comments and empty lines gone, continued lines joined.
fn logical_lines(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut lines = Vec::new();
    let mut text = Vec::new();
    let mut began = 1;
    let mut continued = false;
    for (number, line) in (1..).zip(natural_lines(bytes)) {
        let blanks = line.iter().take_while(|byte| is_blank(**byte)).count();
        let line = &line[blanks..];
        if text.is_empty() {
            began = if continued { began } else { number };
            if line.is_empty() || matches!(line[0], b'#' | b'!') {
                continued = false;
                continue;
            }
        }
        text.extend_from_slice(line);
        let backslashes = line.iter().rev().take_while(|byte| **byte == b'\\').count();
        continued = backslashes % 2 == 1;
        if continued {
            text.pop();
        } else {
            lines.push((began, std::mem::take(&mut text)));
        }
    }
    // A file that ends in a continuation still has its entry, unless nothing stands before it.
    if continued {
        lines.push((began, text));
    }
    lines
}

/// Lines without their ends: LF, CR, or CR LF.
fn natural_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            rest = None;
            return (!text.is_empty()).then_some(text);
        };
        let wide = text[end] == b'\r' && text.get(end + 1) == Some(&b'\n');
        rest = Some(&text[end + 1 + usize::from(wide)..]);
        Some(&text[..end])
    })
}

/// Splits an entry at the first unescaped `=`, `:` or blank.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let end = text
        .iter()
        .position(|&byte| {
            let ends = !escaped && (matches!(byte, b'=' | b':') || is_blank(byte));
            escaped = byte == b'\\' && !escaped;
            ends
        })
        .unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    let blanks = |text: &[u8]| text.iter().take_while(|byte| is_blank(**byte)).count();
    let rest = &rest[blanks(rest)..];
    let rest = match rest.first() {
        Some(b'=' | b':') => &rest[1..],
        _ => rest,
    };
    (key, &rest[blanks(rest)..])
}

/// Resolves escapes; `None` for a malformed `\u`. A lone surrogate becomes U+FFFD.
fn unescape(text: &[u8]) -> Option<String> {
    let mut units = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            units.push(u16::from(byte));
            continue;
        }
        match bytes.next() {
            Some(b'u') => {
                let mut unit = 0;
                for _ in 0..4 {
                    let digit = char::from(bytes.next()?).to_digit(16)?;
                    unit = unit << 4 | digit as u16;
                }
                units.push(unit);
            }
            Some(b't') => units.push(u16::from(b'\t')),
            Some(b'n') => units.push(u16::from(b'\n')),
            Some(b'r') => units.push(u16::from(b'\r')),
            Some(b'f') => units.push(0x0c),
            Some(other) => units.push(u16::from(other)),
            None => {}
        }
    }
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_know_their_lines_and_the_last_one_counts() {
        let text = b"# head\na = 1\n\nb = one,\\\n  two\r\na = 3\n";
        let properties = Properties::parse(text).expect("well formed");
        let entries: Vec<_> =
            properties.entries().map(|e| (e.key.as_str(), e.value.as_str(), e.line)).collect();
        assert_eq!(entries, [("b", "one,two", 4), ("a", "3", 6)]);
        let replaced: Vec<_> = properties.replaced().map(|e| (e.key.as_str(), e.line)).collect();
        assert_eq!(replaced, [("a", 2)]);
        assert_eq!(properties.get("c"), None);
    }

    #[test]
    fn every_malformed_escape_is_reported() {
        let malformed = Properties::parse(b"a=\\u12\nb=1\nc=\\u00zz").expect_err("malformed");
        assert_eq!(malformed, [Malformed { line: 1 }, Malformed { line: 3 }]);
    }

    #[test]
    fn debug_output_hides_secrets() {
        let properties = Properties::parse(b"ssl.key.password=hunter2").expect("well formed");
        assert!(!format!("{properties:?}").contains("hunter2"));
    }
}
