//! What `twinlog check` says to people.

use std::collections::BTreeMap;
use std::fmt::Write;

use twinlog_doctor::wrapped;
use twinlog_engine::observe::{ClockReading, FlowPlan, PlannedSide, PlannedStart};
use twinlog_mirror::{FlowConfig, Origin};
use twinlog_types::{ConfigChange, TopicName};

use super::versions::spoken;
use super::{Checked, Said, Severity};
use crate::args::Check;
use crate::format::{duration, plural};
use crate::output::{table, table_text, text_width};

/// Topics that are named one by one; of more, the number is said.
const NAMED_MAX: usize = 20;
/// How wide text is where there is no terminal.
const WIDTH: usize = 100;
/// Clocks that differ by less are as good as equal.
const CLOCK_OFF_MS: u64 = 1_000;

/// `hello->world.topics (line 9)`, as the JSON document has it too.
pub(super) fn place(checked: &Checked, origin: Option<&Origin>) -> String {
    match checked.holding(origin) {
        None => "default".to_owned(),
        Some(Origin { key, line: Some(line), .. }) => format!("{key} (line {line})"),
        Some(Origin { file, key, line: None }) => format!("{key} ({file})"),
    }
}

pub(super) fn text(args: &Check, checked: &Checked) -> String {
    let mut out = String::new();
    let wanted = args.common.flow.as_ref();
    let mut plans = checked.plans.iter();
    let flows = checked.configuration.flows().iter();
    for flow in flows.filter(|flow| wanted.is_none_or(|wanted| *wanted == flow.name)) {
        let _ = writeln!(out, "flow {}\n", flow.name);
        out.push_str(&settings(flow, checked, args.all));
        match plans.next() {
            Some(Ok(plan)) => planned(&mut out, plan),
            Some(Err(failure)) => {
                let _ = writeln!(out, "\n  {}\n    {}", failure.message, failure.next);
            }
            None => {}
        }
        out.push('\n');
    }
    let mut counts = [0, 0];
    for Said { severity, code, problem } in &checked.problems {
        counts[usize::from(*severity == Severity::Warning)] += 1;
        let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
        let _ = writeln!(out, "{}: {problem}{code}", severity.word());
        if let Some(suggestion) = &problem.suggestion {
            let _ = writeln!(out, "  {suggestion}");
        }
    }
    let [errors, warnings] = counts;
    let _ = writeln!(out, "{}, {}", plural(errors, "error"), plural(warnings, "warning"));
    out
}

/// What the file says; with `all` also the defaults.
fn settings(flow: &FlowConfig, checked: &Checked, all: bool) -> String {
    let mut rows = table(&["key", "value", "from"]);
    let mut defaults = 0;
    for setting in flow.settings() {
        if setting.origin.is_none() && !all {
            defaults += 1;
            continue;
        }
        let mut from = place(checked, setting.origin);
        if let (Some(Origin { line: Some(line), .. }), None) =
            (setting.origin, checked.holding(setting.origin))
        {
            let _ = write!(from, ", as line {line} is refused");
        }
        rows.add_row([setting.key.as_str(), &setting.value, &from]);
    }
    let mut text = table_text(&rows);
    if defaults > 0 {
        let _ = writeln!(text, "{} at the default; --all shows them", plural(defaults, "key"));
    }
    text
}

fn planned(out: &mut String, plan: &FlowPlan) {
    for side in [&plan.source, &plan.target] {
        let _ = writeln!(
            out,
            "\n  {}: cluster {}, {}, {} can be seen",
            side.alias,
            side.id,
            plural(side.brokers as u64, "broker"),
            plural(side.topics as u64, "topic")
        );
        brokers(out, side);
    }
    if plan.is_one_cluster() {
        let _ = writeln!(out, "  both are one and the same cluster: nothing would be copied");
    }
    if let Some(lease) = &plan.run_by {
        let _ = writeln!(out, "  it is run now by {}", lease.instance);
    }
    if let Some(reason) = &plan.mm2_runs {
        let _ = writeln!(out, "  would wait: {reason}");
    }
    named(
        out,
        "would create",
        plan.topics.create.iter().map(|creation| {
            let partitions = plural(creation.partitions.unsigned_abs().into(), "partition");
            format!("{} with {partitions}, for {}", creation.target, creation.source)
        }),
    );
    named(
        out,
        "would grow",
        plan.topics
            .grow
            .iter()
            .map(|growth| format!("{} to {} partitions", growth.target, growth.count)),
    );
    named(
        out,
        "would change",
        plan.topics.alter.iter().map(|alteration| {
            let changes = alteration.changes.iter().map(|change| match change {
                ConfigChange::Set(key, value) => format!("{key}={value}"),
                ConfigChange::Delete(key) => format!("{key} removed"),
            });
            format!("{}: {}", alteration.target, changes.collect::<Vec<_>>().join(", "))
        }),
    );
    starts(out, plan);
    named(
        out,
        "would not copy",
        plan.topics
            .stopped
            .iter()
            .map(|verdict| format!("{}: {} ({})", verdict.topic, verdict.reason, verdict.code)),
    );
    named(
        out,
        "worth knowing",
        plan.topics
            .findings
            .iter()
            .map(|verdict| format!("{}: {} ({})", verdict.topic, verdict.reason, verdict.code)),
    );
    let excluded = plan.topics.excluded.len() as u64;
    if excluded > 0 {
        let _ = writeln!(out, "  {} of the source left out by the file", plural(excluded, "topic"));
    }
    named(out, "could not be read", plan.unread.iter().cloned());
}

/// What the brokers of a side speak, and what time it is there.
fn brokers(out: &mut String, side: &PlannedSide) {
    let width = text_width(WIDTH);
    let mut line = |text: &str| {
        let _ = writeln!(out, "    {}", wrapped(text, 6, width));
    };
    let releases = spoken(side);
    if let [one] = releases.as_slice() {
        line(&one.words());
    } else {
        for release in &releases {
            let brokers: Vec<String> = release.brokers.iter().map(i32::to_string).collect();
            line(&format!("broker {}: {}", brokers.join(", "), release.words()));
        }
    }
    for offer in side.offers.iter().filter(|offer| !offer.lacks.is_empty()) {
        let lacks = offer.lacks.join(", ");
        line(&format!(
            "broker {} is too old or too new: no common version of {lacks}",
            offer.broker
        ));
    }
    match &side.clock {
        Ok(clock) => line(&clock_words(*clock)),
        Err(why) => line(&format!("its clock is not known: {why}")),
    }
}

/// A clock in words; whose time is so far off that ages and leases are misjudged, with a warning.
fn clock_words(clock: ClockReading) -> String {
    let ClockReading { ahead_ms, within_ms } = clock;
    let how = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let off = duration(ahead_ms.unsigned_abs());
    let text =
        format!("its clock is {off} {how} this machine's (give or take {})", duration(within_ms));
    let sure = ahead_ms.unsigned_abs().saturating_sub(within_ms);
    if sure < CLOCK_OFF_MS {
        return text;
    }
    format!(
        "! {text}: ages and lags are off by that, who runs the flow is misjudged beyond 15 s, and \
         records with this time may be refused"
    )
}

/// Where copies would begin, by topic.
fn starts(out: &mut String, plan: &FlowPlan) {
    let mut by_start: BTreeMap<(u8, &TopicName), (u64, u64)> = BTreeMap::new();
    for partition in &plan.partitions {
        let kind = match partition.start {
            PlannedStart::GoesOn => 0,
            PlannedStart::Begins => 1,
            PlannedStart::TakenOver(_) => 2,
            PlannedStart::LeftAlone => 3,
        };
        let counted = by_start.entry((kind, &partition.source.topic)).or_default();
        counted.0 += 1;
        counted.1 += partition.waiting;
    }
    for (kind, title) in [
        (0, "would go on with"),
        (1, "would copy from the source's start"),
        (2, "would take over from MM2, which made them"),
        (
            3,
            "would leave alone, as the mirror holds records that nothing explains (run --existing)",
        ),
    ] {
        named(
            out,
            title,
            by_start.iter().filter(|((it, _), _)| *it == kind).map(
                |((_, topic), (partitions, waiting))| {
                    let partitions = plural(*partitions, "partition");
                    // What MM2 copied is found by contents when it is taken over.
                    let about = if kind == 2 { "about " } else { "" };
                    let waiting = plural(*waiting, "offset");
                    format!("{topic}: {partitions}, {about}{waiting} to copy")
                },
            ),
        );
    }
}

fn named(out: &mut String, title: &str, all: impl Iterator<Item = String>) {
    let all: Vec<String> = all.collect();
    if all.is_empty() {
        return;
    }
    let _ = writeln!(out, "  {title}:");
    for one in all.iter().take(NAMED_MAX) {
        let _ = writeln!(out, "    {one}");
    }
    if all.len() > NAMED_MAX {
        let _ = writeln!(out, "    and {} more; --json names them all", all.len() - NAMED_MAX);
    }
}
