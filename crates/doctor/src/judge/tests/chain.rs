//! Links of any mirror, by what is different in each case.

use std::collections::BTreeMap;
use std::sync::Arc;

use twinlog_client::CommittedOffset;
use twinlog_engine::observe::Missing;
use twinlog_flow::Standing;
use twinlog_mirror::{Configuration, Problem};
use twinlog_types::{Code, Severity, State, TopicPartition};

use super::super::explain;
use super::{
    GROUP, by_mm2, by_twinlog, commit, config, error, group_subject, judged, listing, member,
    mirror, partition, position, put_checkpoint, read_of, topic_subject, unread, verdict, warning,
};
use crate::chain::{Fix, LinkName, LinkState, MirroredBy, Outcome, Subject};
use crate::facts::{Facts, Trouble};

#[test]
fn what_is_well_is_well_at_every_link() {
    for facts in [
        by_twinlog("", group_subject()),
        by_twinlog("", topic_subject()),
        by_mm2("emit.checkpoints.interval.seconds = 1"),
    ] {
        let chain = judged(&facts);
        assert_eq!(verdict(&facts), None, "{chain:#?}");
        assert!(chain.links.iter().all(|link| link.state == LinkState::Ok), "{chain:#?}");
        assert_eq!(chain.outcome(), Outcome::Well);
        assert!(chain.concerned);
    }
    assert_eq!(judged(&by_mm2("")).mirrored_by, Some(MirroredBy::MirrorMaker));
    assert_eq!(judged(&by_mm2("")).links[6].name, LinkName::OffsetSyncs);
    assert_eq!(judged(&by_twinlog("", group_subject())).links[6].name, LinkName::OffsetMap);
}

#[test]
fn what_the_file_says_breaks_the_chain_at_its_beginning() {
    use LinkName::Configuration;
    let group = |lines: &str| by_twinlog(lines, group_subject());
    for (facts, expected) in [
        (group("groups.exclude = a,orders-.*"), Some(error(Configuration, Code::GroupExcluded))),
        (group("groups = payments.*"), Some(error(Configuration, Code::GroupNotIncluded))),
        (group("topics = payments"), Some(error(LinkName::Topic, Code::TopicNotMirrored))),
        (group("topics.exclude = ord.*"), Some(error(LinkName::Topic, Code::TopicNotMirrored))),
    ] {
        assert_eq!(verdict(&facts), expected);
        let chain = judged(&facts);
        let last = chain.links.last().expect("links");
        assert_eq!(last.state, LinkState::NotReached, "{chain:#?}");
        assert_eq!(chain.outcome(), Outcome::Wrong);
    }
}

#[test]
fn a_filter_is_named_with_its_pattern_and_line_and_the_line_that_mends_it() {
    let facts = by_twinlog("hello->world.groups.exclude = a,orders-.*", group_subject());
    let chain = judged(&facts);
    let link = chain.first_broken().expect("broken");
    assert!(link.summary.contains("orders-.*"), "{}", link.summary);
    assert!(link.summary.contains("mm2.properties:6: hello->world.groups.exclude"));
    assert_eq!(link.fix, [Fix::Property("hello->world.groups.exclude = a".into())]);

    let facts = by_twinlog("groups = a", Subject::Group("orders.app".into()));
    let chain = judged(&facts);
    let link = chain.first_broken().expect("broken");
    assert_eq!(link.fix, [Fix::Property("groups = a,orders[.]app".into())]);
    // What is added matches the group and nothing else.
    let mended = config("groups = a,orders[.]app");
    assert!(mended.flows()[0].groups.matches("orders.app"));
    assert!(!mended.flows()[0].groups.matches("ordersXapp"));

    // MM2's default excludes Connect's groups, and no line says so.
    let facts = by_twinlog("", Subject::Group("connect-sink".into()));
    let chain = judged(&facts);
    let link = chain.first_broken().expect("broken");
    assert!(link.summary.contains("connect-.*"), "{}", link.summary);
    assert!(link.summary.contains("the default holds"), "{}", link.summary);
    let rest = "hello->world.groups.exclude = console-consumer-.*,__.*";
    assert_eq!(link.fix, [Fix::Property(rest.into())]);
}

#[test]
fn a_misspelt_key_that_decides_is_named_before_its_consequence() {
    let note = |suggestion: &str| Problem {
        file: "mm2.properties".into(),
        line: Some(5),
        key: Some("hello->world.sync.group.offset.enabled".into()),
        message: "nobody reads this key".into(),
        suggestion: Some(suggestion.into()),
    };
    let right = "did you mean `hello->world.sync.group.offsets.enabled`?";
    let mut facts = by_twinlog("hello->world.sync.group.offsets.enabled = false", group_subject());
    facts.notes.push(note(right));
    // The right key is said too: it counts.
    assert_eq!(verdict(&facts), None);
    let text = "clusters = hello, world\nhello.bootstrap.servers = h:1\n\
                world.bootstrap.servers = w:1\nhello->world.enabled = true\n";
    let flows = Configuration::parse("f", text.as_bytes(), &[]).expect("sound");
    facts.config = Arc::new(flows.flows()[0].clone());
    assert_eq!(verdict(&facts), Some(error(LinkName::Configuration, Code::UnknownProperty)));
    let to_say = |facts: &Facts| judged(facts).first_broken().expect("broken").fix.clone();
    // Where the value is not at hand, the place of it is.
    let there = "hello->world.sync.group.offsets.enabled = <the value of mm2.properties:5>";
    assert_eq!(to_say(&facts), [Fix::Property(there.into())]);
    let typed = format!("{text}hello->world.sync.group.offset.enabled = true\n");
    let flows = Configuration::parse("f", typed.as_bytes(), &[]).expect("sound");
    facts.config = Arc::new(flows.flows()[0].clone());
    let line = "hello->world.sync.group.offsets.enabled = true";
    assert_eq!(to_say(&facts), [Fix::Property(line.into())]);
    // A slip of another flow is no fault of this one.
    facts.notes = vec![note("did you mean `world->hello.sync.group.offsets.enabled`?")];
    assert_eq!(verdict(&facts), None);
    facts.notes = vec![note("did you mean `hello->world.tasks.max`?")];
    assert_eq!(verdict(&facts), None);
}

#[test]
fn a_cluster_that_does_not_answer_ends_the_walk_without_a_verdict() {
    let mut facts = by_twinlog("", group_subject());
    let trouble = Trouble::new(Some(Code::Unreachable), "hello: gone");
    facts.source.id = Err(trouble);
    let chain = judged(&facts);
    assert_eq!(verdict(&facts), Some((LinkName::Connectivity, Some(Code::Unreachable), None)));
    assert_eq!(chain.outcome(), Outcome::NotFoundOut);
    let states: Vec<(&str, LinkState)> =
        chain.links.iter().map(|link| (link.name.word(), link.state)).collect();
    // What needs the target alone is looked at.
    assert_eq!(
        states[2..],
        [
            ("flow", LinkState::Ok),
            ("source-group", LinkState::NotReached),
            ("topic", LinkState::NotReached),
            ("copy", LinkState::NotReached),
            ("offset-map", LinkState::NotReached),
            ("translation", LinkState::NotReached),
            ("checkpoints", LinkState::Ok),
            ("target-group", LinkState::Ok),
            ("consumer-offsets", LinkState::Unknown),
        ]
    );
    let last = chain.links.last().expect("links");
    assert_eq!(last.code, Some(Code::Unreachable));
    let stands = ("committed on hello.orders-0", "1000", "world: group orders-app");
    let seen = last.evidence.iter();
    let seen: Vec<_> = seen.map(|one| (&*one.what, &*one.value, &*one.place)).collect();
    assert_eq!(seen, [stands]);

    // The target alone does not answer: nothing is left to look at.
    let mut dark = by_twinlog("", group_subject());
    dark.target.id = Err(Trouble::new(Some(Code::Unreachable), "world: gone"));
    assert_eq!(verdict(&dark), Some((LinkName::Connectivity, Some(Code::Unreachable), None)));
    let rest = &judged(&dark).links[2..];
    assert!(rest.iter().all(|link| link.state == LinkState::NotReached), "{rest:#?}");

    // Time was up before the target was asked about the group, and about who mirrors.
    let mut facts = unread("", group_subject());
    facts.source.id = Err(Trouble::new(Some(Code::Unreachable), "hello: gone"));
    facts.target.id = Ok("world-id".into());
    facts.target.groups = Ok(BTreeMap::new());
    let what = "hello did not answer within 1s".to_owned();
    facts.cut_off = Some(Trouble::new(Some(Code::Unreachable), what));
    let chain = judged(&facts);
    assert_eq!(chain.mirrored_by, None);
    for link in &chain.links[1..] {
        let unlooked = matches!(link.state, LinkState::NotReached | LinkState::Unknown);
        assert!(unlooked, "{link:#?}");
    }

    // What was not looked at because time was up is not said to be well.
    let mut facts = unread("", group_subject());
    let what = "hello and world did not answer within 1s".to_owned();
    facts.cut_off = Some(Trouble::new(Some(Code::Unreachable), what));
    let chain = judged(&facts);
    let link = chain.first_broken().expect("unknown");
    assert_eq!((link.state, link.code), (LinkState::Unknown, Some(Code::Unreachable)));
    assert_eq!(link.summary, "hello and world did not answer within 1s", "and it is said once");
    assert_eq!(chain.mirrored_by, None);

    let mut one = by_twinlog("", group_subject());
    one.source.id.clone_from(&one.target.id);
    assert_eq!(verdict(&one), Some(error(LinkName::Connectivity, Code::SameCluster)));

    // Something less was not found out: the rest is judged all the same.
    let mut facts = by_twinlog("", group_subject());
    let missing = Missing { cluster: "hello".into(), code: None, what: "the end of x".into() };
    facts.found.missing.push(missing);
    assert_eq!(verdict(&facts), None);
}

#[test]
fn an_unknown_group_is_said_to_be_one_with_near_names() {
    let mut facts = by_twinlog("", Subject::Group("order-app".into()));
    read_of(&mut facts).source_commits = Ok(Vec::new());
    let chain = judged(&facts);
    assert_eq!(verdict(&facts), Some(error(LinkName::SourceGroup, Code::GroupWithoutCommits)));
    assert!(chain.links[3].summary.contains("did you mean orders-app?"), "{chain:#?}");
    assert!(!chain.concerned);
    let run = |text: &str| vec![Fix::Command(text.to_owned())];
    let meant = run("twinlog explain mm2.properties --group orders-app");
    assert_eq!(chain.links[3].fix, meant);

    // Nothing is near.
    facts.subject = Subject::Group("invoices".into());
    let list = run("kafka-consumer-groups.sh --bootstrap-server hello:9092 --list");
    assert_eq!(judged(&facts).links[3].fix, list);

    // Only on the target.
    let mut facts = by_twinlog("", group_subject());
    read_of(&mut facts).source_commits = Ok(Vec::new());
    facts.source.groups = Ok(BTreeMap::new());
    let chain = judged(&facts);
    let summary = &chain.links[3].summary;
    assert!(summary.contains("exists on world and not on hello"), "{summary}");

    // There, without a commit.
    let mut facts = by_twinlog("", group_subject());
    read_of(&mut facts).source_commits = Ok(vec![commit(-1)]);
    assert_eq!(verdict(&facts), Some(error(LinkName::SourceGroup, Code::GroupWithoutCommits)));

    // Rights may have shortened the answer.
    let mut facts = by_twinlog("", group_subject());
    let denied = Trouble::new(Some(Code::MissingPermission), "denied");
    read_of(&mut facts).source_commits = Err(denied);
    let expected = Some((LinkName::SourceGroup, Some(Code::MissingPermission), None));
    assert_eq!(verdict(&facts), expected);
    assert_eq!(judged(&facts).outcome(), Outcome::NotFoundOut);
}

#[test]
fn partitions_without_a_commit_are_a_note() {
    let mut facts = by_twinlog("", group_subject());
    facts.source.topics = Ok(BTreeMap::from([("orders".into(), 3)]));
    let chain = judged(&facts);
    assert_eq!(verdict(&facts), None);
    let link = &chain.links[3];
    assert_eq!((link.state, link.code), (LinkState::Ok, Some(Code::GroupWithoutCommits)));
    assert_eq!(link.severity, Some(Severity::Info));
    assert!(link.summary.contains("no commit in orders-1, orders-2"), "{}", link.summary);
    // Of one partition only that counts.
    let only = explain(&facts, Some(2), "f");
    let first = only.first_broken().expect("no commit there");
    assert_eq!((first.name, first.code), (LinkName::SourceGroup, Some(Code::GroupWithoutCommits)));
    assert!(explain(&facts, Some(0), "f").first_broken().is_none());
}

#[test]
fn an_unknown_topic_is_said_to_be_one_with_near_names() {
    let summary = |facts: &Facts| {
        assert_eq!(verdict(facts), Some(error(LinkName::SourceTopic, Code::TopicNotMirrored)));
        judged(facts).links[3].summary.clone()
    };
    let facts = by_twinlog("", Subject::Topic("order".into()));
    assert!(summary(&facts).contains("did you mean orders?"));
    let meant = Fix::Command("twinlog explain mm2.properties --topic orders".into());
    assert_eq!(judged(&facts).links[3].fix, [meant]);
    let mut facts = by_twinlog("", Subject::Topic("hello.gone".into()));
    facts.target.topics = Ok(BTreeMap::from([("hello.gone".into(), 1)]));
    assert!(summary(&facts).contains("it would be the mirror of gone"));
    let mut deleted = by_twinlog("", topic_subject());
    deleted.source.topics = Ok(BTreeMap::new());
    deleted.found.topics[0].standing =
        Standing::found(State::Stopped, Code::SourceTopicDeleted, "it was deleted");
    assert_eq!(verdict(&deleted), Some(error(LinkName::SourceTopic, Code::SourceTopicDeleted)));
    let facts = by_twinlog("", topic_subject());
    let none = explain(&facts, Some(7), "f");
    assert!(none.links[3].summary.contains("has no partition 7"), "{none:#?}");
}

#[test]
fn what_status_knows_of_a_partition_breaks_its_link() {
    use State::{CatchingUp, Stopped, Waiting};
    for (state, code, link) in [
        (Waiting, Code::TopicMissingOnTarget, LinkName::Topic),
        (Stopped, Code::TopicRecreated, LinkName::Topic),
        (Stopped, Code::TargetRecreated, LinkName::Topic),
        (Stopped, Code::TargetNotEmpty, LinkName::Topic),
        (Waiting, Code::PartitionCountDiffers, LinkName::Topic),
        (Stopped, Code::NamesCollide, LinkName::Topic),
        (Stopped, Code::ReplicationLoop, LinkName::Topic),
        (Stopped, Code::SourceGap, LinkName::Copy),
        (Stopped, Code::RecordTooLarge, LinkName::Copy),
        (Stopped, Code::CorruptBatch, LinkName::Copy),
        (Stopped, Code::MissingPermission, LinkName::Copy),
        (CatchingUp, Code::Stalled, LinkName::Copy),
        (Stopped, Code::StateCorrupt, LinkName::OffsetMap),
    ] {
        for subject in [group_subject(), topic_subject()] {
            let mut facts = by_twinlog("", subject);
            partition(&mut facts).standing = Standing::found(state, code, "why");
            assert_eq!(verdict(&facts), Some(error(link, code)), "{code}");
            assert_eq!(judged(&facts).outcome(), Outcome::Wrong);
        }
    }
    for code in [Code::OpenTransaction, Code::TargetTruncated] {
        let mut facts = by_twinlog("", topic_subject());
        partition(&mut facts).standing = Standing::found(State::CatchingUp, code, "why");
        assert_eq!(verdict(&facts), Some(warning(LinkName::Copy, code)));
        assert_eq!(judged(&facts).outcome(), Outcome::Well);
    }
}

#[test]
fn a_partition_leaves_the_walk_where_it_breaks_and_the_others_go_on() {
    let mut facts = by_twinlog("topics = orders", group_subject());
    let other = CommittedOffset { tp: TopicPartition::new("audit", 0), ..commit(5) };
    read_of(&mut facts).source_commits = Ok(vec![commit(1_000), other]);
    let chain = judged(&facts);
    assert_eq!(verdict(&facts), Some(error(LinkName::Topic, Code::TopicNotMirrored)));
    let link = chain.first_broken().expect("broken");
    assert_eq!(link.partitions, [TopicPartition::new("audit", 0)]);
    assert_eq!(chain.links.last().map(|link| link.state), Some(LinkState::Ok), "{chain:#?}");
}

#[test]
fn a_mirror_that_does_not_run_is_told_and_the_rest_is_looked_at_all_the_same() {
    let mut facts = by_twinlog("", group_subject());
    facts.found.own = Standing::found(State::Stopped, Code::MirrorNotRunning, "ended");
    partition(&mut facts).lag_records = Some(12);
    partition(&mut facts).standing =
        Standing::found(State::Waiting, Code::MirrorNotRunning, "12 wait");
    let chain = judged(&facts);
    assert_eq!(verdict(&facts), Some(error(LinkName::Flow, Code::MirrorNotRunning)));
    let copy = chain.links.iter().find(|link| link.name == LinkName::Copy).expect("a link");
    let consequence = copy.consequence.as_deref().unwrap_or_default();
    assert!(consequence.ends_with("a failover now finds 12 records missing on the target"));
    assert_eq!(chain.links.last().map(|link| link.state), Some(LinkState::Ok));
    assert_eq!(
        chain.first_broken().expect("broken").fix,
        [Fix::Command("twinlog run mm2.properties".into())]
    );
}

#[test]
fn members_on_the_target_are_named_and_weigh_by_what_they_would_cost() {
    let live = |committed: Option<i64>| {
        let mut facts = by_twinlog("", group_subject());
        facts.target.groups = Ok(BTreeMap::from([(GROUP.into(), listing("Stable"))]));
        read_of(&mut facts).members = Ok(vec![member()]);
        position(&mut facts).committed_target = committed;
        // Others write there, too.
        facts.bounds.insert(mirror(), (0, 1_500));
        facts
    };
    let behind = live(Some(405));
    assert_eq!(verdict(&behind), Some(error(LinkName::TargetGroup, Code::GroupLiveOnTarget)));
    let chain = judged(&behind);
    let link = chain.first_broken().expect("broken");
    assert!(link.summary.contains("client app-1 at 10.0.0.7"), "{}", link.summary);
    let consequence = link.consequence.as_deref().unwrap_or_default();
    assert!(consequence.ends_with("a failover now reads 595 records again"), "{consequence}");
    assert_eq!(
        link.fix,
        [Fix::Command(
            "kafka-consumer-groups.sh --bootstrap-server world:9092 --describe --group orders-app \
             --members"
                .into()
        )]
    );
    let last = chain.links.last().expect("links");
    assert_eq!(last.state, LinkState::NotReached);
    assert!(!last.evidence.is_empty(), "where it stands is shown all the same");
    // Its own members are where it belongs, or past that: no fault.
    for committed in [1_000, 1_200] {
        let ahead = live(Some(committed));
        assert_eq!(verdict(&ahead), Some(warning(LinkName::TargetGroup, Code::GroupLiveOnTarget)));
        assert_eq!(judged(&ahead).outcome(), Outcome::Well);
    }
}

#[test]
fn what_is_committed_on_the_target_is_compared_with_the_translation() {
    let mut disabled = by_twinlog("", group_subject());
    position(&mut disabled).committed_target = None;
    position(&mut disabled).standing =
        Standing::found(State::Excluded, Code::SyncDisabled, "1000 would be its place");
    assert_eq!(verdict(&disabled), Some(error(LinkName::ConsumerOffsets, Code::SyncDisabled)));
    let chain = judged(&disabled);
    let link = chain.first_broken().expect("broken");
    let consequence = link.consequence.as_deref().unwrap_or_default();
    assert!(consequence.contains("earliest reads 1000 records again"), "{consequence}");
    let fix = "hello->world.sync.group.offsets.enabled = true";
    assert_eq!(link.fix.first(), Some(&Fix::Property(fix.into())));

    let mut due = by_twinlog("", group_subject());
    position(&mut due).committed_target = Some(900);
    position(&mut due).standing = Standing::because(State::CatchingUp, "with the next round");
    assert_eq!(verdict(&due), None);

    let mut backlog = by_twinlog("", group_subject());
    position(&mut backlog).standing =
        Standing::found(State::InSync, Code::BacklogNotOnTarget, "60 records are missing");
    assert_eq!(verdict(&backlog), Some(error(LinkName::Translation, Code::BacklogNotOnTarget)));
    let chain = judged(&backlog);
    let last = chain.links.last().map(|link| link.state);
    assert_eq!(last, Some(LinkState::Ok), "it stands at the first record there");
    let fix = chain.first_broken().and_then(|link| link.fix.first());
    let ledger =
        Fix::Command("twinlog status mm2.properties --flow 'hello->world' --topic orders".into());
    assert_eq!(fix, Some(&ledger), "it lists the ranges that are lost");

    let mut beyond = by_twinlog("", group_subject());
    beyond.bounds.insert(mirror(), (0, 990));
    assert_eq!(verdict(&beyond), Some(error(LinkName::ConsumerOffsets, Code::NegativeLag)));
}

#[test]
fn an_older_checkpoint_tells_a_rewound_source_from_a_target_that_read_on() {
    let ahead = |earlier: &[(i64, i64)]| {
        let mut facts = by_twinlog("", group_subject());
        read_of(&mut facts).source_commits = Ok(vec![commit(0)]);
        let place = position(&mut facts);
        place.source_offset = Some(0);
        place.target_offset = Some(0);
        place.standing = Standing::found(State::Waiting, Code::TargetAhead, "1000, not 0");
        put_checkpoint(&mut facts, (0, 0), earlier);
        facts
    };
    let read_on = ahead(&[(500, 500)]);
    assert_eq!(verdict(&read_on), Some(warning(LinkName::ConsumerOffsets, Code::TargetAhead)));
    assert_eq!(judged(&read_on).outcome(), Outcome::Well);
    let mut not_followed = ahead(&[]);
    put_checkpoint(&mut not_followed, (1_000, 1_000), &[]);
    let rewound = Some(error(LinkName::ConsumerOffsets, Code::SourceRewound));
    assert_eq!(verdict(&not_followed), rewound);
    let rewound = ahead(&[(500, 500), (1_000, 1_000)]);
    assert_eq!(verdict(&rewound), Some(error(LinkName::ConsumerOffsets, Code::SourceRewound)));
    let chain = judged(&rewound);
    let link = chain.first_broken().expect("broken");
    let consequence = link.consequence.as_deref().unwrap_or_default();
    assert!(consequence.ends_with("a failover now skips 1000 records"), "{consequence}");
    assert_eq!(
        link.fix,
        [Fix::Command(
            "twinlog sync mm2.properties --flow 'hello->world' --group orders-app --overwrite"
                .into()
        )]
    );
}

/// A line of a file ends at a line feed, and a list at its commas.
#[test]
fn a_line_that_takes_in_a_strange_group_is_one_line_and_takes_it_in() {
    for name in ["a\nb", "a,b", "\u{202e}a.b", "it's $(x)"] {
        let line = format!("groups = x,{}", super::super::group::added(None, name));
        assert!(!line.contains(twinlog_types::is_obeyed), "{line:?}");
        let config = config(&line).flows()[0].clone();
        assert!(config.groups.matches(name), "{line:?}");
    }
}
