//! The screen of `twinlog demo`: it fits the terminal, which is 100 columns where there is none.

use std::fmt::Write;

use twinlog_doctor::wrapped;

use super::document::{Document, GroupLine};
use crate::output::{table, table_text, text_width};

const WIDTH: usize = 100;
/// The group whose next record is shown: it stands still, and its topic has one partition.
const SHOWN: &str = "audit";

/// Text under way, and how wide it may be.
struct Screen {
    text: String,
    width: usize,
}

impl Screen {
    /// A paragraph; its further lines stand `indent` further in than the margin.
    fn paragraph(&mut self, text: &str, indent: usize) {
        self.text.push_str(&wrapped(text, indent, self.width));
        self.text.push('\n');
    }
}

pub(super) fn text(document: &Document) -> String {
    let mut screen = Screen { text: String::new(), width: text_width(WIDTH) };
    head(document, &mut screen);
    topics(document, &mut screen);
    groups(document, &mut screen);
    reasons(document, &mut screen);
    drill(document, &mut screen);
    ending(document, &mut screen);
    screen.text
}

fn head(document: &Document, screen: &mut Screen) {
    let (hello, world) = (bootstrap(document, "hello"), bootstrap(document, "world"));
    let told = match &document.file {
        Some(file) => format!(
            "hello ({hello}) is mirrored to world ({world}), and world to hello, as {file} says, an \
             ordinary MirrorMaker 2 file."
        ),
        None => format!(
            "hello ({hello}) was mirrored to world ({world}), and world to hello, as an ordinary \
             MirrorMaker 2 file said. All of it is gone now."
        ),
    };
    screen.paragraph(&told, 0);
}

fn bootstrap<'a>(document: &'a Document, alias: &str) -> &'a str {
    let found = document.clusters.iter().find(|cluster| cluster.alias == alias);
    found.map_or("", |cluster| cluster.bootstrap.as_str())
}

fn topics(document: &Document, screen: &mut Screen) {
    let mut rows =
        table(&["FLOW", "TOPIC", "ON THE TARGET", "RECORDS", "COPIED", "BEGINS AT", "SPECIAL"]);
    for topic in &document.topics {
        let starts: Vec<String> = topic.source_starts.iter().map(ToString::to_string).collect();
        rows.add_row([
            topic.flow.clone(),
            topic.topic.to_owned(),
            topic.target_topic.clone(),
            topic.records.to_string(),
            topic.copied.to_string(),
            starts.join(", "),
            topic.what.to_owned(),
        ]);
    }
    screen.text.push('\n');
    screen.text.push_str(&table_text(&rows));
    let copied = &document.copied;
    let told = format!(
        "  {} records were there before: copied in {}, {} a second. From then to the drill, producers \
         add some {} a second.",
        grouped(copied.records),
        duration(copied.ms),
        grouped(copied.records_per_second),
        grouped(super::traffic::BUSY_PER_SECOND),
    );
    screen.paragraph(&told, 5);
}

fn groups(document: &Document, screen: &mut Screen) {
    screen.text.push_str("\nWhere each group stands: other offsets, the same record\n");
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
    screen.text.push_str(&table_text(&rows));
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

fn reasons(document: &Document, screen: &mut Screen) {
    let odd = |group: &&GroupLine| !group.synced || group.code.is_some();
    let told: Vec<&GroupLine> = document.groups.iter().filter(odd).collect();
    if told.is_empty() {
        return;
    }
    screen.text.push_str("\nNot synced: why, and what a failover would mean\n");
    for group in told {
        let reason = group.reason.as_deref().unwrap_or("no reason is known");
        let consequence = group.drill.consequence.as_deref().unwrap_or_default();
        screen.paragraph(&format!("  {}: {reason}. {consequence}", group.group), 5);
        if let Some(next) = &group.next {
            let _ = writeln!(screen.text, "     next: {next}");
        }
    }
    if document.file.is_none() {
        let told = "  More, while the clusters stay (without --once): `twinlog explain FILE --group \
                    GROUP`.";
        screen.paragraph(told, 5);
    }
}

fn drill(document: &Document, screen: &mut Screen) {
    screen.text.push('\n');
    screen.paragraph(
        "The drill: hello is killed in the middle of its traffic, the groups resume on world",
        0,
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
    screen.text.push_str(&table_text(&rows));
    let drill = &document.drill;
    let differ = match drill.different_partitions {
        0 => "none is missing, doubled or changed".to_owned(),
        1 => "1 partition differs".to_owned(),
        n => format!("{n} partitions differ"),
    };
    let told = format!(
        "  {} copied records compared, both ways: {differ}. Not copied yet, so lost: {}.",
        grouped(drill.compared_records),
        grouped(drill.lost_records),
    );
    screen.paragraph(&told, 5);
}

fn ending(document: &Document, screen: &mut Screen) {
    let verdict = &document.verdict;
    let memory = document
        .peak_memory_bytes
        .map(|bytes| format!(", {} MiB at most", bytes.div_ceil(1 << 20)))
        .unwrap_or_default();
    screen.text.push('\n');
    let told = format!(
        "{}: {} of {} synced groups resumed at the exact record. All of it took {}{memory}.",
        if verdict.is_well() { "PASSED" } else { "FAILED" },
        verdict.exact,
        verdict.synced,
        duration(document.ms),
    );
    screen.paragraph(&told, 0);
    match &document.file {
        Some(file) => what_to_try(document, file, screen),
        None => screen.paragraph(
            "Without --once both clusters stay, and any Kafka client can connect to them.",
            0,
        ),
    }
}

fn what_to_try(document: &Document, file: &str, screen: &mut Screen) {
    let told = format!(
        "hello is back and mirrored again, with {} records a second. Both clusters stay until Ctrl-C; \
         in another terminal, try:",
        grouped(super::traffic::CALM_PER_SECOND),
    );
    screen.paragraph(&told, 0);
    let world = bootstrap(document, "world");
    // Commands are one line each, however long: they are there to be pasted.
    let _ = write!(
        screen.text,
        "  twinlog status {file}
  twinlog translate {file} --topic orders --partition 0 --offset {}
  kafka-consumer-groups.sh --bootstrap-server {world} --describe --all-groups
",
        super::scene::EXAMPLE_OFFSET,
    );
    let shown = document.groups.iter().find(|group| group.group == SHOWN);
    if let Some((group, record)) =
        shown.and_then(|group| Some((group, group.drill.outcome.as_ref()?.due_record.as_ref()?)))
    {
        let _ = write!(
            screen.text,
            "  kafka-console-consumer.sh --bootstrap-server {world} \\
    --topic {} --group {} --max-messages 1
",
            group.target_topic, group.group,
        );
        let told =
            format!("The last one must print {record}, and {} goes on behind it.", group.group);
        screen.paragraph(&told, 0);
    }
}

/// `12,345`.
pub(super) fn grouped(number: u64) -> String {
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
    fn numbers_and_times_are_short() {
        assert_eq!([7, 999, 1_000, 1_234_567].map(grouped), ["7", "999", "1,000", "1,234,567"]);
        assert_eq!([75, 999, 1_000, 12_345].map(duration), ["75 ms", "999 ms", "1.0 s", "12.3 s"]);
    }
}
