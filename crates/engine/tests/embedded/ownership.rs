//! Two processes on one flow.

use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_batch::{Codec, encode, heads};
use twinlog_client::ErrorCode;
use twinlog_embedded::{Action, Fault};
use twinlog_engine::{Engine, FlowStanding, state_topic_name};
use twinlog_protocol::ApiKey;
use twinlog_types::{ClusterAlias, Code, Cut, Sequence, State};

use crate::support::{World, numbered, until};

fn standing(engine: &Engine) -> FlowStanding {
    engine.report().flows.values().next().map(|flow| flow.standing.clone()).unwrap_or_default()
}

fn stands_by(engine: &Engine) -> bool {
    let standing = standing(engine);
    standing.code == Some(Code::OwnedElsewhere) && standing.state == State::Waiting
}

async fn until_standing_by(engine: &Engine) {
    until("the older one stands by", || {
        (!stands_by(engine)).then(|| format!("{:?}", standing(engine)))
    })
    .await;
}

fn state_topic() -> String {
    state_topic_name(&ClusterAlias::from("hello")).to_string()
}

/// Only a takeover, and a process that begins, ask for producer ids.
fn somebody_took_over(world: &World) -> bool {
    world.target.requests().iter().any(|one| one.api == ApiKey::InitProducerId)
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
/// the state, just after it has read a lease.
async fn the_owner_stays_when(seed: u64, action: Action) {
    let world = World::new(seed, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    let standing_by = world.start();
    world.until_equal(&BTreeMap::from([("orders".to_owned(), 1)])).await;
    let owner = world.start();
    until_standing_by(&standing_by).await;
    let state = state_topic();
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
    assert!(!somebody_took_over(&world), "taken over from a live owner");
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

#[tokio::test(start_paused = true)]
async fn questions_that_take_long_are_no_silence_of_the_owner() {
    let world = World::new(24, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    let topics = BTreeMap::from([("orders".to_owned(), 1)]);
    let standing_by = world.start();
    world.until_equal(&topics).await;
    let owner = world.start();
    until_standing_by(&standing_by).await;
    world.until_equal(&topics).await;
    // A target on which everything is slow: each question takes some seconds, and one renewal of the
    // lease takes longer than it lasts.
    let slow = Fault::new(Action::Delay(Duration::from_millis(1_500)));
    world.target.fault(slow.api(ApiKey::ListOffsets).topic(&state_topic()).always());
    let late = Fault::new(Action::DelayBefore(Duration::from_secs(18)));
    world.target.fault(late.api(ApiKey::Produce).partition(&state_topic(), 0));
    world.target.clear_requests();
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    let began = tokio::time::Instant::now();
    until("the slowness has passed", || {
        (began.elapsed() < Duration::from_secs(25)).then(String::new)
    })
    .await;
    assert_eq!(world.target.pending_faults(), 1, "no renewal was late");
    assert!(!somebody_took_over(&world), "taken over from a live owner");
    world.target.clear_faults();
    world.until_equal(&topics).await;
    owner.shutdown().await;
    standing_by.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_failed_half_way_takes_nothing_from_who_came_later() {
    let world = World::new(25, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    // The first one has said that it owns the flow, and cannot read the state.
    let refused = Fault::new(Action::Answer(ErrorCode::TOPIC_AUTHORIZATION_FAILED.0));
    world.target.fault(refused.api(ApiKey::ListOffsets).topic(&state_topic()).always());
    let first = world.start();
    let starts = || world.target.requests().iter().filter(|one| one.api == ApiKey::EndTxn).count();
    until("the first one has tried several times", || (starts() < 8).then(String::new)).await;
    assert_eq!(standing(&first).code, Some(Code::MissingPermission));
    world.target.clear_faults();
    let second = world.start();
    until_standing_by(&first).await;
    let began = tokio::time::Instant::now();
    until("they go on for a while", || {
        assert!(!stands_by(&second), "the first one has taken the flow back");
        (began.elapsed() < Duration::from_secs(30)).then(String::new)
    })
    .await;
    world.until_equal(&BTreeMap::from([("orders".to_owned(), 1)])).await;
    second.shutdown().await;
    first.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_whose_mirror_the_one_before_goes_on_keeps_the_flow_and_copies_on() {
    let world = World::new(26, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    let topics = BTreeMap::from([("orders".to_owned(), 1)]);
    world.source.append("orders", 0, &numbered(0, 50)).unwrap();
    let owner = world.start();
    world.until_equal(&topics).await;
    // The owner hears of ten more records late. Who owned the flow before, and was stopped for a while,
    // has sent five of them meanwhile: the very records that come next, cut otherwise.
    world.source.fault(Fault::new(Action::Delay(Duration::from_secs(1))).api(ApiKey::Fetch));
    world.source.append("orders", 0, &numbered(50, 60)).unwrap();
    let last = world.target.batches("hello.orders", 0).pop().unwrap();
    let head = heads(&last).next().unwrap().unwrap();
    let cut = Cut {
        producer_id: head.producer_id,
        producer_epoch: head.producer_epoch,
        base_sequence: Sequence::of_count(50),
        count: 5,
    };
    let records: Vec<_> = world.source_records("orders", 0)[50..55].iter().map(copy_of).collect();
    let late = encode(&records, Codec::None, cut).to_bytes();
    assert_eq!(world.target.append_batch("hello.orders", 0, &late), Ok(50));
    world.target.clear_requests();
    let began = tokio::time::Instant::now();
    until("the rest is copied", || {
        assert!(!stands_by(&owner), "given up to nobody");
        world.difference("orders", 0)
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(4), "after {:?}", began.elapsed());
    assert!(!somebody_took_over(&world));
    owner.shutdown().await;
}

fn copy_of(record: &twinlog_embedded::Record) -> twinlog_batch::Record {
    twinlog_batch::Record {
        offset: record.offset,
        timestamp: record.timestamp,
        key: record.key.clone(),
        value: record.value.clone(),
        headers: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_renew_its_lease_says_so_and_sends_nothing_until_it_can() {
    let world = World::new(27, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    let topics = BTreeMap::from([("orders".to_owned(), 1)]);
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    let owner = world.start();
    world.until_equal(&topics).await;
    let refused = Fault::new(Action::Answer(ErrorCode::NOT_ENOUGH_REPLICAS.0));
    world.target.fault(refused.api(ApiKey::Produce).partition(&state_topic(), 0).always());
    // A moment without a renewal stops nothing.
    world.source.append("orders", 0, &numbered(10, 20)).unwrap();
    world.until_equal(&topics).await;
    until("the lease is over", || {
        let standing = standing(&owner);
        let reason = standing.reason.clone().unwrap_or_default();
        (standing.state != State::Waiting || !reason.contains("could not be renewed"))
            .then(|| format!("{standing:?}"))
    })
    .await;
    world.source.append("orders", 0, &numbered(20, 30)).unwrap();
    let began = tokio::time::Instant::now();
    until("a minute has passed", || (began.elapsed() < Duration::from_mins(1)).then(String::new))
        .await;
    assert_eq!(world.target_records("orders", 0).len(), 20, "sent without a lease");
    world.target.clear_faults();
    world.until_equal(&topics).await;
    until("it says that it goes on", || {
        let standing = standing(&owner);
        (standing.state != State::InSync).then(|| format!("{standing:?}"))
    })
    .await;
    owner.shutdown().await;
}

/// How long it takes until the copy of records of this age goes on in a mirror whose producer the target
/// has forgotten, after a takeover from an owner that ended in order or was killed.
async fn goes_on_after(seed: u64, in_order: bool, age: Duration) -> Duration {
    let world = World::new(seed, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    let topics = BTreeMap::from([("orders".to_owned(), 1)]);
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    let first = world.start();
    world.until_equal(&topics).await;
    if in_order {
        first.shutdown().await;
    } else {
        drop(first);
    }
    world.target.expire_producers("hello.orders", 0);
    let at = world.source.now_ms() - age.as_millis() as i64;
    let records: Vec<_> = numbered(10, 20).into_iter().map(|record| record.at(at)).collect();
    world.source.append("orders", 0, &records).unwrap();
    let began = tokio::time::Instant::now();
    let second = world.start();
    world.until_equal(&topics).await;
    let took = began.elapsed();
    second.shutdown().await;
    took
}

#[tokio::test(start_paused = true)]
async fn where_nothing_would_refuse_late_packets_of_the_owner_before_they_are_waited_for() {
    // Its lease, and then the time that a packet may be late.
    let history = Duration::from_hours(72);
    let took = goes_on_after(28, false, history).await;
    assert!((19..25).contains(&took.as_secs()), "{took:?}");
    // What is young is remembered from its first batch on, and refused when it comes again.
    let took = goes_on_after(28, false, Duration::ZERO).await;
    assert!(took < Duration::from_secs(3), "{took:?} for records of today");
    let took = goes_on_after(28, true, history).await;
    assert!(took < Duration::from_secs(3), "{took:?} after an owner that gave the flow up");
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_is_away_is_no_silence_of_the_owner() {
    let world = World::new(29, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    let topics = BTreeMap::from([("orders".to_owned(), 1)]);
    let standing_by = world.start();
    world.until_equal(&topics).await;
    let owner = world.start();
    until_standing_by(&standing_by).await;
    world.until_equal(&topics).await;
    // As after the death of its broker: nobody can open, end or describe a transaction.
    let away = || Fault::new(Action::Answer(ErrorCode::COORDINATOR_NOT_AVAILABLE.0)).always();
    let apis = [ApiKey::AddPartitionsToTxn, ApiKey::EndTxn, ApiKey::DescribeTransactions];
    for api in apis {
        world.target.fault(away().api(api));
    }
    let began = tokio::time::Instant::now();
    until("the coordinator is back", || {
        (began.elapsed() < Duration::from_secs(14)).then(String::new)
    })
    .await;
    world.target.clear_requests();
    world.target.clear_faults();
    let began = tokio::time::Instant::now();
    until("they go on for a while", || {
        assert!(!stands_by(&owner), "taken over from a live owner");
        (began.elapsed() < Duration::from_secs(20)).then(String::new)
    })
    .await;
    assert!(!somebody_took_over(&world), "taken over from a live owner");
    owner.shutdown().await;
    standing_by.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_whose_producer_a_leader_refuses_stops_that_partition_and_says_so() {
    let world = World::new(40, 1);
    world.source.create_topic("orders", 2, &[]).unwrap();
    let engine = world.start();
    let topics = BTreeMap::from([("orders".to_owned(), 2)]);
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    world.until_equal(&topics).await;
    // As where a marker of somebody raised the epoch.
    let refused = Fault::new(Action::Answer(ErrorCode::INVALID_PRODUCER_EPOCH.0))
        .api(ApiKey::Produce)
        .partition("hello.orders", 0)
        .always();
    world.target.fault(refused);
    world.source.append("orders", 0, &numbered(10, 20)).unwrap();
    let stopped = || {
        let flow = engine.report().flows.into_values().next()?;
        flow.stopped.into_values().next()
    };
    until("it stops", || stopped().is_none().then(String::new)).await;
    let stop = stopped().unwrap();
    assert_eq!((stop.code, stop.passing), (Code::Stalled, true));
    assert!(stop.reason.contains("INVALID_PRODUCER_EPOCH"), "{}", stop.reason);
    assert!(stop.reason.contains("this process owns the flow"), "{}", stop.reason);
    world.target.clear_requests();
    world.source.append("orders", 1, &numbered(0, 10)).unwrap();
    until("the other goes on", || world.difference("orders", 1)).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let named = world.target.requests();
    let sent = named.iter().filter(|one| one.api == ApiKey::OffsetForLeaderEpoch).count();
    assert!(sent < 10, "looked at {sent} times in 20 s");
    assert!(!stands_by(&engine));
    world.target.clear_faults();
    world.until_equal(&topics).await;
    engine.shutdown().await;
}
