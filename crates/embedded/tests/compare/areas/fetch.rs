//! Fetch: offsets, limits, epochs, sessions.

use twinlog_protocol::messages::fetch_request::ForgottenTopic;
use twinlog_protocol::messages::{FetchRequest, Uuid, topic_name};

use crate::batches::Batch;
use crate::pair::{Pair, Result};
use crate::requests::{From, How, Topic, fetch};

pub(crate) fn run(pair: &mut Pair) -> Result {
    let topic = pair.topic("fetch", 3, &[])?;
    for partition in 0..2 {
        for _ in 0..5 {
            let batch = Batch::of(10, pair.start_ms).bytes();
            pair.write(&topic, partition, &batch)?;
        }
    }
    offsets(pair, &topic)?;
    limits(pair, &topic)?;
    unknown(pair, &topic)?;
    sessions(pair, &topic)
}

fn ask(pair: &mut Pair, topic: &Topic, from: &[From], how: How) -> Result {
    for version in pair.versions::<FetchRequest>() {
        let request = topic.names().map(|names| fetch(version, names, from, how));
        pair.ask_each(version, &request)?;
    }
    Ok(())
}

fn offsets(pair: &mut Pair, topic: &Topic) -> Result {
    let at = |offset| From::at(0, offset);
    for (what, from) in [
        ("the start", at(0)),
        ("the middle of a batch", at(15)),
        ("the last record", at(49)),
        ("the end", at(50)),
        ("behind the end", at(51)),
        ("far behind the end", at(1 << 40)),
        ("a negative offset", at(-1)),
        ("an empty partition", From::at(2, 0)),
        ("behind the end of an empty partition", From::at(2, 1)),
        ("the right epoch", at(10).epoch(0)),
        ("an epoch to come", at(10).epoch(5)),
        ("a last epoch that is right", at(10).epoch(0).last_epoch(0)),
        ("a last epoch at the end", at(50).epoch(0).last_epoch(0)),
        ("a last epoch behind the end", at(60).epoch(0).last_epoch(0)),
        ("a last epoch to come", at(10).epoch(0).last_epoch(3)),
        ("a last epoch on an empty partition", From::at(2, 0).last_epoch(0)),
    ] {
        pair.step(format!("Fetch from {what}"));
        ask(pair, topic, &[from], How::default())?;
    }
    pair.step("Fetch of several partitions");
    ask(pair, topic, &[at(0), From::at(1, 20), From::at(2, 0), From::at(7, 0)], How::default())?;
    pair.step("Fetch of committed records");
    ask(pair, topic, &[at(0)], How { committed: true, ..How::default() })
}

fn limits(pair: &mut Pair, topic: &Topic) -> Result {
    let two = [From::at(0, 0), From::at(1, 0)];
    for (what, from, how) in [
        ("one byte of a partition", [From::at(0, 0).bytes(1), From::at(1, 0)], How::default()),
        (
            "one batch of each",
            [From::at(0, 0).bytes(300), From::at(1, 0).bytes(300)],
            How::default(),
        ),
        (
            "no byte of a partition",
            [From::at(0, 0).bytes(0), From::at(1, 0).bytes(0)],
            How::default(),
        ),
        ("one byte in all", two, How { max_bytes: 1, ..How::default() }),
        ("no byte in all", two, How { max_bytes: 0, ..How::default() }),
        ("a thousand bytes in all", two, How { max_bytes: 1000, ..How::default() }),
        ("1,700 bytes in all", two, How { max_bytes: 1700, ..How::default() }),
        ("more than there is", two, How { min_bytes: 1 << 22, wait_ms: 10, ..How::default() }),
    ] {
        pair.step(format!("Fetch of {what}"));
        ask(pair, topic, &from, how)?;
    }
    pair.step("Fetch that waits at the end");
    let how = How { min_bytes: 1, wait_ms: 20, ..How::default() };
    ask(pair, topic, &[From::at(0, 50)], how)?;

    pair.step("Fetch that a write ends");
    let how = How { min_bytes: 1, wait_ms: 30_000, ..How::default() };
    for version in [4, 12, 13, 18] {
        let request = topic.names().map(|n| fetch(version, n, &[From::at(2, 0)], how));
        // From an empty partition at first, then from what the others have written.
        let pending = pair.begin(version, request)?;
        if version == 4 {
            let batch = Batch::of(1, pair.start_ms).bytes();
            pair.write(topic, 2, &batch)?;
            pair.step("Fetch that a write ends");
        }
        pair.finish(pending)?;
    }
    Ok(())
}

fn unknown(pair: &mut Pair, topic: &Topic) -> Result {
    pair.step("Fetch of an absent topic");
    let absent = ("fetch-absent".to_owned(), Uuid::from_bytes([7; 16]));
    for version in pair.versions::<FetchRequest>() {
        pair.ask(version, fetch(version, &absent, &[From::at(0, 0)], How::default()))?;
    }
    pair.step("Fetch of a partition that is not there");
    ask(pair, topic, &[From::at(9, 0)], How::default())?;
    pair.step("Fetch of a negative partition");
    ask(pair, topic, &[From::at(-1, 0)], How::default())?;
    pair.step("Fetch of nothing");
    ask(pair, topic, &[], How::default())
}

fn sessions(pair: &mut Pair, topic: &Topic) -> Result {
    for version in pair.versions::<FetchRequest>().into_iter().filter(|v| *v >= 7) {
        pair.step("Fetch in an unknown session");
        for session in [(12_345, 1), (12_345, -1), (12_345, 0), (0, 3)] {
            let how = How { session, ..How::default() };
            let request = topic.names().map(|n| fetch(version, n, &[From::at(0, 0)], how));
            pair.ask_each(version, &request)?;
        }
        pair.step("Fetch that opens a session");
        let open = How { session: (0, 0), ..How::default() };
        let from = [From::at(0, 40), From::at(1, 50)];
        let opened =
            pair.ask_each(version, &topic.names().map(|n| fetch(version, n, &from, open)))?;
        let ids = opened.map(|answer| answer.session_id);
        let within = |epoch: i32, from: &[From]| {
            topic.names().zip(ids).map(|(names, id)| {
                let how = How { session: (*id, epoch), ..How::default() };
                fetch(version, names, from, how)
            })
        };
        pair.step("Fetch in a session with nothing new");
        pair.ask_each(version, &within(1, &[From::at(0, 50)]))?;
        pair.ask_each(version, &within(2, &[]))?;
        pair.step("Fetch in a session with a changed position");
        pair.ask_each(version, &within(3, &[From::at(1, 30)]))?;
        pair.step("Fetch in a session with a new partition");
        pair.ask_each(version, &within(4, &[From::at(2, 0)]))?;
        pair.step("Fetch in a session, out of range");
        pair.ask_each(version, &within(5, &[From::at(1, 999)]))?;
        pair.ask_each(version, &within(6, &[]))?;
        pair.step("Fetch in a session, a partition forgotten");
        let forgotten = |request: &FetchRequest, id: Uuid, partitions: &[i32]| {
            let topic = ForgottenTopic::default().with_partitions(partitions.to_vec());
            let topic = if version >= 13 {
                topic.with_topic_id(id)
            } else {
                topic.with_topic(topic_name("fetch"))
            };
            request.clone().with_forgotten_topics_data(vec![topic])
        };
        let request = within(7, &[]).zip(topic.id).map(|(r, id)| forgotten(r, *id, &[1]));
        pair.ask_each(version, &request)?;
        pair.step("Fetch in a session with a wrong epoch");
        pair.ask_each(version, &within(3, &[]))?;
        pair.step("Fetch in a session, a partition that is not there");
        pair.ask_each(version, &within(8, &[From::at(9, 0)]))?;
        pair.ask_each(version, &within(9, &[]))?;
        pair.step("Fetch in a session, everything forgotten");
        let request = within(10, &[]).zip(topic.id).map(|(r, id)| forgotten(r, *id, &[0, 2, 9]));
        pair.ask_each(version, &request)?;
        pair.step("Fetch that closes a session");
        pair.ask_each(version, &within(-1, &[From::at(0, 45)]))?;
        pair.step("Fetch in a closed session");
        pair.ask_each(version, &within(11, &[]))?;
    }
    recreated(pair)
}

/// A topic deleted and made again under an open session.
fn recreated(pair: &mut Pair) -> Result {
    for version in [12, 13, 17, 18] {
        let name = format!("fetch-again-{version}");
        let topic = pair.topic(&name, 1, &[])?;
        let batch = Batch::of(5, pair.start_ms).bytes();
        pair.write(&topic, 0, &batch)?;
        pair.step("Fetch that opens a session on a topic to be deleted");
        let open = How { session: (0, 0), ..How::default() };
        let request = topic.names().map(|n| fetch(version, n, &[From::at(0, 5)], open));
        let ids = pair.ask_each(version, &request)?.map(|answer| answer.session_id);
        let within = |epoch: i32| {
            topic.names().zip(ids).map(|(names, id)| {
                fetch(version, names, &[], How { session: (*id, epoch), ..How::default() })
            })
        };
        pair.delete(&name)?;
        pair.step("Fetch in a session, the topic gone");
        pair.ask_each(version, &within(1))?;
        let again = pair.topic(&name, 1, &[])?;
        pair.step("Fetch in a session, the topic made again and shorter");
        pair.ask_each(version, &within(2))?;
        for _ in 0..2 {
            pair.write(&again, 0, &batch)?;
        }
        pair.step("Fetch in a session, the topic made again and longer");
        pair.ask_each(version, &within(3))?;
        pair.step("Fetch by an id that is no more");
        let old = topic.names().map(|n| fetch(version, n, &[From::at(0, 5)], How::default()));
        pair.ask_each(version, &old)?;
    }
    Ok(())
}
