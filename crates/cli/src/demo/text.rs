//! The screen of `twinlog demo`: it fits 100 columns and a terminal's height.

use std::fmt::Write;

use super::document::{Document, GroupLine};
use crate::output::{table, table_text};

const WIDTH: usize = 100;

pub(super) fn text(document: &Document) -> String {
    let mut text = String::new();
    let (hello, world) = (bootstrap(document, "hello"), bootstrap(document, "world"));
    let _ = writeln!(text, "hello ({hello}) is mirrored to world ({world}), and world to hello,");
    let _ = writeln!(text, "as {} says, an ordinary MirrorMaker 2 file.", document.file);
    topics(document, &mut text);
    groups(document, &mut text);
    reasons(document, &mut text);
    drill(document, &mut text);
    ending(document, &mut text);
    text
}

fn bootstrap<'a>(document: &'a Document, alias: &str) -> &'a str {
    let found = document.clusters.iter().find(|cluster| cluster.alias == alias);
    found.map_or("", |cluster| cluster.bootstrap.as_str())
}

fn topics(document: &Document, text: &mut String) {
    let mut rows =
        table(&["FLOW", "TOPIC", "ON THE TARGET", "RECORDS", "COPIED", "BEGINS AT", "SPECIAL"]);
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
    let told = format!(
        "{} records were there before: copied in {}, {} a second. Then {} a second.",
        grouped(copied.records),
        duration(copied.ms),
        grouped(copied.records_per_second),
        grouped(super::traffic::BUSY_PER_SECOND),
    );
    wrapped(&told, text);
}

fn groups(document: &Document, text: &mut String) {
    text.push_str("\nWhere each group stands: other offsets, the same record\n");
    let mut rows =
        table(&["GROUP", "STANDS", "COMMITTED ON SOURCE", "ON TARGET", "NEXT ON BOTH, OR WHY NOT"]);
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
        return group.code.unwrap_or(group.state).to_owned();
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
            text.push_str("\nNot synced: why, and what a failover would mean\n");
        }
        let reason = group.reason.as_deref().unwrap_or("no reason is known");
        let consequence = group.drill.consequence.as_deref().unwrap_or_default();
        wrapped(&format!("{}: {reason}. {consequence}", group.group), text);
        let _ = writeln!(text, "     next: {}", group.next.as_deref().unwrap_or_default());
    }
}

fn drill(document: &Document, text: &mut String) {
    text.push_str(
        "\nThe drill: hello is killed in the middle of its traffic, the groups resume on world\n",
    );
    let mut rows = table(&[
        "GROUP",
        "FROM OFFSET",
        "DUE (AS WRITTEN)",
        "READ FIRST",
        "DUE RECORDS READ",
        "VERDICT",
    ]);
    for group in document.groups.iter().filter(|group| group.synced) {
        let offset =
            group.target_offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
        let Some(outcome) = &group.drill.outcome else {
            rows.add_row([group.group, &offset, "-", "-", "-", group.drill.result]);
            continue;
        };
        let record =
            |record: &Option<String>| record.clone().unwrap_or_else(|| "nothing".to_owned());
        rows.add_row([
            group.group.to_owned(),
            offset,
            record(&outcome.due_record),
            record(&outcome.resumed_record),
            format!("{} of {}", outcome.read, outcome.due),
            group.drill.result.to_owned(),
        ]);
    }
    text.push_str(&table_text(&rows));
    let drill = &document.drill;
    let differ = match drill.different_partitions {
        0 => "none is missing, doubled or changed".to_owned(),
        1 => "1 partition differs".to_owned(),
        n => format!("{n} partitions differ"),
    };
    let told = format!(
        "{} copied records compared: {differ}. Not copied yet, so lost: {}.",
        grouped(drill.compared_records),
        grouped(drill.lost_records),
    );
    wrapped(&told, text);
}

fn ending(document: &Document, text: &mut String) {
    let verdict = &document.verdict;
    let memory = document
        .peak_memory_bytes
        .map(|bytes| format!(", {} MiB at most", bytes.div_ceil(1 << 20)))
        .unwrap_or_default();
    let _ = writeln!(
        text,
        "\n{}: {} of {} synced groups resumed at the exact record. All of it took {}{memory}.",
        if verdict.is_well() { "PASSED" } else { "FAILED" },
        verdict.exact,
        verdict.synced,
        duration(document.ms),
    );
    if !document.stays {
        text.push_str(
            "Without --once both clusters stay, and any Kafka client can connect to them.\n",
        );
        return;
    }
    let file = &document.file;
    let _ = write!(
        text,
        "hello is back and mirrored again. Both clusters stay until Ctrl-C; in another terminal, try:
  twinlog status {file}
  twinlog translate {file} --topic orders --partition 0 --offset {}
  kafka-consumer-groups.sh --bootstrap-server {} --describe --all-groups
  kafka-console-consumer.sh --bootstrap-server {} \\
    --topic hello.orders --group reports --max-messages 1
",
        super::scene::EXAMPLE_OFFSET,
        bootstrap(document, "world"),
        bootstrap(document, "world"),
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

/// `75 ms`, `1.4 s`.
fn duration(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{}.{} s", ms / 1_000, ms % 1_000 / 100) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_fit_and_their_further_lines_stand_further_in() {
        let mut text = String::new();
        wrapped(&"word ".repeat(40), &mut text);
        let lines: Vec<&str> = text.lines().collect();
        // Two blanks and 19 words with 18 blanks between them are 96 columns, one word more is 101.
        assert_eq!(lines[0], format!("  {}", ["word"; 19].join(" ")));
        assert_eq!(lines[1], format!("     {}", ["word"; 19].join(" ")));
        assert_eq!(lines[2], "     word word");
    }

    #[test]
    fn numbers_and_times_are_short() {
        assert_eq!([7, 999, 1_000, 1_234_567].map(grouped), ["7", "999", "1,000", "1,234,567"]);
        assert_eq!([75, 999, 1_000, 12_345].map(duration), ["75 ms", "999 ms", "1.0 s", "12.3 s"]);
    }
}
