//! Java's regular expressions, by translation.
//!
//! A pattern is read by Java's grammar (`java.util.regex.Pattern` of Java 17) and written anew for
//! the engine in constructs that mean the same in both: every literal escaped, every class spelt
//! out, flags applied to what they cover. What Java refuses is refused.
//!
//! Does not: search (a name matches as a whole or not at all), capture.
//!
//! # Invariants
//!
//! 1. Matching takes a bounded number of steps; what takes more has no answer.
//! 2. What is not translated exactly is refused with a message, with these exceptions: `\b` and
//!    `\B` know ASCII words only, `\X` is a character with its marks, and look-behind of unbounded
//!    length, which Java refuses in part, is accepted.

use std::collections::BTreeMap;
use std::fmt;

use fancy_regex::{Regex, RegexBuilder};

use crate::property_class::{self, HORIZONTAL, LINE_ENDS, SPACE, VERTICAL, WORD};

/// Steps of backtracking after which a match is given up: some tens of milliseconds.
const STEPS_MAX: usize = 200_000;

/// A compiled pattern that matches whole names.
#[derive(Clone, Debug)]
pub(crate) struct JavaRegex(Regex);

/// Why a text is not a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegexError {
    /// What is wrong, in Java's words where Java has some.
    pub message: String,
    /// The character (from 0) near which it is.
    pub index: usize,
}

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} near character {}", self.message, self.index + 1)
    }
}

impl std::error::Error for RegexError {}

impl JavaRegex {
    pub(crate) fn new(pattern: &str) -> Result<Self, RegexError> {
        let mut first = Translator::new(pattern, false)?;
        let mut translated = first.whole()?;
        if first.refers_back {
            // Groups capture only where something refers to them: without captures the engine
            // needs no backtracking for most patterns.
            translated = Translator::new(pattern, true)?.whole()?;
        }
        RegexBuilder::new(&format!(r"\A(?:{translated})\z"))
            .backtrack_limit(STEPS_MAX)
            .build()
            .map(Self)
            .map_err(|error| RegexError { message: format!("not supported: {error}"), index: 0 })
    }

    /// Whether the pattern matches all of `name`; `None` when that takes too many steps.
    pub(crate) fn is_full_match(&self, name: &str) -> Option<bool> {
        self.0.is_match(name).ok()
    }
}

/// Java's embedded flags.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flags {
    /// `i`: no case, in ASCII.
    pub(crate) caseless: bool,
    /// `u`: no case in Unicode (with `i`).
    pub(crate) unicode_case: bool,
    /// `U`: predefined classes are Unicode's.
    pub(crate) unicode_classes: bool,
    multi_line: bool,
    dot_all: bool,
    unix_lines: bool,
    /// `x`: blanks and comments are not part of the pattern.
    pub(crate) comments: bool,
}

/// Reads Java's grammar, writes the engine's.
pub(crate) struct Translator {
    /// The pattern; `true` marks what stood between `\Q` and `\E`.
    chars: Vec<(char, bool)>,
    pub(crate) at: usize,
    pub(crate) flags: Flags,
    captures: bool,
    refers_back: bool,
    groups: usize,
    names: BTreeMap<String, usize>,
    depth: usize,
}

/// Groups and classes within each other; more than any pattern needs, less than the stack has.
const DEPTH_MAX: usize = 100;

/// What an escape stands for.
pub(crate) enum Escape {
    Char(char),
    /// A bracketed class.
    Set(String),
    /// Something that only makes sense outside of classes.
    Other(String),
}

impl Translator {
    fn new(pattern: &str, captures: bool) -> Result<Self, RegexError> {
        Ok(Self {
            chars: unquote(pattern),
            at: 0,
            flags: Flags::default(),
            captures,
            refers_back: false,
            groups: 0,
            names: BTreeMap::new(),
            depth: 0,
        })
    }

    pub(crate) fn error<T>(&self, message: impl Into<String>) -> Result<T, RegexError> {
        Err(RegexError { message: message.into(), index: self.at })
    }

    /// Runs `inner` one level deeper.
    pub(crate) fn nested<T>(
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
    pub(crate) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).filter(|(_, quoted)| !quoted).map(|(c, _)| *c)
    }

    /// The character after the next, if it has its special meaning.
    pub(crate) fn peek_second(&self) -> Option<char> {
        self.chars.get(self.at + 1).filter(|(_, quoted)| !quoted).map(|(c, _)| *c)
    }

    /// The next character, special or not.
    pub(crate) fn next(&mut self) -> Option<(char, bool)> {
        let next = self.chars.get(self.at).copied();
        self.at += usize::from(next.is_some());
        next
    }

    pub(crate) fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn length(&self) -> usize {
        self.chars.len()
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.chars.len()
    }

    /// Under `x`: blanks, and `#` to the end of the line.
    pub(crate) fn skip_comments(&mut self) {
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

    fn whole(&mut self) -> Result<String, RegexError> {
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
        let end = if self.flags.unix_lines {
            r"\x{A}".to_owned()
        } else {
            format!(r"\x{{D}}\x{{A}}|(?<!\x{{D}})\x{{A}}|[\x{{D}}{}]", r"\x{85}\x{2028}\x{2029}")
        };
        if self.flags.multi_line { format!(r"(?={end}|\z)") } else { format!(r"(?=(?:{end})?\z)") }
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

    fn group_name(&mut self) -> Result<String, RegexError> {
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

    /// What follows a backslash.
    pub(crate) fn escape(&mut self) -> Result<Escape, RegexError> {
        let Some((c, _)) = self.next() else { return self.error("unexpected end after `\\`") };
        let flags = self.flags;
        let set = |ascii: &str, unicode: &str, negated: bool| {
            let text = if flags.unicode_classes { unicode } else { ascii };
            Ok(Escape::Set(format!("[{}{text}]", if negated { "^" } else { "" })))
        };
        match c {
            'd' | 'D' => set("0-9", r"\p{Nd}", c == 'D'),
            's' | 'S' => set(SPACE, r"\p{White_Space}", c == 'S'),
            'w' | 'W' => set(WORD, property_class::UNICODE_WORD, c == 'W'),
            'h' | 'H' => set(HORIZONTAL, HORIZONTAL, c == 'H'),
            'v' | 'V' => set(VERTICAL, VERTICAL, c == 'V'),
            'p' | 'P' => self.property(c == 'P').map(Escape::Set),
            '1'..='9' => Ok(Escape::Other(self.numbered_reference(c))),
            'k' => self.named_reference().map(Escape::Other),
            'A' | 'G' => Ok(Escape::Other(r"\A".into())),
            'z' => Ok(Escape::Other(r"\z".into())),
            'Z' => {
                let flags = Flags { multi_line: false, ..self.flags };
                let whole = std::mem::replace(&mut self.flags, flags);
                let end = self.line_end();
                self.flags = whole;
                Ok(Escape::Other(end))
            }
            'b' if self.peek() == Some('{') => self.error("`\\b{g}` is not supported"),
            'b' => Ok(Escape::Other(format!(
                "(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))"
            ))),
            'B' => Ok(Escape::Other(format!(
                "(?:(?<=[{WORD}])(?=[{WORD}])|(?<![{WORD}])(?![{WORD}]))"
            ))),
            'R' => Ok(Escape::Other(format!(r"(?:\x{{D}}\x{{A}}|[{VERTICAL}])"))),
            'X' => Ok(Escape::Other(r"(?>\x{D}\x{A}|\P{M}\p{M}*|\p{M}+)".into())),
            c if !c.is_ascii_alphanumeric() => Ok(Escape::Char(c)),
            c => self.character(c).map(Escape::Char),
        }
    }

    /// The escapes that stand for one character.
    fn character(&mut self, c: char) -> Result<char, RegexError> {
        let code = match c {
            't' => 0x09,
            'n' => 0x0a,
            'r' => 0x0d,
            'f' => 0x0c,
            'a' => 0x07,
            'e' => 0x1b,
            '0' => self.octal()?,
            'x' if self.eat('{') => {
                let mut code = 0u32;
                while let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) {
                    self.at += 1;
                    code = code.saturating_mul(16).saturating_add(digit);
                }
                if !self.eat('}') {
                    return self.error("unclosed hexadecimal escape sequence");
                }
                code
            }
            'x' => self.hexadecimal(2)?,
            'u' => self.utf16()?,
            'c' => match self.next() {
                Some((c, _)) => c as u32 ^ 64,
                None => return self.error("illegal control escape sequence"),
            },
            'N' => return self.named_character(),
            _ => {
                self.at -= 1;
                return self.error("illegal escape sequence");
            }
        };
        match char::from_u32(code) {
            Some(c) => Ok(c),
            None => self.error("hexadecimal codepoint is not a character"),
        }
    }

    fn hexadecimal(&mut self, digits: u32) -> Result<u32, RegexError> {
        let mut code = 0;
        for _ in 0..digits {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) else {
                return self.error("illegal hexadecimal escape sequence");
            };
            self.at += 1;
            code = code << 4 | digit;
        }
        Ok(code)
    }

    /// `uXXXX`, and a second one where the first is half of a surrogate pair.
    fn utf16(&mut self) -> Result<u32, RegexError> {
        let high = self.hexadecimal(4)?;
        if !(0xd800..0xdc00).contains(&high) || self.peek() != Some('\\') {
            return Ok(high);
        }
        let before = self.at;
        self.at += 1;
        if self.eat('u')
            && let low @ 0xdc00..0xe000 = self.hexadecimal(4)?
        {
            return Ok(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        }
        self.at = before;
        Ok(high)
    }

    fn octal(&mut self) -> Result<u32, RegexError> {
        let mut code = 0;
        for digits in 0..3 {
            match self.peek().and_then(|c| c.to_digit(8)) {
                Some(digit) if digits < 2 || code < 0o40 => {
                    self.at += 1;
                    code = code << 3 | digit;
                }
                None if digits == 0 => return self.error("illegal octal escape sequence"),
                _ => break,
            }
        }
        Ok(code)
    }

    fn named_character(&mut self) -> Result<char, RegexError> {
        let name = self.braced("illegal character name escape sequence")?;
        match property_class::named_character(&name) {
            Some(c) => Ok(c),
            None => self.error(format!("the character name {{{name}}} is not supported")),
        }
    }

    /// `{…}`.
    fn braced(&mut self, otherwise: &str) -> Result<String, RegexError> {
        let mut text = String::new();
        if !self.eat('{') {
            return self.error(otherwise);
        }
        loop {
            match self.next() {
                Some(('}', _)) => return Ok(text),
                Some((c, _)) => text.push(c),
                None => return self.error(otherwise),
            }
        }
    }

    fn property(&mut self, negated: bool) -> Result<String, RegexError> {
        let name = match self.peek() {
            Some('{') => self.braced("unclosed character family")?,
            Some(c) => {
                self.at += 1;
                c.to_string()
            }
            None => return self.error("illegal character property"),
        };
        match property_class::find(&name, self.flags) {
            Some(text) => Ok(format!("[{}{text}]", if negated { "^" } else { "" })),
            None => self.error(format!("unknown character property name {{{name}}}")),
        }
    }

    /// A reference by number takes as many digits as there are groups for.
    fn numbered_reference(&mut self, first: char) -> String {
        let mut number = first as usize - '0' as usize;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            let longer = number.saturating_mul(10).saturating_add(digit as usize);
            if longer > self.groups {
                break;
            }
            self.at += 1;
            number = longer;
        }
        self.reference(number)
    }

    fn named_reference(&mut self) -> Result<String, RegexError> {
        if !self.eat('<') {
            return self.error("`\\k` is not followed by `<` for a named capturing group");
        }
        let name = self.group_name()?;
        match self.names.get(&name) {
            Some(&number) => Ok(self.reference(number)),
            None => self.error(format!("named capturing group <{name}> does not exist")),
        }
    }

    fn reference(&mut self, number: usize) -> String {
        self.refers_back = true;
        if number > self.groups {
            // Java reads it, and it never matches.
            return "(?!)".to_owned();
        }
        let caseless = if self.flags.caseless { "i" } else { "" };
        format!(r"(?{caseless}:\{number})")
    }
}

/// One character, safe inside and outside of classes.
pub(crate) fn plain(c: char) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let regex = JavaRegex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        regex.is_full_match(name).expect("few steps")
    }

    // Expected values follow the documentation of java.util.regex.Pattern.

    #[test]
    fn quantifiers_bind_to_the_last_character_and_groups_keep_their_flags() {
        assert!(matches("ab{2}", "abb") && !matches("ab{2}", "abab"));
        assert!(matches(r"\Qab\E+", "abb") && !matches(r"\Qab\E+", "abab"));
        assert!(matches("(a(?i)b)c", "aBc") && !matches("(a(?i)b)c", "abC"));
        assert!(matches("(?i)a(?-i)b", "Ab") && !matches("(?i)a(?-i)b", "aB"));
        assert!(!matches("a{2}+a", "aaa") && matches("(?:ab)?+", "ab"));
    }

    #[test]
    fn no_character_of_a_class_gains_a_meaning_on_the_way() {
        for c in (0u8..128).map(char::from).filter(|c| !c.is_ascii_alphanumeric()) {
            let pattern = format!(r"[a\Q{c}\Ez]");
            assert!(matches(&pattern, &c.to_string()), "{pattern}");
            assert!(!matches(&pattern, "m"), "{pattern}");
            let pattern = format!(r"[^\Q{c}\E]");
            assert!(!matches(&pattern, &c.to_string()) && matches(&pattern, "m"), "{pattern}");
            assert!(matches(&format!(r"x\Q{c}\Ey"), &format!("x{c}y")), "{c:?}");
        }
        for pattern in ["[:]", "[:a:]", "[[:][a:]]", "[^[:b:]&&[^:]]"] {
            assert_eq!(matches(pattern, ":"), !pattern.starts_with("[^"), "{pattern}");
        }
    }

    #[test]
    fn classes_union_intersect_and_negate_as_a_whole() {
        assert!(matches("[a-c&&b-d]+", "bc") && !matches("[a-c&&b-d]", "a"));
        assert!(matches("[^a-c&&b-d]", "a") && !matches("[^a-c&&b-d]", "b"));
        assert!(matches(r"[\D&&[^x]]", "y") && !matches(r"[\D&&[^x]]", "x"));
        assert!(matches(r"[^\p{Alpha}\p{Digit}]", "-") && !matches(r"[^\p{Alpha}\p{Digit}]", "1"));
        assert!(matches(r"[\P{Alpha}\P{Digit}]", "a") && matches(r"[\P{Alpha}\P{Digit}]", "1"));
        assert!(matches("(?i)[k-m]", "L") && !matches("(?i)[^k-m]", "L"));
        assert!(matches("(?iu)[é]", "É") && !matches("(?i)[é]", "É"));
    }

    #[test]
    fn anchors_know_javas_line_ends() {
        assert!(matches("(?m)a$\n^b", "a\nb") && !matches("a$\n^b", "a\nb"));
        assert!(matches("a$\n", "a\n") && matches(r"a\Z\n", "a\n") && !matches(r"a\z\n", "a\n"));
        assert!(!matches("(?d)a$\r", "a\r") && matches("a$\r", "a\r"));
        assert!(matches(r"(?m)a$\r\n^b", "a\r\nb") && !matches(r"(?m)a\r$\n^b", "a\r\nb"));
    }

    #[test]
    fn references_count_groups_as_java_does() {
        assert!(matches(r"(a)(?<n>b)\2\k<n>\1", "abbba"));
        // There is no eleventh group: the first, then a 1.
        assert!(matches(r"(a)\11", "aa1"));
        assert!(!matches(r"(a)\2", "aa"));
        assert!(matches(r"(?i)(a)\1", "aA"));
    }

    #[test]
    fn what_java_refuses_is_refused() {
        for pattern in [
            "a)",
            "(?",
            "(?<",
            "(?<1>a)",
            "(?<a",
            "[a",
            "[b-a]",
            r"[a-\d]",
            r"\p{",
            r"\x{110000}",
            r"\xg1",
            r"\08",
            r"\c",
            r"\k<n>",
            "(?<n>a)(?<n>b)",
            "a{3,2}",
            "a{99999999999}",
            "[^]",
            "x{1",
            r"\i",
            r"[\b]",
            "(?z)",
            r"\N{NOPE}",
        ] {
            assert!(JavaRegex::new(pattern).is_err(), "{pattern}");
        }
        assert!(JavaRegex::new(&"(".repeat(100_000)).is_err());
        assert!(JavaRegex::new(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn comments_end_with_their_line() {
        assert!(matches("(?x) a # b\n c [ d ] ", "acd"));
        assert!(matches("(?x)a\\ b", "a b"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(
            pattern in r"[\[\]\(\)\\a-c0-3QEpdwWxu{}^$.*+?|&:,<>!=~#\-]{0,24}",
            name in "[a-c0-3.:-]{0,12}",
        ) {
            if let Ok(regex) = JavaRegex::new(&pattern) {
                let _ = regex.is_full_match(&name);
            }
        }

        #[test]
        fn a_quoted_text_matches_itself_and_nothing_longer(text in "\\PC{0,20}") {
            proptest::prop_assume!(!text.contains("\\E"));
            let pattern = format!(r"\Q{text}\E");
            proptest::prop_assert!(matches(&pattern, &text));
            let longer = format!("{text}x");
            proptest::prop_assert!(!matches(&pattern, &longer));
        }
    }
}
