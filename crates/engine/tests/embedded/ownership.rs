//! Two processes on one flow.

use std::collections::BTreeMap;

use twinlog_embedded::NewRecord;
use twinlog_types::{Code, State};

use crate::support::{World, until};

fn numbered(from: usize, to: usize) -> Vec<NewRecord> {
    (from..to).map(|n| NewRecord::new(format!("k{n}"), format!("v{n}"))).collect()
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
    until("the first one stands by", || {
        let report = first.report();
        let standing = &report.flows.values().next()?.standing;
        (standing.code != Some(Code::OwnedElsewhere) || standing.state != State::Waiting)
            .then(|| format!("{standing:?}"))
    })
    .await;
    world.until_equal(&topics).await;
    drop(second);
    world.source.append("orders", 0, &numbered(50, 90)).unwrap();
    world.until_equal(&topics).await;
    first.shutdown().await;
}
