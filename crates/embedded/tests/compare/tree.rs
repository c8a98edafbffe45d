//! Any decoded message as a tree, so that two of them can be walked field by field.
//!
//! The message structs offer no reflection, but all of them derive `Debug`, whose text is regular:
//! this module reads that text back. Wrappers that carry nothing (`Some`, `TopicName`) vanish, and
//! record bytes become the batches that lie in them.

use crate::batches;

/// A message, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    /// A number, a word, an id, or a string in quotes.
    Atom(String),
    Bytes(Vec<u8>),
    List(Vec<Tree>),
    Fields(Vec<(String, Tree)>),
}

impl Tree {
    /// The tree of anything whose `Debug` is derived.
    pub(crate) fn of(value: &impl std::fmt::Debug) -> Self {
        let text = format!("{value:?}");
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        reader.value()
    }

    pub(crate) fn number(value: impl Into<i64>) -> Self {
        Self::Atom(value.into().to_string())
    }

    /// The field of this name; nothing where there is none.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Fields(fields) => {
                fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Atom(text) => f.write_str(text),
            Self::Bytes(bytes) => write!(f, "b\"{}\"", bytes.escape_ascii()),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Fields(fields) => {
                f.write_str("{")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}: {value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Reads the text of `Debug`. It comes from our own structs, so that a surprise is a bug here.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn take(&mut self, wanted: u8) -> bool {
        while self.peek() == b' ' {
            self.at += 1;
        }
        let found = self.peek() == wanted;
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Tree {
        if self.take(b'[') {
            return Tree::List(self.items(b']'));
        }
        if self.take(b'{') {
            return Tree::Fields(self.fields());
        }
        if self.take(b'"') {
            let start = self.at - 1;
            self.quoted();
            return Tree::Atom(String::from_utf8_lossy(&self.text[start..self.at]).into_owned());
        }
        if self.text[self.at..].starts_with(b"b\"") {
            self.at += 2;
            return Tree::Bytes(self.quoted());
        }
        let word = self.word();
        if self.take(b'(') {
            let mut items = self.items(b')');
            return if items.len() == 1 { items.remove(0) } else { Tree::List(items) };
        }
        if self.take(b'{') {
            return Tree::Fields(self.fields());
        }
        Tree::Atom(if word == "None" { "null".to_owned() } else { word })
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while !matches!(
            self.peek(),
            0 | b' ' | b',' | b':' | b'(' | b')' | b'[' | b']' | b'{' | b'}'
        ) {
            self.at += 1;
        }
        assert!(self.at > start, "no value at {start} of {}", String::from_utf8_lossy(self.text));
        String::from_utf8_lossy(&self.text[start..self.at]).into_owned()
    }

    fn items(&mut self, end: u8) -> Vec<Tree> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(self.value());
            self.take(b',');
        }
        items
    }

    fn fields(&mut self) -> Vec<(String, Tree)> {
        let mut fields = Vec::new();
        while !self.take(b'}') {
            let name = self.word();
            assert!(self.take(b':'), "no colon behind {name}");
            while self.peek() == b' ' {
                self.at += 1;
            }
            let value = match self.value() {
                Tree::Bytes(bytes) if name == "records" => batches::describe(&bytes),
                value => value,
            };
            fields.push((name, value));
            self.take(b',');
        }
        fields
    }

    /// Up to the closing quotation mark, escapes resolved.
    fn quoted(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let byte = self.peek();
            self.at += 1;
            match byte {
                b'"' => return bytes,
                b'\\' => {
                    let escaped = self.peek();
                    self.at += 1;
                    bytes.push(match escaped {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'0' => 0,
                        b'x' => {
                            let digits = std::str::from_utf8(&self.text[self.at..self.at + 2]);
                            self.at += 2;
                            digits
                                .ok()
                                .and_then(|hex| u8::from_str_radix(hex, 16).ok())
                                .unwrap_or(0)
                        }
                        other => other,
                    });
                }
                _ => {
                    assert!(self.at <= self.text.len(), "a string without an end");
                    bytes.push(byte);
                }
            }
        }
    }
}
