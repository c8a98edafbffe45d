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
    assert_eq!(judge(None, Some("nope")), ["nope: unknown: no topic nope is on hello"]);
    let mut dead = behind();
    dead.own = Standing::found(State::Stopped, Code::MirrorNotRunning, "silent");
    let both = open_of(&goals(None, Some("nope")).judge(&[dead]));
    assert_eq!(both.last().map(String::as_str), Some("nope: unknown: no topic nope is on hello"));
}

#[test]
fn of_several_flows_those_count_that_mirror_what_is_waited_for() {
    let here = flow(vec![topic("orders", partition(10, 10, Standing::in_sync()))], Vec::new());
    let mut back = flow(Vec::new(), Vec::new());
    back.flow = FlowName::new("world", "hello");
    back.own = Standing::found(State::Stopped, Code::MirrorNotRunning, "silent");
    assert!(goals(None, Some("orders")).judge(&[here.clone(), back.clone()]).holds());
    assert!(!goals(None, None).judge(&[here, back]).holds());
}
