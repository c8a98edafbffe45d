use twinlog_client::GroupKind;
use twinlog_engine::observe::Missing;

use super::*;

fn partition(source_end: i64, copied_to: i64, standing: Standing) -> PartitionObservation {
    PartitionObservation {
        partition: 0,
        source_start: Some(0),
        source_end: Some(source_end),
        copied_to: Some(copied_to),
        target_end: Some(copied_to),
        lag_records: u64::try_from(source_end - copied_to).ok(),
        lag_ms: Some(0),
        standing,
        gaps: Vec::new(),
        is_denied: false,
    }
}

fn topic(name: &str, partition: PartitionObservation) -> TopicObservation {
    TopicObservation {
        topic: name.into(),
        target_topic: format!("hello.{name}").into(),
        standing: partition.standing.clone(),
        partitions: vec![partition],
    }
}

fn group(
    name: &str,
    on: &str,
    target: i64,
    committed: i64,
    standing: Standing,
) -> GroupObservation {
    GroupObservation {
        group: name.into(),
        kind: GroupKind::Classic,
        standing: standing.clone(),
        since_ms: 0,
        partitions: vec![GroupPosition {
            topic: on.into(),
            target_topic: format!("hello.{on}").into(),
            partition: 0,
            source_offset: Some(target),
            target_offset: Some(target),
            committed_target: Some(committed),
            translation: "exact",
            standing,
        }],
    }
}

fn flow(topics: Vec<TopicObservation>, groups: Vec<GroupObservation>) -> FlowObservation {
    let own = Standing::in_sync();
    FlowObservation { own, topics, groups, ..FlowObservation::new(FlowName::new("hello", "world")) }
}

fn copying() -> Standing {
    Standing::because(State::CatchingUp, "offsets are not copied yet")
}

fn excluded() -> Standing {
    Standing::found(State::Excluded, Code::GroupExcluded, "groups.exclude")
}

fn goals(group: Option<&str>, topic: Option<&str>) -> Goals {
    Goals::new(Wanted { group: group.map(str::to_owned), topic: topic.map(str::to_owned) })
}

fn open_of(verdict: &Verdict) -> Vec<String> {
    verdict.open.iter().map(ToString::to_string).collect()
}

#[test]
fn it_holds_when_all_is_in_sync() {
    let there = flow(
        vec![topic("orders", partition(10, 10, Standing::in_sync()))],
        vec![group("g", "orders", 5, 5, Standing::in_sync())],
    );
    let verdict = goals(None, None).judge(&[there]);
    assert!(verdict.holds());
    assert_eq!(verdict.checked, 3);
}

#[test]
fn it_holds_under_traffic_when_what_was_there_at_first_is_mirrored() {
    let mut goals = goals(None, None);
    let look = |end, copied, target, committed| {
        flow(
            vec![topic("orders", partition(end, copied, copying()))],
            vec![group("g", "orders", target, committed, copying())],
        )
    };
    let verdict = goals.judge(&[look(100, 40, 50, 20)]);
    assert_eq!(
        open_of(&verdict),
        [
            "orders-0: catching-up: offsets are not copied yet",
            "g on orders-0: catching-up: offsets are not copied yet"
        ]
    );
    // The source and its group went on meanwhile.
    assert_eq!(goals.judge(&[look(190, 99, 90, 50)]).open.len(), 1);
    assert!(goals.judge(&[look(230, 100, 95, 50)]).holds());
}

#[test]
fn a_finding_is_in_the_way_wherever_the_copy_is() {
    let mut goals = goals(None, Some("orders"));
    let stopped = Standing::found(State::Stopped, Code::SourceGap, "gone");
    goals.judge(&[flow(vec![topic("orders", partition(10, 5, copying()))], Vec::new())]);
    let look = flow(vec![topic("orders", partition(20, 15, stopped))], Vec::new());
    let verdict = goals.judge(&[look]);
    assert_eq!(open_of(&verdict), ["orders-0: stopped (source-gap): gone"]);
    let stalled = Standing::found(State::CatchingUp, Code::Stalled, "nothing was copied");
    let look = flow(vec![topic("orders", partition(20, 15, stalled))], Vec::new());
    assert!(!goals.judge(&[look]).holds());
}

#[test]
fn nothing_holds_that_nobody_runs_or_that_could_not_be_found_out() {
    let mut dead = flow(vec![topic("orders", partition(10, 10, Standing::in_sync()))], Vec::new());
    dead.own = Standing::found(State::Stopped, Code::MirrorNotRunning, "silent");
    let verdict = goals(None, None).judge(std::slice::from_ref(&dead));
    assert_eq!(open_of(&verdict), ["hello->world: stopped (mirror-not-running): silent"]);
    assert!(!verdict.never());
    let mut away = flow(Vec::new(), Vec::new());
    away.missing.push(Missing {
        cluster: "hello".into(),
        code: Some(Code::Unreachable),
        what: "hello is away".into(),
    });
    let verdict = goals(None, None).judge(&[away]);
    assert!(verdict.cut_off);
    assert_eq!(open_of(&verdict), ["hello->world: unknown (unreachable): hello is away"]);
}

#[test]
fn what_the_configuration_leaves_out_counts_only_when_it_is_waited_for() {
    let out = || {
        let mut look =
            flow(vec![topic("orders", partition(10, 10, Standing::in_sync()))], Vec::new());
        look.groups.push(GroupObservation {
            partitions: Vec::new(),
            ..group("g", "orders", 0, 0, excluded())
        });
        look.groups.push(group("unsynced", "orders", 0, 0, excluded()));
        look
    };
    assert!(goals(None, None).judge(&[out()]).holds());
    for name in ["g", "unsynced"] {
        let verdict = goals(Some(name), None).judge(&[out()]);
        assert!(verdict.never(), "{name}: {verdict:?}");
    }
}

#[test]
fn a_topic_alone_is_about_its_records_and_a_group_about_both() {
    let behind = || {
        flow(
            vec![
                topic("orders", partition(10, 10, Standing::in_sync())),
                topic("payments", partition(10, 5, copying())),
            ],
            vec![
                group("late", "orders", 9, 1, copying()),
                group("payer", "payments", 5, 5, Standing::in_sync()),
            ],
        )
    };
    let judge = |group, topic| open_of(&goals(group, topic).judge(&[behind()]));
    assert!(judge(None, Some("orders")).is_empty());
    assert!(judge(None, Some("hello.orders")).is_empty());
    assert_eq!(judge(None, Some("payments")).len(), 1);
    assert_eq!(
        judge(Some("late"), None),
        ["late on orders-0: catching-up: offsets are not copied yet"]
    );
    // Its place is right, but its backlog is not there.
    assert_eq!(judge(Some("payer"), None), ["payments-0: catching-up: offsets are not copied yet"]);
    assert_eq!(judge(Some("late"), Some("orders")).len(), 1);
    assert_eq!(
        judge(Some("late"), Some("payments")),
        ["late on payments: unknown: no group late with a commit on payments is on hello"]
    );
}

#[test]
fn an_unknown_name_is_not_waited_for_and_near_ones_are_named() {
    let here = || {
        let mut here = flow(
            vec![topic("orders", partition(10, 10, Standing::in_sync()))],
            vec![group("billing", "orders", 9, 9, Standing::in_sync())],
        );
        here.own = Standing::found(State::Stopped, Code::MirrorNotRunning, "silent");
        here
    };
    let mut back = flow(Vec::new(), Vec::new());
    back.flow = FlowName::new("world", "hello");
    let judge = |group, topic, flows: &[FlowObservation]| goals(group, topic).judge(flows);
    for (group, topic, said) in [
        (None, Some("nope"), "nope: unknown: no topic nope is on hello, or may be seen"),
        (
            Some("biling"),
            None,
            "biling: unknown: no group biling is on hello, or may be seen; did you mean billing?",
        ),
        (
            Some("billing"),
            Some("order"),
            "billing on order: unknown: no topic order is on hello, or may be seen; did you mean \
             orders?",
        ),
    ] {
        let verdict = judge(group, topic, &[here()]);
        assert_eq!(open_of(&verdict), [said]);
        assert!(verdict.nowhere && verdict.never() && !verdict.holds());
    }
    // Of several flows it is said once.
    let verdict = judge(Some("biling"), None, &[here(), back.clone()]);
    let said = "biling: unknown: no group biling is on hello or world, or may be seen; did you \
                mean billing?";
    assert_eq!(open_of(&verdict), [said]);
    // It may be where nobody answers.
    let what = "world is away".to_owned();
    back.missing.push(Missing { cluster: "world".into(), code: Some(Code::Unreachable), what });
    let verdict = judge(Some("biling"), None, &[here(), back]);
    assert!(!verdict.nowhere && !verdict.never() && !verdict.holds());
}

#[test]
fn a_topic_is_known_by_the_name_of_its_mirror() {
    let here = flow(vec![topic("orders", partition(10, 10, Standing::in_sync()))], Vec::new());
    for (name, own) in [("hello.orders", Some("orders")), ("orders", None)] {
        let verdict = goals(None, Some(name)).judge(std::slice::from_ref(&here));
        assert!(verdict.holds());
        assert_eq!(verdict.mirror_of.as_deref(), own, "{name}");
    }
}

#[test]
fn what_could_not_be_found_out_is_said_once() {
    let mut away = flow(Vec::new(), Vec::new());
    away.own = Standing::found(State::Unknown, Code::Unreachable, "hello is away");
    let code = Some(Code::Unreachable);
    let missing = Missing { cluster: "hello".into(), code, what: "hello is away".into() };
    away.missing = vec![missing.clone(), missing];
    let verdict = goals(None, None).judge(&[away]);
    assert_eq!(open_of(&verdict), ["hello->world: unknown (unreachable): hello is away"]);
}

#[test]
fn of_several_flows_those_count_that_mirror_what_is_waited_for() {
    let here = flow(vec![topic("orders", partition(10, 10, Standing::in_sync()))], Vec::new());
    let mut back = flow(Vec::new(), Vec::new());
    back.flow = FlowName::new("world", "hello");
    back.own = Standing::found(State::Stopped, Code::MirrorNotRunning, "silent");
    assert!(goals(None, Some("orders")).judge(&[here.clone(), back.clone()]).holds());
    assert!(!goals(None, None).judge(&[here.clone(), back.clone()]).holds());
    // A flow that leaves it out is the one that knows it.
    let mut out = here;
    out.groups
        .push(GroupObservation { partitions: Vec::new(), ..group("g", "x", 0, 0, excluded()) });
    let verdict = goals(Some("g"), None).judge(&[out, back]);
    assert_eq!(open_of(&verdict), ["g: excluded (group-excluded): groups.exclude"]);
}
