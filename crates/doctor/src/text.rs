//! A finding as people read it, and what its words have in common with those of a chain.
//!
//! Does not: print, or know how wide a terminal is.

use std::fmt::Write;

use twinlog_types::{Code, is_obeyed};

use crate::chain::{Evidence, Fix};
use crate::findings::{Counts, GroupedFinding};

/// Fixes of one finding, unless all are asked for.
const FIXES_MAX: usize = 3;
/// Where the words of a finding begin.
const INDENT: usize = 9;
/// A summary is an example, and no list.
const SUMMARY_CHARS_MAX: usize = 400;
/// The widest columns of evidence; longer cells push the next ones.
const COLUMNS_MAX: (usize, usize) = (44, 28);

/// Where to read more about a code.
pub fn more(code: Code) -> String {
    format!("docs/findings.md#{}", code.word())
}

/// `1 group`, `2 groups`.
pub fn many(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A finding in full: what, where, what it means, and what to do, with the evidence where `verbose`.
/// Lines of text are broken at `width`; what is there to be pasted is not.
pub fn told(finding: &GroupedFinding, width: usize, verbose: bool) -> String {
    let mut text = String::new();
    let severity = finding.severity.word();
    let _ = writeln!(text, "  {severity:<7}  {}  {}", finding.code.word(), holds_for(finding));
    let many_places = finding.places.len() > 1 && !finding.of_flow;
    let example = if many_places { "such as: " } else { "" };
    let summary: String = finding.summary.chars().take(SUMMARY_CHARS_MAX).collect();
    let _ = writeln!(text, "    {}", wrapped(&format!("{example}{summary}"), 4, width));
    if let Some(cause) = finding.follows_from {
        let _ = writeln!(text, "    it follows from {cause}");
    }
    if verbose {
        text.push_str(&seen(&finding.evidence, 6, width));
    }
    if let Some(consequence) = finding.consequence() {
        let _ = writeln!(text, "  means  {}", wrapped(&consequence, INDENT, width));
    }
    // Only all rights together let one look at all.
    let all = verbose || !finding.found_out;
    let fixes = if all { finding.fix.len() } else { FIXES_MAX };
    for fix in finding.fix.iter().take(fixes) {
        // One line each, however long: they are there to be pasted.
        let _ = writeln!(text, "  {}", remedy(fix));
    }
    let _ = writeln!(text, "  more   {}", more(finding.code));
    text
}

/// `run    twinlog ...`: one line, whatever names are in it.
pub fn remedy(fix: &Fix) -> String {
    match fix {
        Fix::Property(line) => format!("say    {}", one_line(line)),
        Fix::Command(line) => format!("run    {}", one_line(line)),
    }
}

/// Names may contain anything: what a terminal would obey, or what would begin another line, is
/// replaced.
pub fn one_line(text: &str) -> String {
    text.replace(is_obeyed, "\u{fffd}")
}

/// Evidence in three columns, a line each; where that is too long, the place has a line of its own.
pub fn seen(evidence: &[Evidence], indent: usize, width: usize) -> String {
    let chars = |text: &str| text.chars().count();
    let widest = |cells: &mut dyn Iterator<Item = usize>, max: usize| {
        cells.filter(|cell| *cell <= max).max().unwrap_or_default()
    };
    let what = widest(&mut evidence.iter().map(|one| chars(&one.what)), COLUMNS_MAX.0);
    let value = widest(&mut evidence.iter().map(|one| chars(&one.value)), COLUMNS_MAX.1);
    let mut text = String::new();
    for one in evidence {
        let place = one_line(&one.place);
        let told = one_line(&format!("{:<what$}  {:<value$}", one.what, one.value));
        if indent + chars(&told) + 2 + chars(&place) <= width {
            let line = format!("{told}  {place}");
            let _ = writeln!(text, "{:indent$}{}", "", line.trim_end());
            continue;
        }
        for (line, by) in [(told.trim_end(), indent), (place.as_str(), indent + 4)] {
            let _ = writeln!(text, "{:by$}{}", "", wrapped(line, indent + 2, width));
        }
    }
    text
}

/// `group orders-app, 3 partitions of orders`
pub fn holds_for(finding: &GroupedFinding) -> String {
    if finding.of_flow {
        return "the whole flow".to_owned();
    }
    let Counts { groups, topics, partitions } = finding.counts();
    let mut parts = Vec::new();
    match finding.group() {
        Some(group) => parts.push(format!("group {group}")),
        None if groups > 0 => parts.push(many(groups, "group")),
        None => {}
    }
    match (finding.topic(), finding.partition()) {
        (Some(topic), Some(partition)) => parts.push(format!("{topic}-{partition}")),
        (Some(topic), None) if partitions > 0 => {
            parts.push(format!("{} of {topic}", many(partitions, "partition")));
        }
        (Some(topic), None) => parts.push(format!("topic {topic}")),
        (None, _) if topics == 0 => {}
        (None, _) if partitions > 0 => {
            parts.push(format!("{} of {}", many(partitions, "partition"), many(topics, "topic")));
        }
        (None, _) => parts.push(many(topics, "topic")),
    }
    one_line(&parts.join(", "))
}

/// Breaks a text between words; all lines but the first are indented. Blanks before the first word
/// stay. No other line begins in it, whatever it contains.
pub fn wrapped(text: &str, indent: usize, width: usize) -> String {
    let text = one_line(text);
    let room = width.saturating_sub(indent);
    let mut out = String::new();
    let (mut used, mut begun) = (0, false);
    for (at, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if begun && length > 0 && used + 1 + length > room {
            out.truncate(out.trim_end_matches(' ').len());
            let _ = write!(out, "\n{:indent$}", "");
            used = 0;
        } else if at > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
        begun |= length > 0;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_where_the_terminal_ends() {
        assert_eq!(wrapped("one two three", 2, usize::MAX), "one two three");
        assert_eq!(wrapped("one two three", 2, 9), "one two\n  three");
        assert_eq!(wrapped("a-word-that-is-longer x", 2, 9), "a-word-that-is-longer\n  x");
        assert_eq!(wrapped("  one two three", 4, 14), "  one two\n    three");
        assert_eq!(wrapped("  a-word-that-is-longer", 4, 14), "  a-word-that-is-longer");
    }

    #[test]
    fn a_name_begins_no_line_and_turns_none() {
        let name = "a\n  error    forged\u{202e}";
        for text in [
            wrapped(name, 2, usize::MAX),
            remedy(&Fix::Property(format!("topics = {name}"))),
            seen(&[Evidence { what: name.into(), value: name.into(), place: name.into() }], 2, 300),
        ] {
            assert!(!text.trim_end_matches('\n').contains(is_obeyed), "{text:?}");
        }
    }

    #[test]
    fn evidence_stands_in_columns_and_a_long_cell_does_not_push_the_others() {
        let one = |what: &str, value: &str| Evidence {
            what: what.into(),
            value: value.into(),
            place: "world".into(),
        };
        let long = "a ".repeat(40);
        let all = [one("orders-0 copied to", "100"), one("lag", "7"), one(long.trim_end(), "1")];
        let text = seen(&all, 2, 60);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  orders-0 copied to  100  world");
        assert_eq!(lines[1], "  lag                 7    world");
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{text}");
    }
}
