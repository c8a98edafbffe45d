//! Character properties and names that Java's patterns may use.
//!
//! Answers are the inside of a bracketed class of the engine.

use super::grammar::Flags;

/// `\s` in ASCII.
pub(super) const SPACE: &str = r"\x{20}\x{9}-\x{D}";
/// `\w` in ASCII.
pub(super) const WORD: &str = r"a-zA-Z0-9_";
/// `\w` under the flag `U`.
pub(super) const UNICODE_WORD: &str = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}";
/// `\h`.
pub(super) const HORIZONTAL: &str =
    r"\x{9}\x{20}\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
/// `\v`.
pub(super) const VERTICAL: &str = r"\x{A}-\x{D}\x{85}\x{2028}\x{2029}";
/// What `.` does not match and `$` may stand before.
pub(super) const LINE_ENDS: &str = r"\x{A}\x{D}\x{85}\x{2028}\x{2029}";

/// POSIX classes: in ASCII, and under the flag `U`.
const POSIX: &[(&str, &str, &str)] = &[
    ("Lower", "a-z", r"\p{Lowercase}"),
    ("Upper", "A-Z", r"\p{Uppercase}"),
    ("ASCII", r"\x{0}-\x{7F}", r"\x{0}-\x{7F}"),
    ("Alpha", "a-zA-Z", r"\p{Alphabetic}"),
    ("Digit", "0-9", r"\p{Nd}"),
    ("Alnum", "a-zA-Z0-9", r"\p{Alphabetic}\p{Nd}"),
    ("Punct", r"\x{21}-\x{2F}\x{3A}-\x{40}\x{5B}-\x{60}\x{7B}-\x{7E}", r"\p{P}"),
    ("Graph", r"\x{21}-\x{7E}", r"[^\p{White_Space}\p{Cc}\p{Cs}\p{Cn}]"),
    ("Print", r"\x{20}-\x{7E}", r"[^\p{Zl}\p{Zp}\p{Cc}\p{Cs}\p{Cn}]"),
    ("Blank", r"\x{20}\x{9}", r"\p{Zs}\x{9}"),
    ("Cntrl", r"\x{0}-\x{1F}\x{7F}", r"\p{Cc}"),
    ("XDigit", "0-9a-fA-F", r"\p{Nd}\p{Hex_Digit}"),
    ("Space", SPACE, r"\p{White_Space}"),
];

/// Methods of `java.lang.Character`.
const JAVA: &[(&str, &str)] = &[
    ("javaLowerCase", r"\p{Lowercase}"),
    ("javaUpperCase", r"\p{Uppercase}"),
    ("javaTitleCase", r"\p{Lt}"),
    ("javaAlphabetic", r"\p{Alphabetic}"),
    ("javaIdeographic", r"\p{Ideographic}"),
    ("javaLetter", r"\p{L}"),
    ("javaDigit", r"\p{Nd}"),
    ("javaLetterOrDigit", r"\p{L}\p{Nd}"),
    ("javaSpaceChar", r"\p{Z}"),
    ("javaWhitespace", r"\x{9}-\x{D}\x{1C}-\x{1F}[\p{Z}&&[^\x{A0}\x{2007}\x{202F}]]"),
    ("javaISOControl", r"\p{Cc}"),
    ("javaDefined", r"\P{Cn}"),
];

/// Unicode's binary properties by the names that Java knows after `Is`, in lower case.
const BINARY: &[(&str, &str)] = &[
    ("alphabetic", r"\p{Alphabetic}"),
    ("ideographic", r"\p{Ideographic}"),
    ("letter", r"\p{L}"),
    ("lowercase", r"\p{Lowercase}"),
    ("uppercase", r"\p{Uppercase}"),
    ("titlecase", r"\p{Lt}"),
    ("white_space", r"\p{White_Space}"),
    ("whitespace", r"\p{White_Space}"),
    ("control", r"\p{Cc}"),
    ("punctuation", r"\p{P}"),
    ("hex_digit", r"\p{Nd}\p{Hex_Digit}"),
    ("hexdigit", r"\p{Nd}\p{Hex_Digit}"),
    ("digit", r"\p{Nd}"),
    ("alnum", r"\p{Alphabetic}\p{Nd}"),
    ("assigned", r"\P{Cn}"),
    ("join_control", r"\p{Join_Control}"),
    ("word", UNICODE_WORD),
];

/// Unicode's general categories.
const CATEGORIES: &[&str] = &[
    "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "LC", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me",
    "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk",
    "Sm", "So", "Z", "Zl", "Zp", "Zs",
];

/// Unicode blocks of scripts in use, without blanks, hyphens and underscores, in lower case.
const BLOCKS: &[(&str, &str)] = &[
    ("basiclatin", r"\x{0}-\x{7F}"),
    ("latin1supplement", r"\x{80}-\x{FF}"),
    ("latinextendeda", r"\x{100}-\x{17F}"),
    ("latinextendedb", r"\x{180}-\x{24F}"),
    ("greek", r"\x{370}-\x{3FF}"),
    ("greekandcoptic", r"\x{370}-\x{3FF}"),
    ("cyrillic", r"\x{400}-\x{4FF}"),
    ("armenian", r"\x{530}-\x{58F}"),
    ("hebrew", r"\x{590}-\x{5FF}"),
    ("arabic", r"\x{600}-\x{6FF}"),
    ("devanagari", r"\x{900}-\x{97F}"),
    ("bengali", r"\x{980}-\x{9FF}"),
    ("thai", r"\x{E00}-\x{E7F}"),
    ("georgian", r"\x{10A0}-\x{10FF}"),
    ("hangulsyllables", r"\x{AC00}-\x{D7AF}"),
    ("generalpunctuation", r"\x{2000}-\x{206F}"),
    ("currencysymbols", r"\x{20A0}-\x{20CF}"),
    ("hiragana", r"\x{3040}-\x{309F}"),
    ("katakana", r"\x{30A0}-\x{30FF}"),
    ("cjkunifiedideographs", r"\x{4E00}-\x{9FFF}"),
];

/// The names of ASCII's characters that are neither letters nor digits.
const NAMES: &[(&str, char)] = &[
    ("SPACE", ' '),
    ("EXCLAMATION MARK", '!'),
    ("QUOTATION MARK", '"'),
    ("NUMBER SIGN", '#'),
    ("DOLLAR SIGN", '$'),
    ("PERCENT SIGN", '%'),
    ("AMPERSAND", '&'),
    ("APOSTROPHE", '\''),
    ("LEFT PARENTHESIS", '('),
    ("RIGHT PARENTHESIS", ')'),
    ("ASTERISK", '*'),
    ("PLUS SIGN", '+'),
    ("COMMA", ','),
    ("HYPHEN-MINUS", '-'),
    ("FULL STOP", '.'),
    ("SOLIDUS", '/'),
    ("COLON", ':'),
    ("SEMICOLON", ';'),
    ("LESS-THAN SIGN", '<'),
    ("EQUALS SIGN", '='),
    ("GREATER-THAN SIGN", '>'),
    ("QUESTION MARK", '?'),
    ("COMMERCIAL AT", '@'),
    ("LEFT SQUARE BRACKET", '['),
    ("REVERSE SOLIDUS", '\\'),
    ("RIGHT SQUARE BRACKET", ']'),
    ("CIRCUMFLEX ACCENT", '^'),
    ("LOW LINE", '_'),
    ("GRAVE ACCENT", '`'),
    ("LEFT CURLY BRACKET", '{'),
    ("VERTICAL LINE", '|'),
    ("RIGHT CURLY BRACKET", '}'),
    ("TILDE", '~'),
];

/// ASCII's digits in their order.
const DIGITS: &[&str] =
    &["ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE"];

/// The property `name` (what stands in `\p{…}`).
pub(super) fn find(name: &str, flags: Flags) -> Option<String> {
    if let Some((kind, value)) = name.split_once('=') {
        return match kind.to_ascii_lowercase().as_str() {
            "sc" | "script" => script(value),
            "blk" | "block" => block(value),
            "gc" | "general_category" => category(value),
            _ => None,
        };
    }
    if let Some((_, ascii, unicode)) = POSIX.iter().find(|(posix, _, _)| *posix == name) {
        return Some(match name {
            // Where case does not count, neither does it for these two.
            "Lower" | "Upper" if flags.caseless && !flags.unicode_classes => "a-zA-Z".to_owned(),
            "Lower" | "Upper" if flags.caseless => r"\p{Lowercase}\p{Uppercase}".to_owned(),
            _ if flags.unicode_classes => (*unicode).to_owned(),
            _ => (*ascii).to_owned(),
        });
    }
    if let Some((_, text)) = JAVA.iter().find(|(java, _)| *java == name) {
        return Some((*text).to_owned());
    }
    match name {
        "L1" => return Some(r"\x{0}-\x{FF}".to_owned()),
        "all" => return Some(r"\x{0}-\x{10FFFF}".to_owned()),
        _ => {}
    }
    if let Some(value) = name.strip_prefix("In") {
        return block(value);
    }
    if let Some(value) = name.strip_prefix("Is") {
        let lower = value.to_ascii_lowercase();
        let binary = BINARY.iter().find(|(binary, _)| *binary == lower);
        return binary
            .map(|(_, text)| (*text).to_owned())
            .or_else(|| category(value))
            .or_else(|| script(value));
    }
    category(name)
}

fn category(name: &str) -> Option<String> {
    match name {
        "LC" => Some(r"\p{Lu}\p{Ll}\p{Lt}".to_owned()),
        name if CATEGORIES.contains(&name) => Some(format!(r"\p{{gc={name}}}")),
        _ => None,
    }
}

/// Whether the script exists is the engine's to say.
fn script(name: &str) -> Option<String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
    };
    is_name(name).then(|| format!(r"\p{{sc={name}}}"))
}

fn block(name: &str) -> Option<String> {
    let name: String = name
        .chars()
        .filter(|c| !matches!(c, ' ' | '-' | '_'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    BLOCKS.iter().find(|(block, _)| *block == name).map(|(_, text)| (*text).to_owned())
}

/// The ASCII character that Unicode calls `name` (`\N{…}`).
pub(super) fn named_character(name: &str) -> Option<char> {
    let name = name.trim().to_ascii_uppercase();
    if let Some(digit) = name.strip_prefix("DIGIT ") {
        let value = DIGITS.iter().position(|word| *word == digit)?;
        return char::from_digit(value as u32, 10);
    }
    let letter = |prefix: &str| {
        let mut letters = name.strip_prefix(prefix)?.chars();
        letters.next().filter(|c| c.is_ascii_uppercase() && letters.next().is_none())
    };
    letter("LATIN CAPITAL LETTER ")
        .or_else(|| letter("LATIN SMALL LETTER ").map(|c| c.to_ascii_lowercase()))
        .or_else(|| NAMES.iter().find(|(known, _)| *known == name).map(|(_, c)| *c))
}
