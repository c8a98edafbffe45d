use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use twinlog_client::{ClientError, Leader, Topics};
use twinlog_protocol::ApiKey;
use twinlog_types::{TopicName, TopicPartition};

use crate::broker::{Fake, ORDERS, Reply, metadata, metadata_with};

#[tokio::test(start_paused = true)]
async fn a_leader_epoch_never_steps_back_whoever_answers_last() {
    let epochs = [5, 4, 6];
    let mut asked = epochs.into_iter();
    let fake = Fake::new(move |call| metadata(call, &[(1, asked.next().unwrap_or(6))]));
    let cluster = fake.cluster();
    let orders = [TopicName::from("orders")];
    let mut seen = Vec::new();
    for _ in epochs {
        let topics = cluster.topics(Topics::Named(&orders)).await.unwrap();
        seen.push(topics[0].partitions[0].leader_epoch);
    }
    assert_eq!(seen, [5, 5, 6]);
    let leader = cluster.leader(&TopicPartition::new("orders", 0));
    assert_eq!(leader, Some(Leader { broker: 1, epoch: 6 }));
}

#[tokio::test(start_paused = true)]
async fn many_calls_for_a_refresh_make_one_request_and_one_change() {
    let epoch = Arc::new(AtomicI32::new(1));
    let told = Arc::clone(&epoch);
    let fake = Fake::new(move |call| metadata(call, &[(1, told.load(Ordering::SeqCst))]));
    let cluster = fake.cluster();
    cluster.topics(Topics::All).await.unwrap();
    let mut changed = cluster.metadata_changed();
    changed.borrow_and_update();
    epoch.store(2, Ordering::SeqCst);
    for _ in 0..100 {
        cluster.metadata_stale();
    }
    changed.changed().await.unwrap();
    assert_eq!(cluster.leader(&TopicPartition::new("orders", 0)).unwrap().epoch, 2);
    assert_eq!(fake.calls(ApiKey::Metadata).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_away_is_asked_less_and_less_often() {
    let away = Arc::new(AtomicI32::new(0));
    let told = Arc::clone(&away);
    let fake = Fake::new(move |call| match told.load(Ordering::SeqCst) {
        0 => metadata(call, &[(1, 1)]),
        _ => Reply::Close,
    });
    let cluster = fake.cluster();
    cluster.topics(Topics::All).await.unwrap();
    // Long after the last answer, when a refresh is the first of a series.
    tokio::time::sleep(Duration::from_secs(20)).await;
    away.store(1, Ordering::SeqCst);
    cluster.metadata_stale();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let asked = fake.calls(ApiKey::Metadata).len() - 1;
    // Doubling from a tenth of a second to one, with a fifth of jitter; each try may use two addresses.
    assert!((8..=30).contains(&asked), "asked {asked} times in 10 s");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_brokers_all_moved_is_found_again_through_the_bootstrap_list() {
    let brokers: Arc<Mutex<Vec<i32>>> = Arc::new(Mutex::new(vec![1, 2]));
    let told = Arc::clone(&brokers);
    let fake = Fake::new(move |call| metadata_with(call, &told.lock().unwrap(), ORDERS, &[(1, 0)]));
    let cluster = fake.cluster_behind("b:9009");
    assert_eq!(cluster.brokers().await.unwrap().len(), 2);
    fake.set_down(9001);
    fake.set_down(9002);
    *brokers.lock().unwrap() = vec![3];
    let found = cluster.brokers().await.unwrap();
    assert_eq!(found.iter().map(|broker| broker.id).collect::<Vec<_>>(), [3]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_reached_is_named_and_given_up_at_the_deadline() {
    let fake = Fake::new(|call| metadata(call, &[]));
    fake.set_down(9001);
    let began = Instant::now();
    let error = fake.cluster().brokers().await.unwrap_err();
    let ClientError::Unreachable { address, reason } = &error else { panic!("{error}") };
    assert!(address.contains("b:9001") && reason.contains("refused"), "{error}");
    assert!(began.elapsed() > Duration::from_secs(25), "tried until near the deadline");
    assert!(began.elapsed() <= Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_view_goes_to_the_leader_with_the_highest_epoch_of_several_answers() {
    // Broker 1 slept through the move to broker 2.
    let fake = Fake::new(|call| match call.broker {
        1 => metadata(call, &[(1, 4)]),
        _ => metadata(call, &[(2, 5)]),
    });
    let view = fake.cluster().leader_view(&TopicPartition::new("orders", 0)).await.unwrap();
    assert_eq!((view.broker(), view.epoch(), view.topic_id()), (2, 5, ORDERS));
}
