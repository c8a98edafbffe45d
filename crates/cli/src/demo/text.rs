//! The screen of `twinlog demo`: it fits 100 columns and a terminal's height.

use std::fmt::Write;

use super::document::{Document, GroupLine};
use crate::output::{table, table_text};

const WIDTH: usize = 100;

pub(super) fn text(document: &Document) -> String {
    let mut text = String::new();
    let at: Vec<String> = document
        .clusters
        .iter()
        .map(|cluster| format!("{} ({})", cluster.alias, cluster.bootstrap))
        .collect();
    let _ = writeln!(text, "{}, mirrored in both directions: {}", at.join(" and "), document.file);
    topics(document, &mut text);
    groups(document, &mut text);
    reasons(document, &mut text);
    drill(document, &mut text);
    ending(document, &mut text);
    text
}

fn topics(document: &Document, text: &mut String) {
    let mut rows =
        table(&["FLOW", "TOPIC", "ON THE TARGET", "RECORDS", "COPIED", "FROM", "WHAT IS SPECIAL"]);
    for topic in &document.topics {
        rows.add_row([
            topic.flow.clone(),
            topic.topic.to_owned(),
            topic.target_topic.clone(),
            topic.records.to_string(),
            topic.copied.to_string(),
            topic.source_start.to_string(),
            topic.what.to_owned(),
        ]);
    }
    text.push('\n');
    text.push_str(&table_text(&rows));
    let copied = &document.copied;
    let _ = writeln!(
        text,
        "  {} records were there before and were copied in {}, {} a second; {} come each second.",
        grouped(copied.records),
        seconds(copied.ms),
        grouped(copied.records_per_second),
        grouped(super::traffic::BUSY_PER_SECOND),
    );
}

fn groups(document: &Document, text: &mut String) {
    text.push_str("\nWhere each group stands: other offsets, the same record\n");
    let mut rows =
        table(&["GROUP", "STANDS", "COMMITTED ON SOURCE", "ON TARGET", "READS NEXT ON BOTH"]);
    for group in &document.groups {
        rows.add_row([
            group.group.to_owned(),
            group.stands.to_owned(),
            place(group.topic, group.partition, group.source_offset),
            place(&group.target_topic, group.partition, group.target_offset),
            next_on_both(group),
        ]);
    }
    text.push_str(&table_text(&rows));
}

fn place(topic: &str, partition: i32, offset: Option<i64>) -> String {
    offset.map_or_else(|| "-".to_owned(), |offset| format!("{topic}-{partition} {offset}"))
}

fn next_on_both(group: &GroupLine) -> String {
    let record = |record: &Option<String>| record.clone().unwrap_or_else(|| "nothing".to_owned());
    if !group.synced || group.code.is_some() {
        return format!("{}: {}", group.state, group.code.unwrap_or("-"));
    }
    if group.source_record == group.target_record {
        return record(&group.source_record);
    }
    format!("{} / {}", record(&group.source_record), record(&group.target_record))
}

fn reasons(document: &Document, text: &mut String) {
    let told = document.groups.iter().filter(|group| group.next.is_some());
    for (at, group) in told.enumerate() {
        if at == 0 {
            text.push_str("\nNot synced, and why\n");
        }
        let reason = group.reason.as_deref().unwrap_or("no reason is known");
        wrapped(&format!("{}: {reason}", group.group), text);
        let _ = writeln!(text, "     next: {}", group.next.as_deref().unwrap_or_default());
    }
}

fn drill(document: &Document, text: &mut String) {
    let _ = writeln!(
        text,
        "\nThe drill: hello was killed in the middle of its traffic; groups resume on world (read_committed)"
    );
    let mut rows = table(&[
        "GROUP",
        "FROM OFFSET",
        "DUE BY WHAT WAS WRITTEN",
        "READ FIRST",
        "THEN",
        "VERDICT",
    ]);
    for group in document.groups.iter().filter(|group| group.synced) {
        let dash = || "-".to_owned();
        let offset = group.target_offset.map_or_else(dash, |offset| offset.to_string());
        let Some(outcome) = &group.drill.outcome else {
            rows.add_row([group.group, &offset, "-", "-", "-", group.drill.result]);
            continue;
        };
        let end = || "the end".to_owned();
        rows.add_row([
            group.group.to_owned(),
            offset,
            outcome.due_record.clone().unwrap_or_else(end),
            outcome.resumed_record.clone().unwrap_or_else(end),
            format!("{} of {}", outcome.read, outcome.due),
            group.drill.result.to_owned(),
        ]);
    }
    text.push_str(&table_text(&rows));
    for group in document.groups.iter().filter(|group| !group.synced) {
        let consequence = group.drill.consequence.as_deref().unwrap_or_default();
        wrapped(&format!("{} ({}): {consequence}", group.group, group.drill.result), text);
    }
    let drill = &document.drill;
    let _ = writeln!(
        text,
        "  All {} copied records compared with what was written: {} partitions differ. {} records\n  \
         that hello had acknowledged were not copied yet; they are lost as long as it is down.",
        grouped(drill.compared_records),
        if drill.different_partitions == 0 {
            "no".to_owned()
        } else {
            drill.different_partitions.to_string()
        },
        grouped(drill.lost_records),
    );
}

fn ending(document: &Document, text: &mut String) {
    let verdict = &document.verdict;
    let memory = document
        .peak_memory_bytes
        .map(|bytes| format!(", {} MiB at most", bytes.div_ceil(1 << 20)))
        .unwrap_or_default();
    let _ = writeln!(
        text,
        "\n{}: {} of {} synced groups resumed at the exact record. {}{memory}.",
        if verdict.is_well() { "PASSED" } else { "FAILED" },
        verdict.exact,
        verdict.synced,
        seconds(document.ms),
    );
    if !document.stays {
        text.push_str("Both clusters are gone now; without --once they stay, and any Kafka client can connect.\n");
        return;
    }
    let bootstrap = |alias: &str| {
        let found = document.clusters.iter().find(|cluster| cluster.alias == alias);
        found.map_or("", |cluster| cluster.bootstrap.as_str())
    };
    let file = &document.file;
    let _ = write!(
        text,
        "
hello is back and mirrored again, until Ctrl-C. Try in another terminal:
  twinlog status {file}
  twinlog translate {file} --group reports
  kafka-console-consumer.sh --bootstrap-server {} --topic hello.orders --group reports \\
    --max-messages 1
  kafka-consumer-groups.sh --bootstrap-server {} --describe --all-groups
",
        bootstrap("world"),
        bootstrap("hello"),
    );
}

/// A paragraph behind two blanks, its further lines behind five.
fn wrapped(paragraph: &str, text: &mut String) {
    let mut line = String::from(" ");
    for word in paragraph.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            "    ".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

/// `12,345`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}
