//! `doctor` for people: what fits one screen, the worst first.

use std::fmt::Write;

use twinlog_doctor::{
    Counts, Diagnosis, GroupedFinding, MirroredBy, Outcome, holds_for, many, told, wrapped,
};
use twinlog_types::Severity;

use crate::output::{table, table_text, text_width};

/// How wide text is where there is no terminal.
const WIDTH: usize = 100;
/// Findings that are told in full, of all flows together.
const FULL_MAX: usize = 3;
/// Findings that have a line of their own after them.
const LINES_MAX: usize = 12;
/// Where the words of a finding begin.
const INDENT: usize = 9;

/// `verbose`: every finding in full, with its evidence.
pub(crate) fn text(
    diagnoses: &[Diagnosis],
    assumed: &[String],
    file: &str,
    verbose: bool,
) -> String {
    let mut text = String::new();
    for one in assumed {
        let _ = writeln!(text, "assumed: {}", wrapped(one, INDENT, text_width(WIDTH)));
    }
    let full_each = (FULL_MAX / diagnoses.len().max(1)).max(1);
    let lines_each = (LINES_MAX / diagnoses.len().max(1)).max(2);
    for (at, diagnosis) in diagnoses.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        let (full, lines) = if verbose { (usize::MAX, 0) } else { (full_each, lines_each) };
        of_flow(diagnosis, (full, lines), file, verbose, &mut text);
    }
    text
}

fn of_flow(
    diagnosis: &Diagnosis,
    (full, lines): (usize, usize),
    file: &str,
    verbose: bool,
    text: &mut String,
) {
    text.push_str(&headline(diagnosis));
    let width = text_width(WIDTH);
    for what in &diagnosis.not_found_out {
        let _ = writeln!(text, "  not found out: {}", wrapped(what, 17, width));
    }
    for finding in diagnosis.findings.iter().take(full) {
        text.push('\n');
        text.push_str(&told(finding, width, verbose));
    }
    let rest = diagnosis.findings.get(full..).unwrap_or_default();
    if !rest.is_empty() {
        text.push('\n');
        let mut rows = table(&["", "", "", ""]);
        for finding in rest.iter().take(lines) {
            rows.add_row([
                finding.severity.word().to_owned(),
                finding.code.word().to_owned(),
                holds_for(finding),
                cost(finding),
            ]);
        }
        for line in table_text(&rows).lines().filter(|line| !line.trim().is_empty()) {
            let _ = writeln!(text, "  {}", line.trim_start());
        }
        let more = rest.len().saturating_sub(lines);
        let more = if more > 0 { format!("and {more} more; ") } else { String::new() };
        let _ = writeln!(text, "\n  {more}all in full: twinlog doctor {file} -v");
    }
}

fn headline(diagnosis: &Diagnosis) -> String {
    let mut text = diagnosis.flow.to_string();
    match (diagnosis.mirrored_by, &diagnosis.version) {
        (Some(MirroredBy::MirrorMaker), Some(version)) => {
            let _ = write!(text, ", mirrored by MirrorMaker 2 {version}");
        }
        (Some(MirroredBy::MirrorMaker), None) => text.push_str(", mirrored by MirrorMaker 2"),
        (Some(MirroredBy::Nobody), _) => text.push_str(", not mirrored by anybody yet"),
        (Some(MirroredBy::Twinlog) | None, _) => {}
    }
    let counted =
        [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Info, "note")]
            .into_iter()
            .map(|(severity, word)| (diagnosis.count(severity), word))
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| many(count, word))
            .collect::<Vec<_>>();
    let found = if counted.is_empty() { "nothing is wrong".to_owned() } else { counted.join(", ") };
    let _ = write!(text, ": {found}");
    if diagnosis.outcome() == Outcome::NotFoundOut {
        text.push_str("; not everything could be looked at");
    }
    let Counts { groups, topics, partitions } = diagnosis.looked_at;
    let counts = [(groups, "group"), (topics, "topic"), (partitions, "partition")];
    let there: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| many(count, what))
        .collect();
    let looked_at =
        if there.is_empty() { "no group and no topic".into() } else { there.join(", ") };
    let _ = writeln!(text, "\n  looked at {looked_at}");
    text
}

/// What a failover now would do, in a few words.
fn cost(finding: &GroupedFinding) -> String {
    let impact = &finding.impact;
    let told =
        [(impact.missing, "missing"), (impact.skipped, "skipped"), (impact.reread, "read again")];
    let mut told: Vec<String> = told
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if impact.unplaced > 0 {
        told.push(format!("{} without position", impact.unplaced));
    }
    told.join(", ")
}

#[cfg(test)]
mod tests {
    use twinlog_doctor::{Finding, Fix, Grouping, Impact, LinkName, Subject};
    use twinlog_types::{Code, TopicPartition};

    use super::super::document::tests::diagnosis;
    use super::*;

    #[test]
    fn a_finding_is_told_with_what_it_means_and_what_to_do() {
        let text = text(&[diagnosis()], &[], "mm2.properties", false);
        let expected = "\
hello->world, mirrored by MirrorMaker 2 4.3.0: 1 error, 1 note
  looked at 1 group, 1 topic, 2 partitions

  error    sync-disabled  group orders-app, 2 partitions of orders
    such as: orders-0: the target group has no commit
  means  it is not committed; a failover now finds no position in 2 partitions, so that
         auto.offset.reset decides: earliest reads 200 records again, latest skips 0 records
  say    hello->world.sync.group.offsets.enabled = true
  more   docs/findings.md#sync-disabled

  info     group-without-commits  group orders-app
    no commit in a-1
  more   docs/findings.md#group-without-commits
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_summary_of_a_thousand_topics_fits_a_screen() {
        let mut grouping = Grouping::new();
        for topic in 0..1_000 {
            let subject = Subject::Topic(format!("topic-{topic}").as_str().into());
            for partition in 0..8 {
                let tp = TopicPartition::new(format!("topic-{topic}"), partition);
                for (at, code) in Code::ALL.iter().enumerate() {
                    if at % 1_000 == topic % 1_000 || topic < 50 {
                        let impact = Impact { missing: 5, ..Impact::default() };
                        let finding = Finding::blocks(*code, "x ".repeat(500)).of(&tp).with(impact);
                        let finding = finding.fix(Fix::Command("run it".into()));
                        grouping.take(Some(&subject), LinkName::Copy, &finding);
                    }
                }
            }
        }
        let many = Diagnosis { findings: grouping.end(), ..diagnosis() };
        let told = text(std::slice::from_ref(&many), &[], "mm2.properties", false);
        assert!(told.lines().count() <= 50, "{told}");
        assert!(told.contains("more; all in full: twinlog doctor mm2.properties -v"), "{told}");
        let several = text(&[many.clone(), many.clone(), many], &[], "f", false);
        assert!(several.lines().count() <= 80, "{several}");
    }
}
