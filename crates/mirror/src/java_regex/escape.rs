//! What may follow a backslash in Java's patterns.

use super::RegexError;
use super::grammar::{Escape, Translator};
use super::property::{self, HORIZONTAL, SPACE, UNICODE_WORD, VERTICAL, WORD};

impl Translator {
    /// What follows a backslash.
    pub(super) fn escape(&mut self) -> Result<Escape, RegexError> {
        let Some((c, _)) = self.next() else { return self.error("unexpected end after `\\`") };
        let flags = self.flags;
        let set = |ascii: &str, unicode: &str, negated: bool| {
            let text = if flags.unicode_classes { unicode } else { ascii };
            Ok(Escape::Set(format!("[{}{text}]", if negated { "^" } else { "" })))
        };
        match c {
            'd' | 'D' => set("0-9", r"\p{Nd}", c == 'D'),
            's' | 'S' => set(SPACE, r"\p{White_Space}", c == 'S'),
            'w' | 'W' => set(WORD, UNICODE_WORD, c == 'W'),
            'h' | 'H' => set(HORIZONTAL, HORIZONTAL, c == 'H'),
            'v' | 'V' => set(VERTICAL, VERTICAL, c == 'V'),
            'p' | 'P' => self.property(c == 'P').map(Escape::Set),
            '1'..='9' => Ok(Escape::Other(self.numbered_reference(c))),
            'k' => self.named_reference().map(Escape::Other),
            'A' | 'G' => Ok(Escape::Other(r"\A".into())),
            'z' => Ok(Escape::Other(r"\z".into())),
            'Z' => Ok(Escape::Other(self.input_end())),
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
        match property::named_character(&name) {
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
        match property::find(&name, self.flags) {
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
