//! What keeps a flow from starting is told before it is tried, where it is tried, and from outside.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions};
use twinlog_engine::observe::{FlowObservation, FlowPlan};
use twinlog_types::{Code, State};

use crate::losses::look;
use crate::support::{World, numbered, until};

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self, with: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0.lock().expect("no writer panics")).into_owned();
        text.lines().filter(|line| line.contains(with)).map(str::to_owned).collect()
    }
}

fn keys(plan: &FlowPlan) -> BTreeSet<&str> {
    plan.hindrances.iter().map(|one| one.key.as_str()).collect()
}

fn own(found: &FlowObservation) -> (State, Option<Code>, String) {
    (found.own.state, found.own.code, found.own.reason.clone().unwrap_or_default())
}

/// Clusters of one broker, and a file that leaves MM2's factors of 3 and 2 as they are.
fn too_few_brokers(seed: u64) -> World {
    let world = World::new(seed, 1).not_saying("replication.factor");
    world.source.create_topic("orders", 1, &[]).unwrap();
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn factors_that_a_cluster_cannot_meet_are_named_with_property_and_line_before_the_start() {
    let world = too_few_brokers(7_001);
    let plan = world.observer("").plan_run().await.unwrap();
    let of_flow = [
        "hello->world.offset-syncs.topic.replication.factor",
        "hello->world.checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
        "hello->world.replication.factor",
    ];
    assert_eq!(keys(&plan), BTreeSet::from(of_flow));
    let state =
        plan.hindrances.iter().find(|one| one.message.contains("mm2-twinlog.hello.internal"));
    let state = state.expect("the state topic is needed");
    assert_eq!(state.code, Code::TopicMissingOnTarget);
    assert!(
        state.message.contains("world has 1 broker, too few for 3 replicas"),
        "{}",
        state.message
    );
    assert!(state.message.contains("cannot start this flow"), "{}", state.message);
    let line = "hello->world.offset-syncs.topic.replication.factor = 1";
    assert!(state.suggestion.contains(line), "{}", state.suggestion);
    // Nobody ever ran it, and status says why nobody can.
    let (flow, code, reason) = own(&look(&world, "").await);
    assert_eq!((flow, code), (State::Stopped, Some(Code::MirrorNotRunning)));
    assert!(reason.contains("no twinlog has ever run") && reason.contains(line), "{reason}");

    // What the lines correct is no hindrance any more.
    let lines: Vec<String> = of_flow.iter().map(|key| format!("{key} = 1\n")).collect();
    let corrected = world.observer(&lines.concat());
    assert_eq!(corrected.plan_run().await.unwrap().hindrances, []);
    let (flow, _, reason) = own(&look(&world, &lines.concat()).await);
    assert!(flow == State::Waiting && !reason.contains("none can start"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_the_target_refuses_is_data_with_property_and_command_and_ends_when_it_may() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    let world = too_few_brokers(7_002);
    let engine = world.start_as("", |options| options.file = "mm2.properties".to_owned());
    let standing = || {
        let flows = engine.report().flows;
        flows.into_values().next().map(|flow| flow.standing).unwrap_or_default()
    };
    until("it is told", || {
        let standing = standing();
        (standing.code != Some(Code::TopicMissingOnTarget)).then(|| format!("{standing:?}"))
    })
    .await;
    let told = standing();
    assert_eq!(told.state, State::Stopped);
    let reason = told.reason.unwrap_or_default();
    for part in [
        "INVALID_REPLICATION_FACTOR",
        "hello->world.offset-syncs.topic.replication.factor = N",
        "nothing is copied and no group is carried over",
        "`twinlog check mm2.properties --online`",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    tokio::time::sleep(Duration::from_mins(25)).await;
    assert_eq!(standing().state, State::Stopped);
    // Once, and twice more in twenty-five minutes.
    let warnings = log.lines(" WARN ");
    let of_start: Vec<&String> =
        warnings.iter().filter(|line| line.contains("the flow cannot start")).collect();
    assert_eq!(of_start.len(), 3, "{of_start:#?}");
    assert!(of_start[2].contains("still so after") && of_start[2].contains("replication.factor"));
    // By hand, as the target wants it.
    let compacted = [("cleanup.policy", "compact")];
    world.target.create_topic("mm2-twinlog.hello.internal", 4, &compacted).unwrap();
    until("it starts by itself", || {
        let standing = standing();
        (standing.state == State::Stopped).then(|| format!("{standing:?}"))
    })
    .await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn two_aliases_of_one_cluster_are_a_hindrance_and_nothing_is_planned() {
    let cluster = EmbeddedCluster::start(EmbeddedOptions::new("hello"));
    let world = World::between(7_003, cluster.clone(), cluster);
    world.source.create_topic("orders", 1, &[]).unwrap();
    for (policy, means) in [
        ("", "doubled beside itself"),
        (
            "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n",
            "again and again",
        ),
    ] {
        let plan = world.observer(policy).plan_run().await.unwrap();
        assert!(plan.is_one_cluster());
        let [one] = plan.hindrances.as_slice() else { panic!("{:?}", plan.hindrances) };
        assert_eq!((one.code, one.key.as_str()), (Code::SameCluster, "world.bootstrap.servers"));
        assert!(one.message.contains("one and the same cluster"), "{}", one.message);
        assert!(one.message.contains(means), "{}", one.message);
        assert!(plan.topics.create.is_empty() && plan.partitions.is_empty());
    }
}
