//! Fetch: sizes, ranges, epochs, sessions, and topics that are made again under them.

use std::time::Duration;

use tokio::time::Instant;
use twinlog_protocol::messages::fetch_response::PartitionData;
use twinlog_protocol::messages::*;

use crate::support::*;

fn offsets(data: &PartitionData) -> Vec<i64> {
    let records = data.records.clone().unwrap();
    let (mut at, mut out) = (0, Vec::new());
    while records.len() >= at + 61 {
        out.push(i64::from_be_bytes(records[at..at + 8].try_into().unwrap()));
        at += 12 + i32::from_be_bytes(records[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    out
}

#[tokio::test(start_paused = true)]
async fn a_fetch_begins_with_the_batch_that_holds_the_offset_and_cuts_the_last_one() {
    let cluster = cluster();
    for _ in 0..3 {
        cluster.append(TOPIC, 0, &records(10)).unwrap();
    }
    let size = cluster.batches(TOPIC, 0)[0].len() as i32;
    let mut client = Client::to(&cluster, 1);
    let data = client.fetch(FetchFrom::offset(15), 12).await;
    assert_eq!((data.error_code, data.high_watermark, offsets(&data)), (0, 30, vec![10, 20]));
    let cut = client.fetch(FetchFrom { max_bytes: size + 70, ..FetchFrom::offset(0) }, 12).await;
    assert_eq!(cut.records.unwrap().len() as i32, size + 70);
    let first = client.fetch(FetchFrom { max_bytes: 1, ..FetchFrom::offset(0) }, 12).await;
    assert_eq!(first.records.unwrap().len() as i32, size, "the first batch comes whole");
}

#[tokio::test(start_paused = true)]
async fn the_range_of_a_log_ends_with_its_end_and_begins_with_its_start() {
    let cluster = cluster();
    cluster.append(TOPIC, 0, &records(10)).unwrap();
    cluster.append(TOPIC, 0, &records(10)).unwrap();
    cluster.delete_records(TOPIC, 0, 15).unwrap();
    let mut client = Client::to(&cluster, 1);
    for (offset, code) in [(14, 1), (15, 0), (20, 0), (21, 1)] {
        assert_eq!(client.fetch(FetchFrom::offset(offset), 12).await.error_code, code, "{offset}");
    }
    let inside = client.fetch(FetchFrom::offset(15), 12).await;
    assert_eq!((offsets(&inside), inside.log_start_offset), (vec![10], 15), "the whole batch");
    assert_eq!(client.list_offset(-2, 0, 7).await.1, 15);
    cluster.create_topic("old", 1, &[]).unwrap();
    cluster.begin_at("old", 0, 700).unwrap();
    assert_eq!(cluster.append("old", 0, &records(1)).unwrap(), 700);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_ends_with_the_first_record_or_its_time() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    let begun = Instant::now();
    let wait = FetchFrom { max_wait_ms: 500, ..FetchFrom::offset(0) };
    assert!(offsets(&client.fetch(wait.clone(), 12).await).is_empty());
    assert_eq!(begun.elapsed(), Duration::from_millis(500));
    let appending = {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cluster.append(TOPIC, 0, &records(1)).unwrap();
        })
    };
    let begun = Instant::now();
    assert_eq!(offsets(&client.fetch(wait, 12).await), [0]);
    assert_eq!(begun.elapsed(), Duration::from_millis(100));
    appending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn epochs_that_are_not_the_leaders_are_refused() {
    let cluster = cluster();
    cluster.append(TOPIC, 0, &records(10)).unwrap();
    cluster.lose_tail(TOPIC, 0, 10);
    let mut client = Client::to(&cluster, 1);
    for (current, code) in [(0, 74), (1, 0), (2, 75), (-1, 0)] {
        let from = FetchFrom { current_leader_epoch: current, ..FetchFrom::offset(0) };
        assert_eq!(client.fetch(from, 12).await.error_code, code, "{current}");
        assert_eq!(client.end_of_epoch(0, current).await.0, code, "{current}");
    }
    let from = FetchFrom {
        id: Uuid::from_bytes(cluster.topic_id(TOPIC).unwrap().0),
        current_leader_epoch: 0,
        ..FetchFrom::offset(0)
    };
    let hint = client.fetch(from.clone(), 17).await.current_leader;
    assert_eq!((hint.leader_id, hint.leader_epoch), (BrokerId(1), 1));
    let none =
        client.fetch(FetchFrom { current_leader_epoch: 0, ..FetchFrom::offset(0) }, 12).await;
    assert_eq!(none.current_leader.leader_id, BrokerId(-1), "version 12 gives no hint");
}

#[tokio::test(start_paused = true)]
async fn an_incremental_session_names_only_what_changed() {
    let cluster = cluster();
    cluster.append(TOPIC, 0, &records(1)).unwrap();
    let mut client = Client::to(&cluster, 1);
    let open = FetchFrom { session: (0, 0), ..FetchFrom::offset(1) };
    let opened = client.call(&open.request(12), 12).await;
    assert_ne!(opened.session_id, 0);
    assert_eq!(opened.responses.len(), 1);
    let next = |epoch: i32| {
        let mut request =
            FetchFrom { session: (opened.session_id, epoch), ..FetchFrom::offset(1) }.request(12);
        request.topics.clear();
        request
    };
    let nothing = client.call(&next(1), 12).await;
    assert_eq!(
        (nothing.error_code, nothing.responses.len(), nothing.session_id),
        (0, 0, opened.session_id)
    );
    cluster.append(TOPIC, 0, &records(1)).unwrap();
    assert_eq!(client.call(&next(2), 12).await.responses[0].partitions[0].high_watermark, 2);
    assert_eq!(client.call(&next(2), 12).await.error_code, 71, "an old epoch");
    let unknown =
        FetchFrom { session: (opened.session_id ^ 1, 1), ..FetchFrom::offset(1) }.request(12);
    assert_eq!(client.call(&unknown, 12).await.error_code, 70);
}

/// (by name, by id) as it stands at the table's head: version 12 and version 17.
async fn recreated(version: i16, records_after: usize) -> (i16, i16, Option<i64>) {
    let cluster = cluster();
    for _ in 0..5 {
        cluster.append(TOPIC, 0, &records(1)).unwrap();
    }
    let id = Uuid::from_bytes(cluster.topic_id(TOPIC).unwrap().0);
    let mut client = Client::to(&cluster, 1);
    let open = FetchFrom { session: (0, 0), id, ..FetchFrom::offset(5) };
    let session = client.call(&open.request(version), version).await.session_id;
    let next = |epoch, wait| {
        let mut request =
            FetchFrom { session: (session, epoch), max_wait_ms: wait, ..FetchFrom::offset(5) }
                .request(version);
        request.topics.clear();
        request
    };
    client.send(&next(1, 60_000), version).await;
    tokio::task::yield_now().await;
    let begun = Instant::now();
    cluster.delete_topic(TOPIC);
    let waiting = client.receive::<FetchRequest>(version).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO, "a waiting poll is answered at once");
    let gone = waiting.responses[0].partitions[0].error_code;
    cluster.create_topic(TOPIC, 1, &[]).unwrap();
    for _ in 0..records_after {
        cluster.append(TOPIC, 0, &records(1)).unwrap();
    }
    let again = client.call(&next(2, 0), version).await;
    let again = &again.responses[0].partitions[0];
    (gone, again.error_code, offsets(again).first().copied())
}

#[tokio::test(start_paused = true)]
async fn a_recreated_topic_is_silent_by_name_and_loud_by_id() {
    assert_eq!(recreated(12, 2).await, (3, 1, None));
    assert_eq!(
        recreated(12, 7).await,
        (3, 0, Some(5)),
        "reads the new topic from the old position"
    );
    assert_eq!(recreated(17, 2).await, (3, 103, None));
    assert_eq!(recreated(17, 7).await, (3, 103, None));
}

#[tokio::test(start_paused = true)]
async fn an_old_id_is_unknown_without_a_session() {
    let cluster = cluster();
    let id = Uuid::from_bytes(cluster.topic_id(TOPIC).unwrap().0);
    cluster.recreate_topic(TOPIC).unwrap();
    let mut client = Client::to(&cluster, 1);
    assert_eq!(client.fetch(FetchFrom { id, ..FetchFrom::offset(0) }, 17).await.error_code, 100);
    let mut request = produce_request(&batch(1), -1, TIMEOUT_MS);
    request.topic_data[0].name = TopicName::default();
    request.topic_data[0].topic_id = id;
    let response = client.call(&request, 13).await;
    assert_eq!(response.responses[0].partition_responses[0].error_code, 100);
    assert_eq!(client.produce(&batch(1)).await.error_code, 0, "by name: appended to the new topic");
}

#[tokio::test(start_paused = true)]
async fn list_offsets_answers_kinds_by_version() {
    let cluster = cluster();
    let record = |at: i64| twinlog_embedded::NewRecord::new("k", "v").at(at);
    cluster.append(TOPIC, 0, &[record(1000), record(3000), record(2000)]).unwrap();
    cluster.append(TOPIC, 0, &[record(2500)]).unwrap();
    let mut client = Client::to(&cluster, 1);
    let rows: &[(i64, i16, i16, i64)] = &[
        (-1, 7, 0, 4),
        (-2, 7, 0, 0),
        (-3, 7, 0, 1),
        (-3, 6, 35, -1),
        (-4, 8, 0, 0),
        (-4, 7, 35, -1),
        (-5, 9, 0, -1),
        (-5, 8, 35, -1),
        (0, 7, 0, 0),
        (1001, 7, 0, 1),
        (3001, 7, 0, -1),
    ];
    for &(timestamp, version, code, offset) in rows {
        let (error, found, _) = client.list_offset(timestamp, 0, version).await;
        assert_eq!((error, found), (code, offset), "{timestamp} v{version}");
    }
    cluster.delete_records(TOPIC, 0, 2).unwrap();
    assert_eq!(client.list_offset(-2, 0, 7).await.1, 2);
    assert_eq!(client.list_offset(1001, 0, 7).await.1, 2, "lookups respect the log start");
}

#[tokio::test(start_paused = true)]
async fn compaction_leaves_holes_and_takes_whole_batches() {
    let cluster = cluster();
    let record = |key: &str| twinlog_embedded::NewRecord::new(key, "v");
    cluster.append(TOPIC, 0, &[record("a"), record("b"), record("c")]).unwrap();
    cluster.append(TOPIC, 0, &[record("b")]).unwrap();
    cluster.append(TOPIC, 0, &[record("b"), record("d")]).unwrap();
    cluster.compact(TOPIC, 0).unwrap();
    let offsets: Vec<i64> = cluster
        .records(TOPIC, 0, twinlog_embedded::Isolation::ReadUncommitted)
        .iter()
        .map(|record| record.offset)
        .collect();
    assert_eq!(offsets, [0, 2, 4, 5]);
    let batches = cluster.batches(TOPIC, 0);
    assert_eq!(batches.len(), 2);
    assert_eq!((batches[0][26], batches[0][60]), (2, 2), "last offset delta 2, two records");
    assert_eq!(cluster.log_end(TOPIC, 0), 6);
}
