//! Java's bracketed character classes: unions, ranges, intersections, negation.

use super::RegexError;
use super::grammar::{Escape, Translator, plain};

/// The colon without a colon: the engine resolves escapes before it looks for POSIX classes, and
/// would find `[:alpha:]` where Java sees a set of characters.
const COLON: &str = r"[^\x{0}-\x{39}\x{3B}-\x{10FFFF}]";

impl Translator {
    /// A class whose `[` has been read.
    pub(super) fn class(&mut self) -> Result<String, RegexError> {
        let negation = if self.eat('^') { "^" } else { "" };
        let mut operands: Vec<String> = Vec::new();
        let mut items = String::new();
        loop {
            self.skip_comments();
            if self.is_at_end() {
                return self.error("unclosed character class");
            }
            match self.peek() {
                // A `]` with nothing before it is itself.
                Some(']') if !items.is_empty() || !operands.is_empty() => {
                    self.at += 1;
                    break;
                }
                Some('[') => {
                    self.at += 1;
                    items += &self.nested(Self::class)?;
                }
                Some('&') if self.peek_second() == Some('&') => {
                    while self.eat('&') {}
                    if !items.is_empty() {
                        operands.push(std::mem::take(&mut items));
                    }
                }
                _ => items += &self.class_item()?,
            }
        }
        if !items.is_empty() {
            operands.push(items);
        }
        Ok(match operands.as_slice() {
            [items] => format!("[{negation}{items}]"),
            operands => format!("[{negation}[{}]]", operands.join("]&&[")),
        })
    }

    /// A character, a range, or a class escape.
    fn class_item(&mut self) -> Result<String, RegexError> {
        let first = match self.class_character()? {
            Escape::Char(c) => c,
            Escape::Set(set) => return Ok(set),
            Escape::Other(_) => return self.error("illegal escape sequence in a class"),
        };
        let is_range = self.peek() == Some('-') && !matches!(self.peek_second(), Some('[' | ']'));
        if !is_range || self.at + 1 == self.length() {
            return Ok(self.range(first, first));
        }
        self.at += 1;
        match self.class_character()? {
            Escape::Char(last) if last >= first => Ok(self.range(first, last)),
            _ => self.error("illegal character range"),
        }
    }

    fn class_character(&mut self) -> Result<Escape, RegexError> {
        match self.next() {
            Some(('\\', false)) => self.escape(),
            Some((c, _)) => Ok(Escape::Char(c)),
            None => self.error("unclosed character class"),
        }
    }

    /// A range, with its letters of the other case where case does not count. (Where it does not
    /// count in Unicode either, the class as a whole is marked.)
    fn range(&self, first: char, last: char) -> String {
        let text = |first: char, last: char| match (first, last) {
            (':', ':') => COLON.to_owned(),
            (first, last) if first == last => plain(first),
            (first, last) => format!("{}-{}", plain(first), plain(last)),
        };
        let mut out = text(first, last);
        if self.flags.caseless {
            let overlap = |low: char, high: char| (first.max(low), last.min(high));
            let (low, high) = overlap('a', 'z');
            if low <= high {
                out += &text(low.to_ascii_uppercase(), high.to_ascii_uppercase());
            }
            let (low, high) = overlap('A', 'Z');
            if low <= high {
                out += &text(low.to_ascii_lowercase(), high.to_ascii_lowercase());
            }
        }
        out
    }
}
