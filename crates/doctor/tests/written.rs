//! docs/findings.md and docs/symptom-to-cause.md are the prose of `findings/*.md` with the examples
//! that the other tests keep.
//!
//! `TWINLOG_WRITE_DOCS=1 cargo test -p twinlog-doctor` writes the examples, and then the documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use twinlog_types::Code;
use twinlog_worlds::kept;

/// Where examples come from: the folder, who says so, and how it is introduced.
const KINDS: [(&str, &str, &str); 3] = [
    ("doctor", "status, explain, doctor", "`twinlog doctor -v`, for example:"),
    (
        "mm2",
        "explain, doctor, of mirrors that MM2 makes",
        "`twinlog doctor -v`, for example, of a mirror that MM2 makes:",
    ),
    ("log", "log", "The log of `twinlog run`, for example:"),
];

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("findings")
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The examples of a code, by kind.
fn examples(code: Code) -> BTreeMap<usize, String> {
    let kinds = KINDS.iter().enumerate();
    let read = kinds.filter_map(|(at, (folder, ..))| {
        let file = here().join("examples").join(folder).join(format!("{code}.txt"));
        Some((at, fs::read_to_string(file).ok()?))
    });
    read.collect()
}

/// A finding without its indentation and the line that leads to this document.
fn shown(example: &str) -> String {
    let lines = example.lines().filter(|line| !line.starts_with("  more   docs/"));
    let ends = |line| [str::trim_end(line), "\n"];
    lines.map(|line| line.strip_prefix("  ").unwrap_or(line)).flat_map(ends).collect()
}

/// The severity that an example is told with.
fn severity(example: &str) -> &str {
    let word = example.split_whitespace().next().unwrap_or_default();
    if word == "WARN" || word == "INFO" { "–" } else { word }
}

/// The sections of the prose: a heading, its level, and what stands below it.
fn sections(prose: &str) -> Vec<(&str, &str)> {
    let mut sections = Vec::new();
    for part in prose.split("\n#").skip(1) {
        let (heading, body) = part.split_once('\n').unwrap_or((part, ""));
        sections.push((heading, body));
    }
    sections
}

/// The code whose section this is.
fn code_of(heading: &str) -> Option<Code> {
    let word = heading.strip_prefix("## ")?;
    Some(Code::from_word(word).unwrap_or_else(|| panic!("{word} is no code")))
}

fn index(prose: &str) -> String {
    let mut text = String::from("| code | severity of the example | shown in |\n|---|---|---|\n");
    for code in sections(prose).iter().filter_map(|(heading, _)| code_of(heading)) {
        let examples = examples(code);
        let severity = examples.values().next().map_or("", |example| severity(example));
        let shown: Vec<&str> = examples.keys().map(|at| KINDS[*at].1).collect();
        let _ = writeln!(text, "| [`{code}`](#{code}) | {severity} | {} |", shown.join("; "));
    }
    text
}

fn generated(prose: &str) -> String {
    let mut text = String::new();
    for (heading, body) in sections(prose) {
        let _ = write!(text, "\n#{heading}\n");
        let Some(code) = code_of(heading) else {
            text.push_str(body);
            continue;
        };
        let body = body.trim_start_matches('\n');
        let (first, rest) = body.split_once("\n\n").unwrap_or((body, ""));
        let _ = write!(text, "\n{}\n", first.trim_end());
        for (at, example) in examples(code) {
            let _ = write!(text, "\n{}\n\n```text\n{}```\n", KINDS[at].2, shown(&example));
        }
        if !rest.trim().is_empty() {
            let _ = write!(text, "\n{}\n", rest.trim_end());
        }
    }
    text.trim_start().replace("<!-- index -->\n", &index(prose))
}

/// The prose of symptoms, with an example in the place of each `<!-- example KIND/CODE -->`.
fn symptoms() -> String {
    let prose = fs::read_to_string(here().join("symptoms.md")).expect("the prose");
    let mut parts = prose.split("<!-- example ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" -->").expect("a marker ends");
        let file = here().join("examples").join(format!("{name}.txt"));
        let example = fs::read_to_string(&file);
        let example = example.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let _ = write!(text, "```text\n{}```{rest}", shown(&example));
    }
    text
}

fn prose() -> String {
    let prose = fs::read_to_string(here().join("prose.md")).expect("the prose");
    format!("\n{prose}")
}

#[test]
fn every_code_has_a_section_with_an_example_and_the_document_is_what_is_generated() {
    let prose = prose();
    let explained: BTreeSet<Code> =
        sections(&prose).iter().filter_map(|(heading, _)| code_of(heading)).collect();
    for code in Code::ALL {
        assert!(explained.contains(code), "a section of {code}");
        assert!(!examples(*code).is_empty(), "an example of {code}");
    }
    kept::keep(&docs().join("findings.md"), &generated(&prose));
}

#[test]
fn the_symptoms_lead_to_codes_that_there_are() {
    let text = symptoms();
    let mut named = BTreeSet::new();
    for link in text.split("](findings.md#").skip(1) {
        let word = link.split(')').next().unwrap_or_default();
        let code = Code::from_word(word).unwrap_or_else(|| panic!("{word} is no code"));
        named.insert(code);
    }
    assert!(named.len() > 20, "{named:?}");
    kept::keep(&docs().join("symptom-to-cause.md"), &text);
}
