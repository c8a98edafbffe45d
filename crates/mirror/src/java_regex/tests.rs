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
    assert!(!matches("a{1,2}+a", "aa") && matches("(?:ab)?+", "ab"));
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
        assert!(matches(pattern, ":"), "{pattern}");
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
