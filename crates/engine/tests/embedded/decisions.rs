//! Operators' decisions, with and without somebody who runs the flow.

use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_offsets::state::{Decided, Made, Overwrite, Subject};
use twinlog_types::{Code, State, TargetOffset};

use crate::losses::{look, partition, position};
use crate::support::{World, numbered, until};

async fn decide(world: &World, at_ms: i64, subject: Subject, what: Decided) {
    let observer = world.observer("");
    let pair = observer.pair().await.unwrap().unwrap();
    let made = Made { by: "me".into(), at_ms, what };
    observer.decide(&pair, &[(subject, made)]).await.unwrap();
}

/// Whether the decision was carried out, once it is answered, and the words.
async fn answer(world: &World, at_ms: i64, subject: &Subject) -> (bool, String) {
    let observer = world.observer("");
    let pair = observer.pair().await.unwrap().unwrap();
    loop {
        let answers = observer.answers(&pair).await.unwrap();
        if let Some(answer) = answers.get(subject).filter(|answer| answer.of_ms == at_ms) {
            return (answer.done, answer.text.clone());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_topic_rests_over_restarts_until_it_is_resumed_and_others_go_on() {
    let world = World::new(201, 1);
    for topic in ["orders", "other"] {
        world.source.create_topic(topic, 2, &[]).unwrap();
    }
    let both = BTreeMap::from([("orders".to_owned(), 2), ("other".to_owned(), 2)]);
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    let engine = world.start();
    world.until_equal(&both).await;
    let subject = Subject::Topic("orders".into(), None);
    decide(&world, 1, subject.clone(), Decided::Pause).await;
    let (done, text) = answer(&world, 1, &subject).await;
    assert!(done && text == "2 partitions paused", "{text}");
    world.source.append("orders", 0, &numbered(10, 20)).unwrap();
    world.source.append("other", 0, &numbered(0, 20)).unwrap();
    until("the other goes on", || world.difference("other", 0)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.target_records("orders", 0).len(), 10);
    let found = look(&world, "").await;
    let standing = &partition(&found, "orders", 0).standing;
    assert_eq!((standing.state, standing.code), (State::Paused, Some(Code::Paused)));
    let reason = standing.reason.clone().unwrap();
    assert!(reason.contains("paused by me; 10 offsets"), "{reason}");
    engine.shutdown().await;

    let engine = world.start();
    world.source.append("other", 0, &numbered(20, 30)).unwrap();
    until("the other goes on", || world.difference("other", 0)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.target_records("orders", 0).len(), 10, "the pause outlives the process");
    // One partition alone, then all.
    let one = Subject::Topic("orders".into(), Some(1));
    let resume = || Decided::Resume { accepted: Vec::new() };
    decide(&world, 2, one.clone(), resume()).await;
    answer(&world, 2, &one).await;
    world.source.append("orders", 1, &numbered(0, 5)).unwrap();
    until("partition 1 goes on", || world.difference("orders", 1)).await;
    assert_eq!(world.target_records("orders", 0).len(), 10);
    decide(&world, 3, subject.clone(), resume()).await;
    world.until_equal(&both).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_is_made_while_nothing_runs_holds_from_the_next_start_on() {
    let world = World::new(202, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    let subject = Subject::Topic("orders".into(), None);
    decide(&world, 1, subject.clone(), Decided::Pause).await;
    let engine = world.start();
    let (done, _) = answer(&world, 1, &subject).await;
    assert!(done);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.target_records("orders", 0).len(), 0, "nothing is copied before it is read");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_takes_a_group_back_where_it_was_seen_and_nowhere_else() {
    let world = World::new(203, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    world.source.append("orders", 0, &numbered(0, 100)).unwrap();
    world.source.commit_offset("app", "orders", 0, 50).unwrap();
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("orders".to_owned(), 1)])).await;
    let stands = |at: i64| {
        let now = world.committed_on_target("app", "orders", 0);
        (now != Some(at)).then(|| format!("{now:?}"))
    };
    until("it is there", || stands(50)).await;
    world.target.commit_offset("app", "hello.orders", 0, 90).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(stands(90), None, "it is left alone");
    let found = look(&world, "").await;
    let ahead = &position(&found, "app").standing;
    assert_eq!(ahead.code, Some(Code::TargetAhead));
    let reason = ahead.reason.clone().unwrap();
    assert!(reason.contains("twinlog sync FILE --group 'app' --overwrite"), "{reason}");
    let subject = Subject::Group("app".into());
    let sync = |stands| Decided::Sync {
        overwrite: vec![Overwrite {
            topic: "orders".into(),
            partition: 0,
            stands: TargetOffset(stands),
        }],
    };
    // It has moved since it was seen.
    decide(&world, 1, subject.clone(), sync(80)).await;
    let (done, text) = answer(&world, 1, &subject).await;
    assert!(!done && text.contains("stands at 90"), "{text}");
    assert_eq!(stands(90), None);
    decide(&world, 2, subject.clone(), sync(90)).await;
    let (done, text) = answer(&world, 2, &subject).await;
    assert!(done && text.contains("committed at 50"), "{text}");
    assert_eq!(stands(50), None);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_moved_back_on_the_source_is_followed_over_a_restart() {
    let world = World::new(204, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    world.source.append("orders", 0, &numbered(0, 100)).unwrap();
    world.source.commit_offset("app", "orders", 0, 80).unwrap();
    let engine = world.start();
    let stands = |at: i64| {
        let now = world.committed_on_target("app", "orders", 0);
        (now != Some(at)).then(|| format!("{now:?}"))
    };
    until("it is there", || stands(80)).await;
    engine.shutdown().await;
    world.source.commit_offset("app", "orders", 0, 30).unwrap();
    let found = look(&world, "").await;
    assert_eq!(position(&found, "app").standing.code, Some(Code::SourceRewound));
    let engine = world.start();
    until("it is followed", || stands(30)).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_decision_about_a_topic_that_the_owners_file_leaves_out_says_that_nothing_matched() {
    let world = World::new(2_401, 1);
    for topic in ["orders", "other"] {
        world.source.create_topic(topic, 2, &[]).unwrap();
    }
    let engine = world.start_with("hello->world.topics = other\n");
    world.until_equal(&BTreeMap::from([("other".to_owned(), 2)])).await;
    let subject = Subject::Topic("orders".into(), None);
    for (at_ms, what) in [(1, Decided::Pause), (2, Decided::Resume { accepted: Vec::new() })] {
        decide(&world, at_ms, subject.clone(), what).await;
        let (done, text) = answer(&world, at_ms, &subject).await;
        assert!(!done && text.starts_with("nothing matched: engine-0 runs"), "{text}");
        assert!(text.contains("leaves orders out (topics = other; it mirrors"), "{text}");
        assert!(text.contains("other"), "{text}");
    }
    engine.shutdown().await;
}
