//! Faults of MM2 that offset-syncs, records and counts show; the numbers are those that were seen
//! with real ones.

use std::collections::BTreeMap;

use twinlog_types::{Code, Severity, SourceOffset, TargetOffset};

use super::{
    by_mm2, commit, judged, mirror, put_checkpoint, put_pairs, read_of, source, stands_at,
};
use crate::chain::{Fix, LinkName};
use crate::contents::{Aborted, Extra, Sample, Settings, TooLarge};
use crate::facts::Facts;
use crate::findings::Finding;
use crate::mm2::{CHECKPOINT_CONNECTOR, FailedTask, SOURCE_CONNECTOR};

fn committed(facts: &mut Facts, offset: i64) {
    read_of(facts).target_commits = Ok(BTreeMap::from([(mirror(), offset)]));
}

fn bounds(facts: &mut Facts, on_source: (i64, i64), on_target: (i64, i64)) {
    facts.source_bounds.insert(source(), on_source);
    facts.bounds.insert(mirror(), on_target);
}

fn sample(source: i64, target: i64, equal: bool) -> Sample {
    Sample { sync: (SourceOffset(source), TargetOffset(target)), equal }
}

/// What was found with this code.
fn found(facts: &Facts, code: Code) -> Option<Finding> {
    let chain = judged(facts);
    let mut all = chain.links.into_iter().flat_map(|link| link.findings);
    all.find(|finding| finding.code == code)
}

fn errors(facts: &Facts) -> Vec<Code> {
    let chain = judged(facts);
    let all = chain.links.into_iter().flat_map(|link| link.findings);
    all.filter(|finding| finding.severity == Severity::Error).map(|finding| finding.code).collect()
}

fn old(facts: &mut Facts) {
    facts.mm2.version = None;
    facts.mm2.numbers_tasks = false;
}

/// The source was deleted, made anew and grew past the stored position: offsets show nothing.
#[test]
fn another_topic_of_the_same_name_is_told_by_records_that_differ() {
    let mut facts = by_mm2("");
    let pairs = [(0, 0), (909, 909), (999, 999), (1_000, 1_000), (1_509, 1_509)];
    put_pairs(&mut facts, &pairs);
    bounds(&mut facts, (0, 1_510), (0, 1_510));
    facts.mm2.copied.insert(source(), 1_509);
    assert_eq!(errors(&facts), []);
    let samples = vec![sample(0, 0, false), sample(1_509, 1_509, true)];
    facts.contents.samples.insert(source(), samples);
    assert_eq!(errors(&facts), [Code::TopicRecreated]);
    let told = found(&facts, Code::TopicRecreated).expect("told").summary;
    assert!(told.contains("the record at 0 is not the one"), "{told}");
}

/// `killed-mid-copy` and `source-topic-recreated` have the same shape.
#[test]
fn a_copy_that_began_again_is_told_from_another_topic_by_records() {
    let pairs = [(0, 0), (115_235, 115_235), (0, 115_236), (299_999, 415_235)];
    let mut facts = by_mm2("");
    put_pairs(&mut facts, &pairs);
    bounds(&mut facts, (0, 300_000), (0, 415_236));
    facts.mm2.copied.insert(source(), 299_999);
    facts.contents.samples.insert(source(), vec![sample(0, 0, true)]);
    assert_eq!(errors(&facts), [Code::DuplicatesOnTarget]);
    let told = found(&facts, Code::DuplicatesOnTarget).expect("told").summary;
    assert!(told.contains(": 115236 records are on the target twice"), "{told}");
    // In transactions MM2 repeats nothing, and its markers take offsets.
    let mut transactional = facts.clone();
    transactional.mm2.is_transactional = true;
    assert_eq!(errors(&transactional), []);
    // What was there twice is gone by retention.
    let mut gone = facts.clone();
    gone.bounds.insert(mirror(), (120_000, 415_236));
    assert_eq!(errors(&gone), []);
    // Another topic: its records differ, or it does not even reach so far.
    facts.contents.samples.insert(source(), vec![sample(0, 0, false)]);
    assert_eq!(errors(&facts), [Code::TopicRecreated]);
    facts.contents.samples.clear();
    bounds(&mut facts, (0, 310), (0, 415_236));
    facts.mm2.copied.insert(source(), 309);
    put_pairs(&mut facts, &[(0, 0), (999, 999), (0, 1_000), (309, 1_309)]);
    assert_eq!(errors(&facts)[0], Code::TopicRecreated);
}

/// Between two pairs the mirror has 31 records more: only the records tell why.
#[test]
fn records_of_somebody_else_are_no_duplicates() {
    let mut facts = by_mm2("");
    let pairs = [(0, 0), (249, 249), (250, 281), (999, 1_030)];
    put_pairs(&mut facts, &pairs);
    bounds(&mut facts, (0, 1_000), (0, 1_031));
    stands_at(&mut facts, (1_000, 1_031), &pairs);
    put_checkpoint(&mut facts, (1_000, 1_031), &[]);
    committed(&mut facts, 1_031);
    // The source does not have them any more: that there are more is all that is known.
    assert_eq!(errors(&facts), []);
    let told = found(&facts, Code::ForeignWriter).expect("told");
    assert_eq!(told.severity, Severity::Warning);
    assert!(told.summary.contains("31 records more") && told.summary.contains("or copied twice"));
    let run = "twinlog verify mm2.properties --flow 'hello->world' --topic orders --full";
    assert_eq!(told.fix, [Fix::Command(run.into())]);
    let jump = facts.sync(&source()).expect("pairs").jumps[0];
    let extra = |copies, foreign| vec![Extra { jump, there: 1, copies, foreign }];
    facts.contents.extras.insert(source(), extra(1, 31));
    assert_eq!(errors(&facts), []);
    let told = found(&facts, Code::ForeignWriter).expect("told").summary;
    assert!(
        told.contains("31 records of hello.orders-0") && told.contains("somebody else"),
        "{told}"
    );
    facts.contents.extras.insert(source(), extra(32, 0));
    assert_eq!(errors(&facts), [Code::DuplicatesOnTarget]);
    assert_eq!(found(&facts, Code::ForeignWriter), None);
}

/// MM2 stores its positions once a minute and tells a pair every hundred records: where both sides
/// end, nothing waits.
#[test]
fn what_came_since_the_newest_pair_is_not_left_to_copy() {
    let mut facts = by_mm2("");
    put_pairs(&mut facts, &[(0, 0), (899, 899)]);
    facts.mm2.copied.insert(source(), 700);
    let copy = |facts: &Facts| {
        let chain = judged(facts);
        let link = chain.links.into_iter().find(|link| link.name == LinkName::Copy);
        link.expect("a link").summary
    };
    assert_eq!(copy(&facts), "everything that may be copied is");
    // A transaction's marker at the end of the source never comes.
    bounds(&mut facts, (0, 1_001), (0, 1_000));
    facts.found.topics[0].partitions[0].source_end = Some(1_001);
    assert!(copy(&facts).starts_with("at most 1 offset of the source left"), "{}", copy(&facts));
}

/// A position that is short of its place is not called that place.
#[test]
fn a_group_that_stands_short_is_told_so_at_both_links() {
    let mut facts = by_mm2("");
    let pairs: Vec<(i64, i64)> = (0..990).map(|n| (n * 101, n * 101)).collect();
    bounds(&mut facts, (0, 100_000), (0, 100_000));
    facts.mm2.copied.insert(source(), 99_999);
    stands_at(&mut facts, (50_000, 50_000), &pairs);
    put_checkpoint(&mut facts, (50_000, 1), &[]);
    committed(&mut facts, 1);
    let chain = judged(&facts);
    let of = |name| chain.links.iter().find(|link| link.name == name).expect("a link");
    assert_eq!(of(LinkName::Translation).code, Some(Code::TranslationCoarse));
    let told = &of(LinkName::ConsumerOffsets).summary;
    assert!(told.contains("short of its place"), "{told}");
}

/// `retention-overtook`, with the copy gone on.
#[test]
fn a_gap_is_told_with_its_range_unless_compaction_explains_it() {
    let mut facts = by_mm2("");
    put_pairs(&mut facts, &[(0, 0), (99, 99), (250, 100), (299, 149)]);
    bounds(&mut facts, (250, 300), (0, 150));
    facts.mm2.copied.insert(source(), 299);
    stands_at(&mut facts, (300, 150), &[(0, 0), (99, 99), (250, 100), (299, 149)]);
    put_checkpoint(&mut facts, (300, 150), &[]);
    committed(&mut facts, 150);
    assert_eq!(errors(&facts), [Code::SourceGap]);
    let gap = found(&facts, Code::SourceGap).expect("told");
    assert!(gap.summary.contains("offsets 100 to 249 were gone"), "{}", gap.summary);
    assert_eq!(gap.impact.missing, 150);
    // The cleaner leaves such holes, too.
    let compacted = Settings { compacted: true, ..Settings::default() };
    facts.contents.source_settings.insert("orders".into(), compacted);
    assert_eq!(errors(&facts), []);
}

#[test]
fn aborted_records_on_the_target_are_counted() {
    let mut facts = by_mm2("");
    let (from, to) = (SourceOffset(0), SourceOffset(108));
    let aborted = Aborted { from, to, committed: 50, all: 100, copied: 100 };
    facts.contents.aborted.insert(source(), aborted);
    assert_eq!(errors(&facts), [Code::AbortedRecordsCopied]);
    let told = found(&facts, Code::AbortedRecordsCopied).expect("told").summary;
    assert!(told.contains("50 records are of aborted transactions"), "{told}");
    // They were passed over, or there were none.
    for (all, copied) in [(100, 50), (50, 50)] {
        let aborted = Aborted { all, copied, ..aborted };
        facts.contents.aborted.insert(source(), aborted);
        assert_eq!(errors(&facts), [], "{all} {copied}");
    }
}

#[test]
fn a_record_that_the_mirror_does_not_take_is_named_with_both_sizes() {
    let mut facts = by_mm2("");
    let name = "MirrorSourceConnector-0".to_owned();
    let trace = "x; caused by org.apache.kafka.common.errors.RecordTooLargeException: y".to_owned();
    facts.mm2.failed.insert(name.clone(), FailedTask { name, trace });
    let limit = Settings { compacted: false, max_message_bytes: Some(10_000) };
    facts.contents.target_settings.insert("hello.orders".into(), limit);
    let record = TooLarge { offset: SourceOffset(100), bytes: 20_000 };
    facts.contents.too_large.insert(source(), record);
    let told = found(&facts, Code::RecordTooLarge).expect("told");
    assert!(told.summary.contains("the record at 100 has 20000 bytes"), "{}", told.summary);
    assert!(told.summary.contains("takes 10000"), "{}", told.summary);
}

/// Half a log back MM2's reader has kept only the first sync.
#[test]
fn a_coarse_translation_is_counted_by_records() {
    let pairs: Vec<(i64, i64)> =
        (0..990).map(|n| (n * 101, n * 101)).chain([(99_999, 99_999)]).collect();
    let coarse = |committed_at: i64, stands: i64| {
        let mut facts = by_mm2("");
        bounds(&mut facts, (0, 100_000), (0, 100_000));
        facts.mm2.copied.insert(source(), 99_999);
        stands_at(&mut facts, (committed_at, committed_at), &pairs);
        put_checkpoint(&mut facts, (committed_at, stands), &[]);
        committed(&mut facts, stands);
        facts
    };
    let told = found(&coarse(50_000, 1), Code::TranslationCoarse).expect("told");
    assert_eq!((told.severity, told.impact.reread), (Severity::Error, 49_999));
    assert!(found(&coarse(100_000, 100_000), Code::TranslationCoarse).is_none());
    // What two rounds of traffic explain is no error.
    let mut busy = coarse(99_900, 99_789);
    busy.contents.recent.insert(source(), 400);
    let told = found(&busy, Code::TranslationCoarse).expect("told");
    assert_eq!((told.severity, told.impact.reread), (Severity::Info, 111));
    // Nor is what `offset.lag.max` accepts, without any.
    let told = found(&coarse(99_900, 99_849), Code::TranslationCoarse).expect("told");
    assert_eq!((told.severity, told.impact.reread), (Severity::Warning, 51));
    // A better checkpoint from before stays.
    assert!(found(&coarse(50_000, 50_000), Code::TranslationCoarse).is_none());
}

#[test]
fn before_the_next_flush_the_end_is_no_error_except_for_old_ones() {
    let mut facts = by_mm2("");
    bounds(&mut facts, (0, 12), (0, 12));
    stands_at(&mut facts, (12, 12), &[(0, 0)]);
    put_checkpoint(&mut facts, (12, 1), &[]);
    committed(&mut facts, 1);
    facts.mm2.copied.insert(source(), 11);
    assert_eq!(errors(&facts), []);
    let told = found(&facts, Code::TranslationCoarse).expect("told");
    assert_eq!((told.severity, told.impact.reread), (Severity::Info, 11));
    old(&mut facts);
    let told = found(&facts, Code::TranslationCoarse).expect("told");
    assert_eq!(told.severity, Severity::Warning, "it is never written");
}

/// `both-directions`: the group's positions that the other direction put there are not carried back.
#[test]
fn what_came_from_the_target_is_not_missed() {
    let mut facts = by_mm2("");
    let mut back = commit(405);
    back.tp = twinlog_types::TopicPartition::new("world.orders", 0);
    read_of(&mut facts).source_commits = Ok(vec![commit(1_000), back]);
    assert_eq!(errors(&facts), []);
    let link = &judged(&facts).links[3];
    assert!(link.summary.contains("in 1 partition that came from world"), "{}", link.summary);
}

#[test]
fn positions_that_an_old_bug_put_too_far_ahead_name_the_issue() {
    let bug = |facts: &Facts| {
        let told = found(facts, Code::Mm2KnownBug).expect("told");
        (told.cause, told.impact.skipped)
    };
    // `empty`: nothing was ever copied.
    let mut facts = by_mm2("");
    old(&mut facts);
    facts.syncs.read = Ok(Some(BTreeMap::new()));
    bounds(&mut facts, (1_000, 1_000), (0, 0));
    assert_eq!(bug(&facts), ("KAFKA-12635".into(), 0));
    assert!(found(&facts, Code::NegativeLag).is_some());
    // `history`: the checkpoint was right later, the group stays.
    let mut facts = by_mm2("");
    old(&mut facts);
    bounds(&mut facts, (400, 1_000), (0, 600));
    stands_at(&mut facts, (1_000, 600), &[(400, 0)]);
    put_checkpoint(&mut facts, (1_000, 600), &[(1_000, 1_000)]);
    assert_eq!(bug(&facts), ("KAFKA-12635".into(), 0));
    // The first checkpoint was not the source's offset, but added to a pair that a newer one follows.
    let mut facts = by_mm2("");
    old(&mut facts);
    bounds(&mut facts, (0, 1_344), (0, 1_240));
    stands_at(&mut facts, (1_344, 1_240), &[(0, 0), (70, 63), (1_340, 1_237)]);
    put_checkpoint(&mut facts, (1_344, 1_241), &[(1_344, 1_337)]);
    committed(&mut facts, 1_337);
    assert_eq!(bug(&facts), ("KAFKA-12468".into(), 0));
    // `ahead`: the copy is behind the group.
    let mut facts = by_mm2("");
    old(&mut facts);
    bounds(&mut facts, (0, 1_000), (0, 100));
    stands_at(&mut facts, (1_000, 100), &[(0, 0)]);
    assert_eq!(bug(&facts), ("KAFKA-12468".into(), 0));
    // The checkpoint is as wrong as the commit: it is no place to be put to.
    let told = found(&facts, Code::NegativeLag).expect("told");
    assert!(format!("{:?}", told.fix).contains("--to-offset 100 "), "{told:?}");
    let seen = found(&facts, Code::Mm2KnownBug).expect("told").evidence;
    assert!(seen.iter().any(|seen| seen.value == "3.4 or older"), "{seen:?}");
    // `markers`, the group in the middle: 98 markers lie before its place.
    let mut facts = by_mm2("");
    old(&mut facts);
    bounds(&mut facts, (0, 1_100), (0, 1_000));
    stands_at(&mut facts, (1_078, 980), &[(0, 0), (649, 590)]);
    put_checkpoint(&mut facts, (1_078, 1_019), &[]);
    committed(&mut facts, 1_019);
    assert_eq!(bug(&facts), ("KAFKA-12468".into(), 20));
    assert!(found(&facts, Code::NegativeLag).is_some());
    // Not beyond the end, and 6 would be skipped all the same.
    let mut facts = by_mm2("");
    old(&mut facts);
    bounds(&mut facts, (0, 1_100), (0, 1_000));
    stands_at(&mut facts, (1_078, 980), &[(0, 0), (1_012, 920)]);
    put_checkpoint(&mut facts, (1_078, 986), &[]);
    committed(&mut facts, 986);
    assert_eq!(bug(&facts), ("KAFKA-12468".into(), 6));
    assert_eq!(errors(&facts), [Code::Mm2KnownBug]);
    // A healthy old one adds the distance, too, and no hole is in it.
    let mut facts = by_mm2("");
    old(&mut facts);
    put_pairs(&mut facts, &[(0, 0)]);
    assert_eq!(errors(&facts), []);
    // Offsets copied by a tool, with a new one: a negative lag and no bug.
    let mut facts = by_mm2("");
    bounds(&mut facts, (400, 1_000), (0, 600));
    stands_at(&mut facts, (1_000, 600), &[(400, 0), (999, 599)]);
    put_checkpoint(&mut facts, (1_000, 600), &[]);
    assert_eq!(errors(&facts), [Code::NegativeLag]);
}

/// `old-mm2-refuses`: the sync that would do is in the topic.
#[test]
fn an_old_one_that_goes_by_its_newest_pair_only_is_told() {
    let mut facts = by_mm2("");
    bounds(&mut facts, (0, 6_000), (0, 6_000));
    facts.mm2.copied.insert(source(), 5_999);
    stands_at(&mut facts, (2_000, 2_000), &[(0, 0), (5_000, 5_000)]);
    put_checkpoint(&mut facts, (1_000, 1_000), &[]);
    committed(&mut facts, 1_000);
    old(&mut facts);
    assert_eq!(errors(&facts), [Code::TranslationFrozen, Code::Mm2KnownBug]);
    let told = found(&facts, Code::TranslationFrozen).expect("told");
    assert_eq!(told.impact.reread, 1_000);
    assert_eq!(found(&facts, Code::Mm2KnownBug).expect("told").cause, "KAFKA-14666");
}

#[test]
fn what_is_not_there_yet_is_told_with_the_time_until_it_is() {
    let mut facts = by_mm2("refresh.groups.interval.seconds = 600");
    let connector = facts.mm2.connectors.get_mut(CHECKPOINT_CONNECTOR).expect("there");
    connector.groups.clear();
    // The connector runs for 700 s: it looked at 600 and looks again at 1,200.
    let told = found(&facts, Code::GroupNotYetDiscovered).expect("told").summary;
    assert!(told.contains("next in 500 s"), "{told}");
}

#[test]
fn a_topic_that_cannot_be_made_is_told_with_the_reason() {
    let mut facts = by_mm2("replication.factor = 3");
    facts.target.topics = Ok(BTreeMap::new());
    let told = found(&facts, Code::TopicMissingOnTarget).expect("told").summary;
    assert!(told.contains("replication.factor is 3, and the cluster has 1 broker"), "{told}");
    // Another topic of the same task waits behind it.
    let mut facts = by_mm2("");
    let missing = twinlog_types::TopicPartition::new("audit", 0);
    let connector = facts.mm2.connectors.get_mut(SOURCE_CONNECTOR).expect("there");
    connector.partitions.get_mut(&0).expect("a task").insert(missing);
    assert!(found(&facts, Code::Stalled).is_none());
    bounds(&mut facts, (0, 1_150), (0, 1_000));
    let told = found(&facts, Code::Stalled).expect("told").summary;
    assert!(told.contains("150 offsets of it wait behind hello.audit-0"), "{told}");
}

#[test]
fn writer_and_reader_of_pairs_that_are_configured_apart_are_told() {
    let mut facts = by_mm2("");
    let connector = facts.mm2.connectors.get_mut(CHECKPOINT_CONNECTOR).expect("there");
    connector.config.insert("offset-syncs.topic.location".into(), "target".into());
    facts.checkpoints.read = Ok(Some(BTreeMap::new()));
    facts.checkpoints.total = 0;
    assert_eq!(errors(&facts)[0], Code::OffsetSyncsLocationMismatch);
    assert_eq!(judged(&facts).first_broken().map(|link| link.name), Some(LinkName::OffsetSyncs));
}

#[test]
fn offsets_that_nobody_writes_again_have_expired() {
    let mut facts = by_mm2("");
    facts.mm2.worker = Ok(None);
    read_of(&mut facts).target_commits = Ok(BTreeMap::new());
    facts.target.groups = Ok(BTreeMap::new());
    assert_eq!(errors(&facts), [Code::MirrorNotRunning, Code::OffsetsExpired]);
}

#[test]
fn a_topic_without_any_record_is_no_error_unless_a_group_misses_its_place_there() {
    let mut facts = by_mm2("");
    facts.mm2.copied.clear();
    bounds(&mut facts, (0, 0), (0, 0));
    facts.syncs.read = Ok(Some(BTreeMap::new()));
    facts.subject = super::topic_subject();
    assert_eq!(errors(&facts), []);
    facts.subject = super::group_subject();
    assert!(errors(&facts).contains(&Code::NothingCopied));
}
