//! Java's grammar of patterns: alternatives, sequences, quantifiers, groups, flags.

use std::collections::BTreeMap;

use super::RegexError;
use super::property::LINE_ENDS;

/// Java's embedded flags.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    /// `i`: no case, in ASCII.
    pub(super) caseless: bool,
    /// `u`: no case in Unicode (with `i`).
    pub(super) unicode_case: bool,
    /// `U`: predefined classes are Unicode's.
    pub(super) unicode_classes: bool,
    multi_line: bool,
    dot_all: bool,
    unix_lines: bool,
    /// `x`: blanks and comments are not part of the pattern.
    pub(super) comments: bool,
}

/// Reads Java's grammar, writes the engine's.
pub(super) struct Translator {
    /// The pattern; `true` marks what stood between `\Q` and `\E`.
    chars: Vec<(char, bool)>,
    pub(super) at: usize,
    pub(super) flags: Flags,
    captures: bool,
    pub(super) refers_back: bool,
    pub(super) groups: usize,
    pub(super) names: BTreeMap<String, usize>,
    depth: usize,
}

/// Groups and classes within each other; more than any pattern needs, less than the stack has.
const DEPTH_MAX: usize = 100;

/// What an escape stands for.
pub(super) enum Escape {
    Char(char),
    /// A bracketed class.
    Set(String),
    /// Something that only makes sense outside of classes.
    Other(String),
}

impl Translator {
    pub(super) fn new(pattern: &str, captures: bool) -> Self {
        Self {
            chars: unquote(pattern),
            at: 0,
            flags: Flags::default(),
            captures,
            refers_back: false,
            groups: 0,
            names: BTreeMap::new(),
            depth: 0,
        }
    }

    pub(super) fn error<T>(&self, message: impl Into<String>) -> Result<T, RegexError> {
        Err(RegexError { message: message.into(), index: self.at })
    }

    /// Runs `inner` one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, RegexError>,
    ) -> Result<T, RegexError> {
        if self.depth == DEPTH_MAX {
            return self.error("too many groups within each other");
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// The next character if it has its special meaning.
    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).filter(|(_, quoted)| !quoted).map(|(c, _)| *c)
    }

    /// The character after the next, if it has its special meaning.
    pub(super) fn peek_second(&self) -> Option<char> {
        self.chars.get(self.at + 1).filter(|(_, quoted)| !quoted).map(|(c, _)| *c)
    }

    /// The next character, special or not.
    pub(super) fn next(&mut self) -> Option<(char, bool)> {
        let next = self.chars.get(self.at).copied();
        self.at += usize::from(next.is_some());
        next
    }

    pub(super) fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    pub(super) fn length(&self) -> usize {
        self.chars.len()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.chars.len()
    }

    /// Under `x`: blanks, and `#` to the end of the line.
    pub(super) fn skip_comments(&mut self) {
        while self.flags.comments {
            match self.peek() {
                Some(' ' | '\t'..='\r') => self.at += 1,
                Some('#') => {
                    let rest = &self.chars[self.at..];
                    let is_end = |&(c, _): &(char, bool)| {
                        matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
                    };
                    self.at += rest.iter().position(is_end).unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    pub(super) fn whole(&mut self) -> Result<String, RegexError> {
        let out = self.alternatives()?;
        if self.is_at_end() { Ok(out) } else { self.error("unmatched closing `)`") }
    }

    fn alternatives(&mut self) -> Result<String, RegexError> {
        let mut out = self.sequence()?;
        while self.eat('|') {
            out.push('|');
            out += &self.sequence()?;
        }
        Ok(out)
    }

    fn sequence(&mut self) -> Result<String, RegexError> {
        let mut out = String::new();
        loop {
            self.skip_comments();
            if self.is_at_end() || matches!(self.peek(), Some('|' | ')')) {
                return Ok(out);
            }
            if let Some(atom) = self.atom()? {
                out += &self.quantified(atom)?;
            }
        }
    }

    /// One thing that a quantifier may follow; `None` for flags, which stand for nothing.
    fn atom(&mut self) -> Result<Option<String>, RegexError> {
        let Some((c, quoted)) = self.next() else { return self.error("unexpected end") };
        if quoted {
            return Ok(Some(self.literal(c)));
        }
        Ok(Some(match c {
            '(' => return self.nested(Self::group),
            '[' => {
                let class = self.nested(Self::class)?;
                self.with_unicode_case(class)
            }
            '\\' => match self.escape()? {
                Escape::Char(c) => self.literal(c),
                Escape::Set(set) | Escape::Other(set) => set,
            },
            '.' if self.flags.dot_all => "(?s:.)".to_owned(),
            '.' if self.flags.unix_lines => r"[^\x{A}]".to_owned(),
            '.' => format!("[^{LINE_ENDS}]"),
            '^' => self.line_start(),
            '$' => self.line_end(),
            '*' | '+' | '?' => {
                self.at -= 1;
                return self.error(format!("dangling `{c}`"));
            }
            '{' => {
                // As in Java a repetition of nothing is nothing.
                self.at -= 1;
                String::new()
            }
            c => self.literal(c),
        }))
    }

    fn line_start(&self) -> String {
        if !self.flags.multi_line {
            return r"\A".to_owned();
        }
        let after = if self.flags.unix_lines { r"\x{A}" } else { LINE_ENDS };
        format!(r"(?:\A|(?<=[{after}])(?<!\x{{D}}(?=\x{{A}}))(?!\z))")
    }

    fn line_end(&self) -> String {
        if self.flags.multi_line {
            format!(r"(?={}|\z)", self.line_ends())
        } else {
            self.input_end()
        }
    }

    /// The end, or a line end before it.
    pub(super) fn input_end(&self) -> String {
        format!(r"(?=(?:{})?\z)", self.line_ends())
    }

    fn line_ends(&self) -> &'static str {
        if self.flags.unix_lines {
            r"\x{A}"
        } else {
            r"\x{D}\x{A}|(?<!\x{D})\x{A}|[\x{D}\x{85}\x{2028}\x{2029}]"
        }
    }

    fn quantified(&mut self, atom: String) -> Result<String, RegexError> {
        self.skip_comments();
        let count = match self.peek() {
            Some(c @ ('*' | '+' | '?')) => {
                self.at += 1;
                c.to_string()
            }
            Some('{') => self.counted()?,
            _ => return Ok(atom),
        };
        let lazy = self.eat('?');
        let possessive = !lazy && self.eat('+');
        if atom.is_empty() {
            return Ok(atom);
        }
        Ok(match (lazy, possessive) {
            (true, _) => format!("(?:{atom}){count}?"),
            (_, true) => format!("(?>(?:{atom}){count})"),
            _ => format!("(?:{atom}){count}"),
        })
    }

    fn counted(&mut self) -> Result<String, RegexError> {
        self.at += 1;
        let Some(min) = self.count()? else { return self.error("illegal repetition") };
        let mut max = Some(min);
        if self.eat(',') {
            max = self.count()?;
        }
        if !self.eat('}') {
            return self.error("unclosed counted closure");
        }
        match max {
            Some(max) if max < min => self.error("illegal repetition range"),
            Some(max) => Ok(format!("{{{min},{max}}}")),
            None => Ok(format!("{{{min},}}")),
        }
    }

    fn count(&mut self) -> Result<Option<u32>, RegexError> {
        let mut number = None;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            self.at += 1;
            let next = number.unwrap_or(0u32).checked_mul(10).and_then(|n| n.checked_add(digit));
            let Some(next) = next else { return self.error("illegal repetition range") };
            number = Some(next);
        }
        Ok(number)
    }

    fn group(&mut self) -> Result<Option<String>, RegexError> {
        let before = self.flags;
        let open = if self.eat('?') {
            match self.next() {
                Some((':', false)) => "(?:",
                Some(('=', false)) => "(?=",
                Some(('!', false)) => "(?!",
                Some(('>', false)) => "(?>",
                Some(('<', false)) => match self.peek() {
                    Some('=') => {
                        self.at += 1;
                        "(?<="
                    }
                    Some('!') => {
                        self.at += 1;
                        "(?<!"
                    }
                    Some(c) if c.is_ascii_alphabetic() => {
                        let name = self.group_name()?;
                        self.groups += 1;
                        if self.names.insert(name.clone(), self.groups).is_some() {
                            return self.error(format!("named group <{name}> exists twice"));
                        }
                        self.capturing()
                    }
                    _ => return self.error("unknown look-behind group"),
                },
                _ => {
                    self.at -= 1;
                    match self.inline_flags()? {
                        ':' => "(?:",
                        _ => return Ok(None),
                    }
                }
            }
        } else {
            self.groups += 1;
            self.capturing()
        };
        let inner = self.alternatives()?;
        if !self.eat(')') {
            return self.error("unclosed group");
        }
        self.flags = before;
        Ok(Some(format!("{open}{inner})")))
    }

    fn capturing(&self) -> &'static str {
        if self.captures { "(" } else { "(?:" }
    }

    pub(super) fn group_name(&mut self) -> Result<String, RegexError> {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(char::is_ascii_alphanumeric) {
            self.at += 1;
            name.push(c);
        }
        if !self.eat('>') || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return self.error("named group is missing trailing `>`");
        }
        Ok(name)
    }

    /// Flags up to `)` or `:`, which is answered. Before `)` they count until the group ends that
    /// they stand in.
    fn inline_flags(&mut self) -> Result<char, RegexError> {
        let mut on = true;
        loop {
            let Some((c, false)) = self.next() else {
                return self.error("unknown inline modifier");
            };
            match c {
                'i' => self.flags.caseless = on,
                'u' => self.flags.unicode_case = on,
                'U' => {
                    self.flags.unicode_classes = on;
                    self.flags.unicode_case = on;
                }
                'm' => self.flags.multi_line = on,
                's' => self.flags.dot_all = on,
                'd' => self.flags.unix_lines = on,
                'x' => self.flags.comments = on,
                '-' if on => on = false,
                ':' | ')' => return Ok(c),
                _ => {
                    self.at -= 1;
                    return self.error("unknown inline modifier");
                }
            }
        }
    }

    /// One character as itself.
    fn literal(&self, c: char) -> String {
        let text = plain(c);
        if !self.flags.caseless {
            text
        } else if self.flags.unicode_case {
            format!("(?i:{text})")
        } else if c.is_ascii_alphabetic() {
            format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase())
        } else {
            text
        }
    }

    fn with_unicode_case(&self, class: String) -> String {
        if self.flags.caseless && self.flags.unicode_case { format!("(?i:{class})") } else { class }
    }
}

/// One character, safe inside and outside of classes.
pub(super) fn plain(c: char) -> String {
    if c.is_ascii_alphanumeric() { c.to_string() } else { format!(r"\x{{{:X}}}", c as u32) }
}

/// Marks what stands between `\Q` and `\E` (or the end), and drops these two.
fn unquote(pattern: &str) -> Vec<(char, bool)> {
    let mut out = Vec::new();
    let mut rest = pattern;
    let mut quoted = false;
    while let Some(c) = rest.chars().next() {
        if quoted && let Some(after) = rest.strip_prefix("\\E") {
            (quoted, rest) = (false, after);
        } else if !quoted && let Some(after) = rest.strip_prefix("\\Q") {
            (quoted, rest) = (true, after);
        } else {
            out.push((c, quoted));
            rest = &rest[c.len_utf8()..];
            if c == '\\'
                && !quoted
                && let Some(escaped) = rest.chars().next()
            {
                out.push((escaped, false));
                rest = &rest[escaped.len_utf8()..];
            }
        }
    }
    out
}
