//! `status` for people: counts first, then tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use twinlog_doctor::{one_line, wrapped};

use super::document::{Document, Flow, Stands};
use crate::format::duration;
use crate::output::{table, table_text, text_width};

pub(crate) fn text(document: &Document<'_>) -> String {
    let flows: Vec<String> = document.flows.iter().map(flow).collect();
    if flows.is_empty() {
        return "no flow is enabled\n".to_owned();
    }
    flows.join("\n")
}

fn flow(flow: &Flow<'_>) -> String {
    let mut text = paragraph(&format!("{}  {}", flow.flow, stands(&flow.standing)), 2);
    let counts = &flow.counts;
    for (what, counts) in
        [("topics", &counts.topics), ("partitions", &counts.partitions), ("groups", &counts.groups)]
    {
        if !counts.is_empty() {
            let _ = writeln!(text, "  {what:<11} {}", counted(counts));
        }
    }
    if let (Some(records), Some(ms)) = (counts.lag_records, counts.lag_ms) {
        let _ = writeln!(text, "  {:<11} {records} records, {}", "lag", duration(ms));
    }
    if counts.lost_offsets > 0 {
        let lost = counts.lost_offsets;
        let _ = writeln!(text, "  {:<11} {lost} offsets of the source, see below", "lost");
    }
    if let Some(lease) = &flow.lease {
        let word = if lease.released { "ended" } else { "run by" };
        let _ = writeln!(text, "  {word:<11} {}, {}", lease.instance, lease.renewed);
    }
    if let Some(commits) = &flow.commits {
        let reason = commits.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let line = format!("  {:<11} followed: {}{reason}", "commits", commits.followed);
        text.push_str(&paragraph(&line, 14));
    }
    topics(flow, &mut text);
    losses(flow, &mut text);
    groups(flow, &mut text);
    for missing in &flow.missing {
        text.push('\n');
        text.push_str(&paragraph(&format!("not found out: {}", missing.message), 2));
    }
    text
}

fn topics(flow: &Flow<'_>, text: &mut String) {
    if flow.topics.is_empty() {
        return;
    }
    let mut rows = table(&[
        "TOPIC",
        "TARGET",
        "P",
        "SOURCE",
        "COPIED TO",
        "TARGET END",
        "LAG",
        "AGE",
        "STATE",
        "CODE",
    ]);
    let mut reasons = Vec::new();
    for topic in &flow.topics {
        if topic.partitions.is_empty() {
            let (name, target) = (topic.topic, topic.target_topic);
            let (dash, standing) = ("-", &topic.standing);
            let code = standing.code.unwrap_or(dash);
            rows.add_row([name, target, dash, dash, dash, dash, dash, dash, standing.state, code]);
            reasons.push((one_line(name), standing));
        }
        for partition in &topic.partitions {
            let range = match (partition.source_start, partition.source_end) {
                (Some(start), Some(end)) => format!("{start}..{end}"),
                _ => "?".to_owned(),
            };
            rows.add_row([
                topic.topic.to_owned(),
                topic.target_topic.to_owned(),
                partition.partition.to_string(),
                range,
                number(partition.copied_to),
                number(partition.target_end),
                number(partition.lag_records),
                partition.lag_ms.map_or_else(|| "?".to_owned(), duration),
                partition.standing.state.to_owned(),
                partition.standing.code.unwrap_or("-").to_owned(),
            ]);
            let name = format!("{}-{}", topic.topic, partition.partition);
            reasons.push((name, &partition.standing));
        }
    }
    text.push('\n');
    text.push_str(&table_text(&rows));
    explain(&reasons, text);
}

/// The gap ledger: what was deleted on the source before it was copied.
fn losses(flow: &Flow<'_>, text: &mut String) {
    let mut rows = table(&["LOST", "P", "FROM", "TO", "OFFSETS", "CODE", "FOUND"]);
    let mut any = false;
    for topic in &flow.topics {
        for partition in &topic.partitions {
            for gap in &partition.gaps {
                any = true;
                rows.add_row([
                    topic.topic.to_owned(),
                    partition.partition.to_string(),
                    gap.from.to_string(),
                    (gap.to - 1).to_string(),
                    (gap.to - gap.from).to_string(),
                    gap.code.to_owned(),
                    gap.found.clone(),
                ]);
            }
        }
    }
    if any {
        text.push('\n');
        text.push_str(&table_text(&rows));
    }
}

fn groups(flow: &Flow<'_>, text: &mut String) {
    if flow.groups.is_empty() {
        return;
    }
    let mut rows = table(&[
        "GROUP",
        "KIND",
        "TOPIC",
        "P",
        "SOURCE",
        "TARGET",
        "COMMITTED",
        "TRANSLATION",
        "STATE",
        "CODE",
    ]);
    let mut reasons = Vec::new();
    for group in &flow.groups {
        if group.partitions.is_empty() {
            let (name, dash, standing) = (group.group, "-", &group.standing);
            let (kind, code) = (group.kind, standing.code.unwrap_or(dash));
            rows.add_row([name, kind, dash, dash, dash, dash, dash, dash, standing.state, code]);
            reasons.push((name.to_owned(), standing));
        }
        for position in &group.partitions {
            rows.add_row([
                group.group.to_owned(),
                group.kind.to_owned(),
                position.topic.to_owned(),
                position.partition.to_string(),
                number(position.source_offset),
                number(position.target_offset),
                number(position.committed_target),
                position.translation.to_owned(),
                position.standing.state.to_owned(),
                position.standing.code.unwrap_or("-").to_owned(),
            ]);
            let name =
                format!("{} on {}-{}", one_line(group.group), position.topic, position.partition);
            reasons.push((name, &position.standing));
        }
    }
    text.push('\n');
    text.push_str(&table_text(&rows));
    explain(&reasons, text);
}

/// The reasons, which are too long for a column.
fn explain(reasons: &[(String, &Stands)], text: &mut String) {
    for (name, standing) in reasons {
        if let Some(reason) = &standing.reason {
            text.push_str(&paragraph(&format!("  {name}: {reason}"), 4));
        }
    }
}

/// Broken where the terminal ends; one line elsewhere, as the rows of the tables are.
fn paragraph(text: &str, indent: usize) -> String {
    let mut text = wrapped(text, indent, text_width(usize::MAX));
    text.push('\n');
    text
}

fn number(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// State, code and reason in one.
fn stands(standing: &Stands) -> String {
    let mut text = standing.state.to_owned();
    if let Some(code) = standing.code {
        let _ = write!(text, " ({code})");
    }
    if let Some(reason) = &standing.reason {
        let _ = write!(text, ": {reason}");
    }
    text
}

fn counted(counts: &BTreeMap<&'static str, usize>) -> String {
    let parts: Vec<String> = counts.iter().map(|(state, n)| format!("{n} {state}")).collect();
    parts.join(", ")
}
