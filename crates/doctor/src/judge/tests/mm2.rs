//! Faults of MM2 that its own topics and the groups show.

use std::collections::BTreeMap;

use twinlog_types::Code;

use super::{
    Broken, GROUP, by_mm2, error, judged, listing, member, mirror, put_checkpoint, put_pairs,
    read_of, source, stands_at, verdict, warning,
};
use crate::chain::LinkName;
use crate::facts::Facts;
use crate::mm2::{CHECKPOINT_CONNECTOR, Connector, FailedTask, SOURCE_CONNECTOR, Worker};

/// A case of MM2: what is different, and what is found.
type Case = (&'static str, &'static str, fn(&mut Facts), Option<Broken>);

#[test]
fn the_faults_of_mirror_maker_2_are_told_apart() {
    use LinkName::{
        Checkpoints, Configuration, ConsumerOffsets, Copy, Flow, OffsetSyncs, TargetGroup, Topic,
        Translation,
    };
    fn checkpoints(facts: &mut Facts) -> &mut Connector {
        facts.mm2.connectors.get_mut(CHECKPOINT_CONNECTOR).expect("a connector")
    }
    fn worker(facts: &mut Facts) -> &mut Worker {
        facts.mm2.worker.as_mut().expect("read").as_mut().expect("a worker")
    }
    fn not_committed(facts: &mut Facts) {
        read_of(facts).target_commits = Ok(BTreeMap::new());
        facts.target.groups = Ok(BTreeMap::new());
    }
    fn committed(facts: &mut Facts, offset: i64) {
        read_of(facts).target_commits = Ok(BTreeMap::from([(mirror(), offset)]));
    }
    let off = "hello->world.sync.group.offsets.enabled = false";
    let cases: &[Case] = &[
        ("sync-disabled", off, not_committed, Some(error(ConsumerOffsets, Code::SyncDisabled))),
        (
            "killed, and sync-disabled shows all the same",
            off,
            |facts| {
                not_committed(facts);
                worker(facts).members.clear();
            },
            Some(error(Flow, Code::MirrorNotRunning)),
        ),
        (
            "mm2-dead",
            "",
            |facts| facts.mm2.worker = Ok(None),
            Some(error(Flow, Code::MirrorNotRunning)),
        ),
        (
            "oversize-record",
            "",
            |facts| {
                let name = "MirrorSourceConnector-0".to_owned();
                let trace = "RecordTooLargeException".to_owned();
                facts.mm2.failed.insert(name.clone(), FailedTask { name, trace });
            },
            Some(error(Flow, Code::ConnectorFailed)),
        ),
        (
            "group-active-on-target, seen before",
            "",
            |facts| {
                facts.target.groups = Ok(BTreeMap::from([(GROUP.into(), listing("Stable"))]));
                read_of(facts).members = Ok(vec![member()]);
                committed(facts, 405);
            },
            Some(error(TargetGroup, Code::GroupLiveOnTarget)),
        ),
        (
            "checkpoints-off",
            "emit.checkpoints.enabled = false",
            |facts| {
                facts.mm2.connectors.remove(CHECKPOINT_CONNECTOR);
                not_committed(facts);
            },
            Some(error(Checkpoints, Code::CheckpointsDisabled)),
        ),
        (
            "checkpoint connector absent for no known reason",
            "",
            |facts| drop(facts.mm2.connectors.remove(CHECKPOINT_CONNECTOR)),
            Some(error(Checkpoints, Code::CheckpointConnectorAbsent)),
        ),
        (
            "no group found yet",
            "",
            |facts| checkpoints(facts).tasks = Some(0),
            Some(error(Flow, Code::CheckpointConnectorNoTasks)),
        ),
        (
            "group-too-new",
            "",
            |facts| checkpoints(facts).groups.clear(),
            Some(error(Checkpoints, Code::GroupNotYetDiscovered)),
        ),
        (
            "two-processes",
            "",
            |facts| {
                checkpoints(facts).groups.clear();
                worker(facts).members.push(member());
            },
            Some(error(Checkpoints, Code::MirrorCannotReconfigure)),
        ),
        (
            "topic-too-new",
            "",
            |facts| facts.mm2.connectors.get_mut(SOURCE_CONNECTOR).expect("it").partitions.clear(),
            Some(warning(Topic, Code::TopicNotYetDiscovered)),
        ),
        (
            "target-topic-not-created",
            "",
            |facts| facts.target.topics = Ok(BTreeMap::new()),
            Some(error(Topic, Code::TopicMissingOnTarget)),
        ),
        (
            "source-emptied",
            "",
            |facts| {
                facts.syncs.read = Ok(Some(BTreeMap::new()));
                facts.mm2.copied.clear();
                facts.source_bounds.insert(source(), (1_000, 1_000));
                facts.bounds.insert(mirror(), (0, 0));
                not_committed(facts);
            },
            Some(error(OffsetSyncs, Code::NothingCopied)),
        ),
        (
            "offset-syncs-location-mismatch",
            "",
            |facts| {
                facts.syncs.read = Ok(None);
                facts.syncs.elsewhere = Some("mm2-offset-syncs.hello.internal".into());
            },
            Some(error(OffsetSyncs, Code::OffsetSyncsLocationMismatch)),
        ),
        (
            "offset-syncs-denied",
            "",
            |facts| facts.syncs.read = Ok(Some(BTreeMap::new())),
            Some(error(OffsetSyncs, Code::OffsetSyncsUnreadable)),
        ),
        (
            "no checkpoint of any group",
            "",
            |facts| {
                facts.checkpoints.read = Ok(Some(BTreeMap::new()));
                facts.checkpoints.total = 0;
            },
            Some(error(Checkpoints, Code::OffsetSyncsUnreadable)),
        ),
        (
            "group-behind-oldest-sync",
            "",
            |facts| {
                stands_at(facts, (100, 100), &[(600, 600), (999, 999)]);
                put_checkpoint(facts, (50, 1), &[]);
                committed(facts, 1);
            },
            Some(error(Translation, Code::TranslationFrozen)),
        ),
        (
            "the same before MirrorMaker 2 is started again",
            "",
            |facts| {
                stands_at(facts, (100, 100), &[(600, 600), (999, 999)]);
                put_checkpoint(facts, (100, 100), &[]);
                committed(facts, 100);
            },
            Some(warning(Translation, Code::TranslationFrozen)),
        ),
        (
            "retention-overtook",
            "",
            |facts| {
                facts.source_bounds.insert(source(), (1_200, 1_300));
            },
            Some(error(Copy, Code::SourceGap)),
        ),
        (
            "source-topic-recreated, smaller",
            "",
            |facts| {
                facts.source_bounds.insert(source(), (0, 50));
            },
            Some(error(Copy, Code::TopicRecreated)),
        ),
        (
            "target-topic-recreated",
            "",
            |facts| {
                put_pairs(facts, &[(0, 0), (899, 899), (900, 0), (999, 99)]);
            },
            Some(error(OffsetSyncs, Code::TargetRecreated)),
        ),
        (
            "negative-lag",
            "",
            |facts| committed(facts, 1_010),
            Some(error(ConsumerOffsets, Code::NegativeLag)),
        ),
        (
            "target-group-ahead",
            "",
            |facts| {
                put_checkpoint(facts, (500, 405), &[]);
                stands_at(facts, (600, 600), &[(0, 0), (404, 404), (999, 999)]);
                committed(facts, 900);
            },
            Some(warning(ConsumerOffsets, Code::TargetAhead)),
        ),
        (
            "source-group-rewound",
            "",
            |facts| {
                put_checkpoint(facts, (0, 0), &[(1_000, 1_000)]);
                stands_at(facts, (0, 0), &[(0, 0), (999, 999)]);
            },
            Some(error(ConsumerOffsets, Code::SourceRewound)),
        ),
        (
            "target-group-denied",
            "",
            not_committed,
            Some(error(ConsumerOffsets, Code::MissingPermission)),
        ),
        (
            "failover-reread",
            "",
            |facts| {
                put_checkpoint(facts, (500, 1), &[]);
                stands_at(facts, (500, 500), &[(0, 0), (999, 999)]);
                committed(facts, 1);
            },
            Some(error(Translation, Code::TranslationCoarse)),
        ),
        (
            "the file was changed since it was started",
            off,
            |facts| {
                let on = ("sync.group.offsets.enabled".to_owned(), "true".to_owned());
                for connector in facts.mm2.connectors.values_mut() {
                    connector.config.extend([on.clone()]);
                }
            },
            Some(warning(Configuration, Code::ConfigDrift)),
        ),
    ];
    for (name, lines, change, expected) in cases {
        let mut facts = by_mm2(lines);
        change(&mut facts);
        assert_eq!(verdict(&facts), *expected, "{name}: {:#?}", judged(&facts));
    }
}

#[test]
fn the_records_that_mirror_maker_2_would_deliver_again_are_counted() {
    let mut facts = by_mm2("");
    put_checkpoint(&mut facts, (500, 1), &[]);
    stands_at(&mut facts, (500, 500), &[(0, 0), (999, 999)]);
    read_of(&mut facts).target_commits = Ok(BTreeMap::from([(mirror(), 1)]));
    let chain = judged(&facts);
    let link = chain.first_broken().expect("broken");
    let consequence = link.consequence.as_deref().unwrap_or_default();
    assert!(consequence.ends_with("a failover now reads 499 records again"), "{consequence}");
}
