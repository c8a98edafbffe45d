use twinlog_client::GroupKind;
use twinlog_engine::observe::GroupPosition;
use twinlog_flow::Standing;
use twinlog_types::FlowName;

use super::*;

fn partition(partition: i32, standing: Standing) -> PartitionObservation {
    PartitionObservation {
        partition,
        source_start: Some(250),
        source_end: Some(300),
        copied_to: Some(100),
        target_end: Some(100),
        lag_records: Some(200),
        lag_ms: Some(0),
        standing,
        gaps: Vec::new(),
        is_denied: false,
    }
}

fn position(committed: i64, standing: Standing) -> GroupPosition {
    GroupPosition {
        topic: "t".into(),
        target_topic: "hello.t".into(),
        partition: 0,
        source_offset: Some(150),
        target_offset: Some(50),
        committed_target: Some(committed),
        translation: "exact",
        standing,
    }
}

fn flow(
    name: &str,
    partitions: Vec<PartitionObservation>,
    positions: Vec<GroupPosition>,
) -> FlowObservation {
    let mut flow = FlowObservation::new(FlowName::new(name, "world"));
    flow.own = Standing::in_sync();
    flow.topics.push(TopicObservation {
        topic: "t".into(),
        target_topic: "hello.t".into(),
        standing: Standing::in_sync(),
        partitions,
    });
    flow.groups.push(GroupObservation {
        group: "app".into(),
        kind: GroupKind::Classic,
        standing: Standing::in_sync(),
        since_ms: 0,
        partitions: positions,
    });
    flow
}

fn gap() -> Standing {
    Standing::found(State::Stopped, Code::SourceGap, "gone")
}

fn resume_of(accept_gap: bool) -> Ask {
    Ask::Resume { topic: "t".into(), partition: None, accept_gap }
}

#[test]
fn a_gap_is_accepted_as_it_was_seen_and_what_it_costs_is_said() {
    let in_sync = partition(1, Standing::in_sync());
    let found = flow("hello", vec![partition(0, gap()), in_sync], vec![position(50, gap())]);
    let plan = of(&found, &resume_of(true)).unwrap();
    let Decided::Resume { accepted } = &plan.decided else { panic!("{plan:?}") };
    let seen: Vec<_> = accepted.iter().map(|one| (one.partition, one.copied_to.0)).collect();
    assert_eq!(seen, [(0, 100)]);
    let text = plan.text("hello->world");
    assert!(text.contains("t-0: offsets 100 to 249 (150) are given up"), "{text}");
    assert!(text.contains("t-1: is neither paused nor stopped"), "{text}");
    assert!(text.contains("group app stands at 150 on the source: 100 offsets"), "{text}");
}

#[test]
fn a_stop_is_not_resumed_without_the_word_for_it() {
    let found = flow("hello", vec![partition(0, gap())], Vec::new());
    let failure = of(&found, &resume_of(false)).unwrap_err();
    assert_eq!(failure.exit, WRONG);
    assert!(failure.next.contains("--accept-gap"), "{}", failure.next);
    let other = Standing::found(State::Stopped, Code::SourceTruncated, "gone");
    let found = flow("hello", vec![partition(0, other)], Vec::new());
    let failure = of(&found, &resume_of(true)).unwrap_err();
    assert!(failure.message.contains("source-truncated"), "{}", failure.message);
}

#[test]
fn pausing_twice_changes_nothing() {
    let pause = Ask::Pause { topic: "t".into(), partition: None };
    let found = flow("hello", vec![partition(0, Standing::in_sync())], Vec::new());
    assert!(!of(&found, &pause).unwrap().is_empty());
    let paused = Standing::found(State::Paused, Code::Paused, "paused");
    let found = flow("hello", vec![partition(0, paused)], Vec::new());
    assert!(of(&found, &pause).unwrap().is_empty());
    let plan = of(&found, &resume_of(false)).unwrap();
    assert!(!plan.is_empty());
    let none = Ask::Pause { topic: "t".into(), partition: Some(7) };
    assert_eq!(of(&found, &none).unwrap_err().exit, WRONG);
}

#[test]
fn a_position_goes_back_only_where_it_is_said_and_as_it_stood() {
    let ahead = Standing::found(State::Waiting, Code::TargetAhead, "ahead");
    let found = flow("hello", Vec::new(), vec![position(90, ahead)]);
    let sync = |overwrite| Ask::Sync { group: "app".into(), overwrite };
    let kept = of(&found, &sync(false)).unwrap();
    assert!(kept.is_empty());
    assert!(kept.text("f").contains("stays at 90, ahead of its place 50"));
    let back = of(&found, &sync(true)).unwrap();
    assert!(back.text("f").contains("moved back from 90 to 50 (40 offsets are read again)"));
    let Decided::Sync { overwrite } = &back.decided else { panic!("{back:?}") };
    assert_eq!(overwrite[0].stands, TargetOffset(90));
    let behind = flow("hello", Vec::new(), vec![position(40, Standing::in_sync())]);
    let forward = of(&behind, &sync(true)).unwrap();
    assert!(!forward.is_empty());
    assert_eq!(forward.decided, Decided::Sync { overwrite: Vec::new() });
}

#[test]
fn of_several_flows_one_must_be_named_and_unknown_names_are_told() {
    let pause = |topic: &str| Ask::Pause { topic: topic.to_owned(), partition: None };
    let one = flow("hello", Vec::new(), Vec::new());
    let two = flow("other", Vec::new(), Vec::new());
    assert_eq!(concerned(std::slice::from_ref(&one), &pause("t")).unwrap(), 0);
    let failure = concerned(&[one.clone(), two], &pause("t")).unwrap_err();
    assert!(failure.next.contains("--flow 'hello->world'"), "{}", failure.next);
    let unknown = concerned(&[one], &pause("nothing")).unwrap_err();
    assert_eq!((unknown.exit, unknown.code.as_str()), (WRONG, "topic-not-mirrored"));
}
