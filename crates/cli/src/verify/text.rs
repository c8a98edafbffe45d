//! `verify` for people: the verdict first, then groups, then partitions, then what differs.

use std::fmt::Write as _;

use twinlog_doctor::wrapped;
use twinlog_verify::compare::{Finding, Kind};
use twinlog_verify::{FlowReport, GroupReport, GroupResult, How, PartitionReport, Verdict};

use super::Effort;
use crate::format::duration;
use crate::output::{table, table_text, text_width};

/// How many rows of each table that are as they should be; others are all shown.
const EQUAL_ROWS_MAX: usize = 20;
/// How many findings of one partition.
const FINDINGS_SHOWN: usize = 10;
/// How wide text is where there is no terminal.
const WIDTH: usize = 100;

pub(super) fn text(reports: &[FlowReport], effort: &Effort) -> String {
    let mut text = String::new();
    for report in reports {
        flow(report, &mut text);
    }
    let bytes = |of: fn(&FlowReport) -> u64| reports.iter().map(of).sum::<u64>();
    let (source, target) = (bytes(|one| one.bytes.0), bytes(|one| one.bytes.1));
    let _ = write!(text, "{}", effort_line(effort, source, target));
    text
}

/// What it took.
fn effort_line(effort: &Effort, source: u64, target: u64) -> String {
    let rate = |bytes: u64| bytes as f64 / 1e6 / effort.seconds.max(0.001);
    let mut line = format!("took {:.1} s", effort.seconds);
    if source + target > 0 {
        let _ = write!(
            line,
            ", read {} of the source ({:.0} MB/s) and {} of the target ({:.0} MB/s)",
            size(source),
            rate(source),
            size(target),
            rate(target)
        );
    }
    if let Some(peak) = effort.peak_memory_bytes {
        let _ = write!(line, ", {} of memory at most", size(peak));
    }
    line + "\n"
}

/// Bytes in a unit that fits.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// The verdict in a few words.
pub(super) fn verdict(report: &FlowReport) -> &'static str {
    match report.verdict() {
        Verdict::Equal => "ready",
        Verdict::Mismatch => "not ready",
        Verdict::NotFoundOut => "could not be found out",
    }
}

/// How much was compared.
pub(super) fn how(report: &FlowReport) -> String {
    match report.how {
        How::Full => "every record".to_owned(),
        How::Sample(records) => format!("a sample of up to {records} records a partition"),
    }
}

/// What a failover now would lose.
pub(super) fn rpo(report: &FlowReport) -> String {
    let rpo = report.rpo();
    if rpo.records == 0 {
        return "nothing waits to be copied".to_owned();
    }
    let most = if rpo.exact { "" } else { "at most " };
    format!(
        "{most}{} records ({}) wait to be copied, the oldest for {}",
        rpo.records,
        size(rpo.bytes),
        duration(rpo.ms)
    )
}

fn flow(report: &FlowReport, text: &mut String) {
    let width = text_width(WIDTH);
    let _ = writeln!(text, "{}  {}: {}", report.flow, verdict(report), how(report));
    for against in report.against() {
        let _ = writeln!(text, "  ! {}", wrapped(&against, 4, width));
    }
    for command in &report.grants {
        // One line each, however long: they are there to be pasted.
        let _ = writeln!(text, "  run  {command}");
    }
    let _ = writeln!(
        text,
        "  {}",
        wrapped(&format!("if {} were lost now: {}", report.source.alias, rpo(report)), 2, width)
    );
    for note in &report.notes {
        let _ = writeln!(text, "  {}", wrapped(note, 2, width));
    }
    groups(&report.groups, text);
    partitions(&report.partitions, text);
    for partition in &report.partitions {
        details(partition, width, text);
    }
    text.push('\n');
}

fn groups(groups: &[GroupReport], text: &mut String) {
    if groups.is_empty() {
        return;
    }
    let mut rows =
        table(&["GROUP", "TOPIC", "P", "SOURCE", "TARGET", "RESULT", "REREAD", "SKIPPED"]);
    let mut left_out = 0;
    let mut equal = 0;
    for one in groups {
        if one.result == GroupResult::Equal {
            equal += 1;
            if equal > EQUAL_ROWS_MAX {
                left_out += 1;
                continue;
            }
        }
        let offset = |offset: Option<i64>| offset.map_or("-".to_owned(), |at| at.to_string());
        let result = match (&one.reason, one.proven) {
            (_, Some(proven)) if one.result.is_mismatch() => {
                format!("{}: belongs on {proven}", one.result.word())
            }
            (Some(reason), _) => format!("{}: {reason}", one.result.word()),
            _ => one.result.word().to_owned(),
        };
        rows.add_row([
            one.group.to_string(),
            one.topic.to_string(),
            one.partition.to_string(),
            one.source_offset.to_string(),
            offset(one.target_offset),
            result,
            one.reread.to_string(),
            one.skipped.to_string(),
        ]);
    }
    let _ = write!(text, "\n{}", table_text(&rows));
    more(left_out, text);
}

fn partitions(partitions: &[PartitionReport], text: &mut String) {
    if partitions.is_empty() {
        return;
    }
    let mut rows = table(&[
        "TOPIC",
        "P",
        "COMPARED",
        "EQUAL",
        "MISSING",
        "EXTRA",
        "DIFFERENT",
        "MOVED",
        "COMPACTED",
        "WAITING",
    ]);
    let (mut equal, mut left_out) = (0, 0);
    for one in partitions {
        if one.is_faithful() && one.trouble.is_none() {
            equal += 1;
            if equal > EQUAL_ROWS_MAX {
                left_out += 1;
                continue;
            }
        }
        let tally = &one.tally;
        let extra = match tally.doubled {
            0 => tally.extra.to_string(),
            doubled => format!("{} ({doubled} doubled)", tally.extra),
        };
        rows.add_row([
            one.topic.to_string(),
            one.partition.to_string(),
            tally.compared().to_string(),
            tally.equal.to_string(),
            tally.missing.to_string(),
            extra,
            tally.different.to_string(),
            tally.out_of_order.to_string(),
            tally.compacted.to_string(),
            one.waiting.map_or("-".to_owned(), |waiting| waiting.records.to_string()),
        ]);
    }
    let _ = write!(text, "\n{}", table_text(&rows));
    more(left_out, text);
}

fn more(left_out: usize, text: &mut String) {
    if left_out > 0 {
        let _ = writeln!(text, " and {left_out} more that are equal (--json has all)");
    }
}

/// What there is to say of a partition beside its row.
fn details(one: &PartitionReport, width: usize, text: &mut String) {
    let mut lines = Vec::new();
    if one.absent {
        lines.push(format!("{} does not have it", one.target_topic));
    }
    lines.extend(one.trouble.clone());
    lines.extend(one.notes.iter().cloned());
    if one.tally.displaced > 0 {
        lines.push(format!(
            "{} equal records stand elsewhere than the offset map says: translations are wrong there",
            one.tally.displaced
        ));
    }
    if one.tally.aborted_on_target > 0 {
        lines.push(format!(
            "{} records of aborted transactions became ordinary records on the target",
            one.tally.aborted_on_target
        ));
    }
    lines.extend(one.findings.iter().take(FINDINGS_SHOWN).map(finding));
    let rest = one.findings.len().saturating_sub(FINDINGS_SHOWN);
    if rest > 0 {
        lines.push(format!("and {rest} more (--json has the first hundred)"));
    }
    if !lines.is_empty() {
        let _ = writeln!(text, "\n  {}-{}", one.topic, one.partition);
    }
    for line in lines {
        let _ = writeln!(text, "    {}", wrapped(&line, 4, width));
    }
}

/// A finding in one line; contents are never shown.
pub(crate) fn finding(finding: &Finding) -> String {
    let place = |offset: Option<i64>| offset.map_or("-".to_owned(), |at| at.to_string());
    let what = match finding.kind {
        Kind::Different(parts) => format!("different {}", parts.words().join(", ")),
        kind => kind.word().to_owned(),
    };
    format!(
        "{what}: source offset {}, target offset {}, {} bytes, hash {:032x}",
        place(finding.source.map(|at| at.0)),
        place(finding.target.map(|at| at.0)),
        finding.bytes,
        finding.hash
    )
}
