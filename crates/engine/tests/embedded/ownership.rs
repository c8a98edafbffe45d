//! Two processes on one flow.

use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_client::ErrorCode;
use twinlog_embedded::{Action, Fault, NewRecord};
use twinlog_engine::{Engine, state_topic_name};
use twinlog_protocol::ApiKey;
use twinlog_types::{ClusterAlias, Code, State};

use crate::support::{World, until};

fn numbered(from: usize, to: usize) -> Vec<NewRecord> {
    (from..to).map(|n| NewRecord::new(format!("k{n}"), format!("v{n}"))).collect()
}

async fn until_standing_by(engine: &Engine) {
    until("the older one stands by", || {
        let report = engine.report();
        let standing = &report.flows.values().next()?.standing;
        (standing.code != Some(Code::OwnedElsewhere) || standing.state != State::Waiting)
            .then(|| format!("{standing:?}"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_newer_owner_copies_and_the_older_stands_by_and_takes_over_again() {
    let world = World::new(21, 1);
    world.source.create_topic("orders", 2, &[]).unwrap();
    let topics = BTreeMap::from([("orders".to_owned(), 2)]);
    world.source.append("orders", 0, &numbered(0, 50)).unwrap();
    let first = world.start();
    world.until_equal(&topics).await;
    let second = world.start();
    world.source.append("orders", 1, &numbered(0, 50)).unwrap();
    until_standing_by(&first).await;
    world.until_equal(&topics).await;
    drop(second);
    world.source.append("orders", 0, &numbered(50, 90)).unwrap();
    world.until_equal(&topics).await;
    first.shutdown().await;
}

/// Somebody stands by while the owner lives, and this happens to its next question for the end of
/// the state, just after it has read a lease. Only a takeover asks for producer ids then.
async fn the_owner_stays_when(seed: u64, action: Action) {
    let world = World::new(seed, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    let standing_by = world.start();
    world.until_equal(&BTreeMap::from([("orders".to_owned(), 1)])).await;
    let owner = world.start();
    until_standing_by(&standing_by).await;
    let state = state_topic_name(&ClusterAlias::from("hello")).to_string();
    let asked = |api| {
        let of_state = |name: &String| *name == state;
        world.target.requests().iter().any(|one| {
            one.api == api && one.partitions.iter().map(|(topic, _)| topic).any(of_state)
        })
    };
    world.target.clear_requests();
    until("a lease is read", || (!asked(ApiKey::Fetch)).then(String::new)).await;
    // Each reading asks for the log's start and then for its end.
    world.target.fault(Fault::new(action).api(ApiKey::ListOffsets).topic(&state).skip(1));
    until("it happens", || (world.target.pending_faults() > 0).then(String::new)).await;
    world.target.clear_requests();
    until("the state is read again", || (!asked(ApiKey::ListOffsets)).then(String::new)).await;
    let opened = world.target.requests().into_iter().find(|one| one.api == ApiKey::InitProducerId);
    assert_eq!(opened, None, "taken over from a live owner");
    owner.shutdown().await;
    standing_by.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_waited_longer_than_a_lease_lasts_is_no_silence_of_the_owner() {
    the_owner_stays_when(22, Action::Delay(Duration::from_secs(12))).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_read_is_no_silence_of_the_owner() {
    let refused = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
    the_owner_stays_when(23, Action::Answer(refused)).await;
}
