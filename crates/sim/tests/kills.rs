//! The instance is killed at every request it sends: just before it leaves, with the answer on its
//! way, and just after the answer was heard. Another one takes over, and nothing shows.

use std::collections::BTreeSet;

use twinlog_sim::network::{Moment, Trap};
use twinlog_sim::scenes::{Disturbance, play};

/// Every request of a flow, as [`twinlog_sim::requests::label`] names it.
const REQUESTS: [&str; 49] = [
    "source ApiVersions",
    "source CreateTopics heartbeats",
    "source CreateTopics syncs",
    "source DescribeConfigs",
    "source DescribeConfigs heartbeats",
    "source Fetch",
    "source Fetch heartbeats",
    "source FindCoordinator",
    "source ListGroups",
    "source ListOffsets",
    "source ListOffsets heartbeats",
    "source Metadata",
    "source Metadata heartbeats",
    "source Metadata syncs",
    "source OffsetFetch",
    "source Produce heartbeats",
    "source Produce syncs",
    "target AddPartitionsToTxn state",
    "target ApiVersions",
    "target CreateTopics",
    "target CreateTopics checkpoints",
    "target CreateTopics heartbeats",
    "target CreateTopics state",
    "target DescribeConfigs",
    "target DescribeConfigs heartbeats",
    "target DescribeProducers",
    "target DescribeProducers heartbeats",
    "target EndTxn state",
    "target FindCoordinator",
    "target FindCoordinator state",
    "target InitProducerId",
    "target InitProducerId state",
    "target ListGroups",
    "target ListOffsets",
    "target ListOffsets checkpoints",
    "target ListOffsets heartbeats",
    "target ListOffsets state",
    "target Metadata",
    "target Metadata checkpoints",
    "target Metadata heartbeats",
    "target Metadata state",
    "target OffsetCommit",
    "target OffsetFetch",
    "target OffsetForLeaderEpoch",
    "target OffsetForLeaderEpoch heartbeats",
    "target Produce",
    "target Produce checkpoints",
    "target Produce heartbeats",
    "target Produce state",
];

#[test]
fn every_request_of_a_flow_has_its_kill_points() {
    let scene = play(&Disturbance::Nothing);
    let known: BTreeSet<&str> = REQUESTS.into_iter().collect();
    let sent: BTreeSet<&str> = scene.requests.keys().map(String::as_str).collect();
    assert_eq!(sent.difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new());
    assert_eq!(known.difference(&sent).collect::<Vec<_>>(), Vec::<&&str>::new());
    assert_eq!(scene.outcome.violations, []);
}

#[test]
fn a_kill_at_any_request_loses_doubles_and_skips_nothing() {
    let mut points = 0;
    for request in REQUESTS {
        for moment in [Moment::BeforeSending, Moment::BeforeAnswer, Moment::AfterAnswer] {
            for skip in [0, 1] {
                let trap = Trap { request: request.to_owned(), moment, skip };
                let scene = play(&Disturbance::Kill(trap));
                let named = format!("{moment:?} of {request}, {skip} before it");
                assert_eq!(scene.outcome.violations, [], "{named}");
                // What is sent once at a start is not sent a second time.
                assert!(skip > 0 || scene.happened == 1, "{named} was not reached");
                points += scene.happened;
            }
        }
    }
    assert!(points >= 3 * REQUESTS.len() as u64, "{points} kills");
    println!("{points} kills at {} points", 3 * REQUESTS.len());
}
