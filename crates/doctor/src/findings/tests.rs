//! Tables of what is grouped and in which order it is told.

use twinlog_types::{Code, Severity, TopicPartition};

use super::{Counts, Finding, GroupedFinding, Grouping};
use crate::chain::{Fix, LinkName, Subject};
use crate::remedy::Impact;

fn group(name: &str) -> Subject {
    Subject::Group(name.into())
}

fn topic(name: &str) -> Subject {
    Subject::Topic(name.into())
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

fn unplaced(n: u64) -> Impact {
    Impact { unplaced: n, ..Impact::default() }
}

fn missing(n: u64) -> Impact {
    Impact { missing: n, ..Impact::default() }
}

fn grouped(all: &[(Option<Subject>, LinkName, Finding)]) -> Vec<GroupedFinding> {
    let mut grouping = Grouping::new();
    for (subject, link, finding) in all {
        grouping.take(subject.as_ref(), *link, finding);
    }
    grouping.end()
}

#[test]
fn equal_findings_of_many_partitions_are_one() {
    let all: Vec<_> = (0..400)
        .map(|n| {
            let finding = Finding::stops(Code::SyncDisabled, format!("orders-{n}: not committed"));
            let fix = Fix::Property("sync.group.offsets.enabled = true".into());
            let finding = finding.of(&orders(n)).with(unplaced(1)).fix(fix);
            (Some(group("app")), LinkName::ConsumerOffsets, finding)
        })
        .collect();
    let found = grouped(&all);
    assert_eq!(found.len(), 1);
    let one = &found[0];
    assert_eq!(one.counts(), Counts { groups: 1, topics: 1, partitions: 400 });
    assert_eq!(one.summary, "orders-0: not committed");
    assert_eq!((one.impact.unplaced, one.fix.len()), (400, 1));
    assert_eq!(one.group().map(ToString::to_string).as_deref(), Some("app"));
    assert_eq!(one.topic().map(ToString::to_string).as_deref(), Some("orders"));
    assert_eq!(one.partition(), None);
}

#[test]
fn records_that_several_chains_come_past_are_counted_once() {
    let lost = || Finding::blocks(Code::SourceGap, "orders-0").of(&orders(0)).with(missing(150));
    let found = grouped(&[
        (Some(topic("orders")), LinkName::Copy, lost()),
        (Some(group("a")), LinkName::Copy, lost()),
        (Some(group("b")), LinkName::Copy, lost()),
    ]);
    assert_eq!((found.len(), found[0].impact.missing), (1, 150));
    assert_eq!(found[0].group(), None, "it is about the topic");
    assert_eq!(found[0].concerned, ["a".into(), "b".into()]);
    assert_eq!(found[0].partition(), Some(0));
    // What a group would read again is each group's own.
    let again = || {
        let impact = Impact { reread: 7, ..Impact::default() };
        Finding::notes(Code::TranslationCoarse, Severity::Error, "x").of(&orders(0)).with(impact)
    };
    let found = grouped(&[
        (Some(group("a")), LinkName::Translation, again()),
        (Some(group("b")), LinkName::Translation, again()),
    ]);
    assert_eq!((found.len(), found[0].impact.reread), (1, 14));
}

#[test]
fn what_holds_for_the_flow_is_told_once_with_what_it_costs() {
    let flow = || Finding::blocks(Code::MirrorNotRunning, "nobody runs it").of_flow();
    let copy = Finding::blocks(Code::MirrorNotRunning, "orders-0: 12 wait").of(&orders(0));
    let found = grouped(&[
        (Some(topic("orders")), LinkName::Flow, flow()),
        (Some(topic("orders")), LinkName::Copy, copy.clone().with(missing(12))),
        (Some(group("a")), LinkName::Flow, flow()),
        (Some(group("a")), LinkName::Copy, copy.with(missing(12))),
    ]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].link, found[0].summary.as_str()), (LinkName::Flow, "nobody runs it"));
    assert_eq!((found[0].of_flow, found[0].impact.missing), (true, 12));
    assert_eq!((found[0].topic(), found[0].partition()), (None, None));
}

#[test]
fn different_causes_and_severities_of_a_code_stay_apart() {
    let excluded = |pattern: &str| Finding::stops(Code::GroupExcluded, pattern).because(pattern);
    let found = grouped(&[
        (Some(group("a")), LinkName::Configuration, excluded("a.*")),
        (Some(group("b")), LinkName::Configuration, excluded("b.*")),
        (Some(group("b2")), LinkName::Configuration, excluded("b.*")),
    ]);
    let groups: Vec<usize> = found.iter().map(|one| one.counts().groups).collect();
    assert_eq!(groups, [2, 1]);
}

#[test]
fn a_topic_that_is_left_out_is_an_error_where_a_group_reads_it_and_a_note_elsewhere() {
    let note = |name: &str| {
        let finding = Finding::notes(Code::TopicNotMirrored, Severity::Info, "left out");
        (Some(topic(name)), LinkName::Topic, finding)
    };
    let error = Finding::stops(Code::TopicNotMirrored, "orders is not mirrored").of(&orders(0));
    let found =
        grouped(&[note("orders"), note("audit"), (Some(group("a")), LinkName::Topic, error)]);
    let told: Vec<_> = found
        .iter()
        .map(|one| (one.severity, one.topic().map(ToString::to_string).unwrap_or_default()))
        .collect();
    assert_eq!(told, [(Severity::Error, "orders".into()), (Severity::Info, "audit".into())]);
    assert_eq!(found[0].group().map(ToString::to_string).as_deref(), Some("a"));
    assert_eq!(grouped(&[note("orders")]).len(), 1);
}

#[test]
fn causes_stand_before_what_follows_and_what_hurts_most_before_what_hurts_less() {
    use LinkName::{Configuration, Connectivity, ConsumerOffsets, Copy, Flow, Translation};
    let at = |link, finding: Finding| (Some(group("app")), link, finding);
    let stops = |code, impact| Finding::stops(code, "x").of(&orders(0)).with(impact);
    let unseen = Finding { found_out: false, ..Finding::blocks(Code::MissingPermission, "x") };
    let reread = |n| Impact { reread: n, ..Impact::default() };
    let skipped = |n| Impact { skipped: n, ..Impact::default() };
    let misspelt = Finding {
        severity: Severity::Error,
        ..Finding::blocks(Code::UnknownProperty, "x").of_flow()
    };
    let found = grouped(&[
        at(Translation, stops(Code::TranslationCoarse, reread(9_000))),
        at(ConsumerOffsets, stops(Code::TargetAhead, skipped(99_999))),
        at(ConsumerOffsets, stops(Code::SyncDisabled, unplaced(3))),
        at(ConsumerOffsets, stops(Code::NegativeLag, unplaced(9))),
        at(Translation, stops(Code::TargetRecreated, reread(1))),
        at(Copy, stops(Code::SourceGap, missing(150))),
        at(ConsumerOffsets, stops(Code::SourceRewound, skipped(151))),
        at(Flow, Finding::blocks(Code::ConnectorFailed, "x").of_flow()),
        at(Configuration, misspelt),
        at(Connectivity, unseen),
        at(Configuration, Finding::notes(Code::GroupWithoutCommits, Severity::Info, "x")),
    ]);
    let order: Vec<Code> = found.iter().map(|one| one.code).collect();
    assert_eq!(
        order,
        [
            Code::MissingPermission,
            Code::UnknownProperty,
            Code::ConnectorFailed,
            Code::SourceRewound,
            Code::SourceGap,
            Code::SyncDisabled,
            Code::TranslationCoarse,
            Code::TargetRecreated,
            // It follows from the mirror that was made again.
            Code::NegativeLag,
            // A warning, however many records.
            Code::TargetAhead,
            Code::GroupWithoutCommits,
        ]
    );
    let follows = |code| found.iter().find(|one| one.code == code).and_then(|one| one.follows_from);
    assert_eq!(follows(Code::SyncDisabled), Some(Code::UnknownProperty));
    assert_eq!(follows(Code::NegativeLag), Some(Code::TargetRecreated));
    assert_eq!(follows(Code::SourceGap), None);
}

#[test]
fn a_stall_stands_behind_the_missing_topic_that_it_is_known_to_wait_for() {
    let order = |stall: Finding| {
        let gone = Finding::blocks(Code::TopicMissingOnTarget, "b is not there");
        let gone = gone.of(&TopicPartition::new("b", 0));
        let stall = stall.of(&orders(0)).with(missing(50));
        let all = [
            (Some(topic("orders")), LinkName::Copy, stall),
            (Some(topic("b")), LinkName::Topic, gone),
        ];
        let found = grouped(&all).into_iter();
        found.map(|one| (one.code, one.follows_from)).collect::<Vec<_>>()
    };
    let stall = || Finding::blocks(Code::Stalled, "orders waits");
    let (gone, stalled) = (Code::TopicMissingOnTarget, Code::Stalled);
    assert_eq!(
        order(stall().after(gone)),
        [(gone, None), (stalled, Some(gone))],
        "it waits for that topic"
    );
    assert_eq!(order(stall()), [(stalled, None), (gone, None)], "it may wait for anything");
}

#[test]
fn nothing_follows_from_an_entry_that_only_says_again_what_another_one_says() {
    let at = |finding: Finding| (Some(topic("orders")), LinkName::Configuration, finding);
    let effect = || at(Finding::notes(Code::TopicNotMirrored, Severity::Info, "x"));
    let follows = |severity| {
        let entry = Finding::notes(Code::UnknownProperty, severity, "x").of_flow();
        let found = grouped(&[at(entry), effect()]);
        found.iter().find(|one| one.code == Code::TopicNotMirrored).and_then(|one| one.follows_from)
    };
    assert_eq!(follows(Severity::Warning), None);
    assert_eq!(follows(Severity::Error), Some(Code::UnknownProperty));
}

#[test]
fn the_consequence_is_what_the_code_means_and_all_records_together() {
    let finding = |n| {
        let mut finding = Finding::stops(Code::SourceGap, "x").of(&orders(n)).with(missing(5));
        finding.meaning = Some("records are gone".into());
        (Some(topic("orders")), LinkName::Copy, finding)
    };
    let found = grouped(&[finding(0), finding(1)]);
    assert_eq!(
        found[0].consequence().as_deref(),
        Some("records are gone; a failover now finds 10 records missing on the target")
    );
}

#[test]
fn several_names_that_are_left_out_are_one_line_of_the_file() {
    let line = |text: &str| Fix::Property(text.into());
    let left_out = |severity, name: &str, fix: &str| {
        let tp = TopicPartition::new(name, 0);
        let finding = Finding { severity, ..Finding::stops(Code::TopicNotMirrored, name) };
        (Some(topic(name)), LinkName::Topic, finding.of(&tp).fix(line(fix)))
    };
    let found = grouped(&[
        left_out(Severity::Error, "a", "hello->world.topics = x,a"),
        left_out(Severity::Error, "b", "hello->world.topics = x,b"),
        left_out(Severity::Info, "c", "hello->world.topics = x,c"),
    ]);
    let said: Vec<&[Fix]> = found.iter().map(|one| &one.fix[..]).collect();
    let (two, all) = ("hello->world.topics = x,a,b", "hello->world.topics = x,a,b,c");
    assert_eq!(said, [&[line(two)][..], &[line(all)]]);
    // What is left out by one pattern each is let in by leaving out both.
    let found = grouped(&[
        left_out(Severity::Error, "a", "topics.exclude = b.*,c.*"),
        left_out(Severity::Error, "b", "topics.exclude = a.*,c.*"),
    ]);
    assert_eq!(found[0].fix, [line("topics.exclude = c.*")]);
}
