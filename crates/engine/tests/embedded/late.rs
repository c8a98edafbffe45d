//! Packets that arrive long after their sender gave them up, where leaders forget producers.

use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_embedded::{Action, Fault, NewRecord};
use twinlog_protocol::ApiKey;

use crate::support::{World, until};

const DAYS_MS: i64 = 3 * 86_400_000;

/// A target that checks every second whether its producers are too old.
fn forgetful(seed: u64) -> World {
    let world = World::with(seed, 1, |_, target| {
        target.producer_expiration_check = Duration::from_secs(1);
    });
    world.source.create_topic("orders", 1, &[]).unwrap();
    world
}

fn orders() -> BTreeMap<String, i32> {
    BTreeMap::from([("orders".to_owned(), 1)])
}

fn write(world: &World, from: usize, to: usize, age_ms: i64) {
    let at = world.source.now_ms() - age_ms;
    let record = |n| NewRecord::new(format!("k{n}"), format!("v{n}")).at(at);
    world.source.append("orders", 0, &(from..to).map(record).collect::<Vec<_>>()).unwrap();
}

/// The next batch for the mirror comes to the leader so much later.
fn delay(world: &World, time: Duration) {
    let late = Fault::new(Action::DelayBefore(time)).api(ApiKey::Produce);
    world.target.fault(late.partition("hello.orders", 0));
}

/// Waits until the delayed batch was sent.
async fn until_sent(world: &World) {
    until("it is sent", || (world.target.pending_faults() > 0).then(String::new)).await;
}

/// Waits until everything is copied, and then for whatever is late.
async fn stands_once(world: &World) {
    world.until_equal(&orders()).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.difference("orders", 0), None, "a late packet was stored again");
}

/// The last batch before is of today, so that the leader knows the producer when it is looked at.
#[tokio::test(start_paused = true)]
async fn history_that_a_dead_owner_has_on_its_way_is_not_sent_before_it_had_the_time_to_come() {
    let world = forgetful(61);
    write(&world, 0, 10, 0);
    let first = world.start();
    world.until_equal(&orders()).await;
    delay(&world, Duration::from_secs(4));
    write(&world, 10, 20, DAYS_MS);
    until_sent(&world).await;
    drop(first);
    let second = world.start();
    stands_once(&world).await;
    second.shutdown().await;
}

/// A request is given up after thirty seconds.
#[tokio::test(start_paused = true)]
async fn history_of_a_lost_connection_is_not_sent_again_before_it_had_the_time_to_come() {
    let world = forgetful(62);
    write(&world, 0, 10, 0);
    let engine = world.start();
    world.until_equal(&orders()).await;
    delay(&world, Duration::from_secs(35));
    write(&world, 10, 20, DAYS_MS);
    until_sent(&world).await;
    stands_once(&world).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_young_goes_on_at_once_after_a_lost_connection() {
    let world = forgetful(63);
    write(&world, 0, 10, 0);
    let engine = world.start();
    world.until_equal(&orders()).await;
    world.target.fault(Fault::new(Action::CloseBefore).api(ApiKey::Produce).topic("hello.orders"));
    write(&world, 10, 20, 0);
    let began = tokio::time::Instant::now();
    world.until_equal(&orders()).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(world.target.pending_faults(), 0, "no connection was lost");
    engine.shutdown().await;
}

/// Whoever ends in order while a packet may be late does not say that nothing is on its way.
#[tokio::test(start_paused = true)]
async fn an_owner_in_between_does_not_hide_what_the_one_before_has_on_its_way() {
    let world = forgetful(64);
    write(&world, 0, 10, 0);
    let first = world.start();
    world.until_equal(&orders()).await;
    delay(&world, Duration::from_secs(8));
    write(&world, 10, 20, DAYS_MS);
    until_sent(&world).await;
    drop(first);
    let second = world.start();
    tokio::time::sleep(Duration::from_secs(2)).await;
    second.shutdown().await;
    let third = world.start();
    stands_once(&world).await;
    third.shutdown().await;
}

/// The owner is killed before it has stored how far it came; then the target is compacted.
#[tokio::test(start_paused = true)]
async fn what_the_cleaner_of_the_target_took_before_a_restart_stops_nothing() {
    let world = World::new(65, 1);
    let compacted = [("cleanup.policy", "compact")];
    world.source.create_topic("orders", 1, &compacted).unwrap();
    for _ in 0..3 {
        write(&world, 0, 5, 0);
    }
    let first = world.start();
    world.until_equal(&orders()).await;
    drop(first);
    world.target.compact("hello.orders", 0).unwrap();
    let left = world.target_records("orders", 0);
    assert_eq!(left.first().map(|record| record.offset), Some(10), "nothing was compacted");
    let second = world.start();
    write(&world, 5, 10, 0);
    until("what is new is copied", || {
        let copied = world.target_records("orders", 0);
        (copied.len() != 10).then(|| format!("{:?}", second.report().flows))
    })
    .await;
    let last = world.target_records("orders", 0).pop().unwrap();
    assert_eq!((last.offset, last.value.as_deref()), (19, Some("v9".as_bytes())));
    second.shutdown().await;
}

/// Ten records are copied, five more are on their way from an owner that was killed, and the next owner's
/// first batch would come behind them: it has their sequences, and the leader would take it for them.
async fn five_on_their_way(
    seed: u64,
    configs: &[(&str, &str)],
    lines: &str,
    late: Duration,
) -> World {
    let world = World::new(seed, 1);
    world.source.create_topic("orders", 1, configs).unwrap();
    write(&world, 0, 10, 0);
    let first = world.start_with(lines);
    world.until_equal(&orders()).await;
    delay(&world, late);
    write(&world, 10, 15, 0);
    until_sent(&world).await;
    drop(first);
    delay(&world, Duration::from_secs(8));
    world
}

/// Keys of the five are written again, and the source is compacted.
fn compact(world: &World) {
    let again = |n: usize| NewRecord::new(format!("k{}", n - 5), format!("v{n}"));
    world.source.append("orders", 0, &(15..20).map(again).collect::<Vec<_>>()).unwrap();
    world.source.compact("orders", 0).unwrap();
    let left: Vec<i64> = world.source_records("orders", 0).iter().map(|one| one.offset).collect();
    assert!(!left.contains(&10) && left.contains(&15), "{left:?}");
}

const COMPACTED: &[(&str, &str)] = &[("cleanup.policy", "compact")];

fn values(world: &World) -> Vec<String> {
    let value = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let records = world.target_records("orders", 0);
    records.iter().filter_map(|record| record.value.as_deref().map(value)).collect()
}

fn expected() -> Vec<String> {
    (0..20).map(|n| format!("v{n}")).collect()
}

async fn until_all(world: &World) {
    until("all are copied", || {
        let values = values(world);
        (values != expected()).then(|| format!("{values:?}"))
    })
    .await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(values(world), expected());
}

#[tokio::test(start_paused = true)]
async fn what_the_cleaner_of_the_source_took_is_not_mixed_up_with_what_a_dead_owner_sent() {
    let world = five_on_their_way(66, COMPACTED, "", Duration::from_secs(4)).await;
    compact(&world);
    let second = world.start();
    until_all(&world).await;
    second.shutdown().await;
}

/// What holds a packet back holds up the look as well: the time counts from a look that succeeded.
#[tokio::test(start_paused = true)]
async fn a_dead_owners_packets_are_waited_for_behind_the_first_look_that_succeeds() {
    let world = five_on_their_way(68, COMPACTED, "", Duration::from_secs(18)).await;
    compact(&world);
    let mute = Fault::new(Action::CloseBefore).api(ApiKey::DescribeProducers).always();
    let mute = world.target.fault(mute);
    let second = world.start();
    tokio::time::sleep(Duration::from_secs(12)).await;
    world.target.remove_fault(mute);
    until_all(&world).await;
    second.shutdown().await;
}

/// The topic is compacted no more, but was a moment ago.
#[tokio::test(start_paused = true)]
async fn what_the_cleaner_took_before_the_policy_changed_counts_too() {
    let world = five_on_their_way(69, COMPACTED, "", Duration::from_secs(4)).await;
    compact(&world);
    world.source.alter_config("orders", "cleanup.policy", Some("delete")).unwrap();
    let second = world.start();
    until_all(&world).await;
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_owner_sent_is_not_given_up_as_a_gap_of_the_source() {
    let lines = "twinlog.on.source-gap = continue";
    let world = five_on_their_way(67, &[], lines, Duration::from_secs(4)).await;
    world.source.delete_records("orders", 0, 13).unwrap();
    write(&world, 15, 20, 0);
    let second = world.start_with(lines);
    until_all(&world).await;
    let gaps = crate::losses::look(&world, lines).await;
    let gaps = &crate::losses::partition(&gaps, "orders", 0).gaps;
    assert!(gaps.is_empty(), "{gaps:?}");
    second.shutdown().await;
}
