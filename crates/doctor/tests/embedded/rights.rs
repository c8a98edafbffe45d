//! A look with too few rights: what is missing is named with the command that gives it, and everything
//! else is looked at.

use std::collections::BTreeSet;
use std::time::Duration;

use twinlog_doctor::{Diagnosis, Fix, LinkState, Outcome, Wanted};
use twinlog_embedded::{Acl, EmbeddedCluster, GroupKind, Operation, Resource};
use twinlog_types::{Code, Severity};

use crate::world::World;

const ANONYMOUS: &str = "User:ANONYMOUS";
const LINES: &str = "hello->world.topics = orders\nhello->world.groups = app, live\n";

/// What reading takes on both clusters, as docs/operations.md has it.
fn needed() -> Vec<(bool, Operation, Resource, &'static str)> {
    use Operation::{Describe, DescribeConfigs, Read};
    use Resource::{Group, Topic};
    let (source, target) = (true, false);
    vec![
        (source, Read, Topic, "orders"),
        (source, DescribeConfigs, Topic, "orders"),
        (source, Read, Topic, "mm2-offset-syncs.world.internal"),
        (source, Describe, Group, "app"),
        (source, Describe, Group, "live"),
        (target, Read, Topic, "hello.orders"),
        (target, DescribeConfigs, Topic, "hello.orders"),
        (target, Read, Topic, "mm2-twinlog.hello.internal"),
        (target, Read, Topic, "mm2-twinlog.hello.decisions.internal"),
        (target, Read, Topic, "hello.checkpoints.internal"),
        (target, Read, Topic, "mm2-configs.hello.internal"),
        (target, Read, Topic, "mm2-status.hello.internal"),
        (target, Read, Topic, "mm2-offsets.hello.internal"),
        (target, Describe, Group, "app"),
        (target, Describe, Group, "live"),
        (target, Describe, Group, "hello-mm2"),
    ]
}

fn acl((_, operation, resource, name): (bool, Operation, Resource, &str)) -> Acl {
    Acl::allow(ANONYMOUS, operation, resource, name)
}

impl World {
    fn side(&self, is_source: bool) -> &EmbeddedCluster {
        if is_source { &self.source } else { &self.target }
    }
}

/// A running mirror of which one group lives on the target while the source has gone on.
async fn mirrored(seed: u64) -> (World, twinlog_engine::Engine) {
    let world = World::guarded(seed);
    let engine = world.start();
    let began = tokio::time::Instant::now();
    let placed = |group| world.target.committed(group, "hello.orders", 0).is_some();
    while !(placed("app") && placed("live")) {
        assert!(began.elapsed() < Duration::from_mins(5), "not mirrored within 5 minutes");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.target.set_group("live", GroupKind::Classic, true);
    world.source.commit_offset("live", "orders", 0, 90).expect("committed");
    (world, engine)
}

fn errors(found: &Diagnosis) -> BTreeSet<Code> {
    let errors = found.findings.iter().filter(|one| one.severity == Severity::Error);
    errors.map(|one| one.code).collect()
}

/// The commands that give rights.
fn grants(found: &Diagnosis) -> Vec<String> {
    let missing = found.findings.iter().filter(|one| one.code == Code::MissingPermission);
    let fixes = missing.flat_map(|one| &one.fix);
    let commands = fixes.filter_map(|fix| match fix {
        Fix::Command(text) => Some(text.clone()),
        Fix::Property(_) => None,
    });
    commands.collect()
}

/// Does what a `kafka-acls.sh` command says.
fn run(world: &World, command: &str) {
    let words: Vec<&str> = command.split_whitespace().map(|word| word.trim_matches('\'')).collect();
    let all = |option: &str| -> Vec<&str> {
        let pairs = words.windows(2).filter(|pair| pair[0] == option);
        pairs.map(|pair| pair[1]).collect()
    };
    assert_eq!((words[0], words[3]), ("kafka-acls.sh", "--add"), "{command}");
    let cluster = world.side(all("--bootstrap-server") == [world.source.bootstrap()]);
    let prefixed = all("--resource-pattern-type") == ["prefixed"];
    for operation in all("--operation") {
        let operation = match operation {
            "Read" => Operation::Read,
            "Describe" => Operation::Describe,
            "DescribeConfigs" => Operation::DescribeConfigs,
            other => panic!("{other} is no operation of a look"),
        };
        for (option, resource) in [("--topic", Resource::Topic), ("--group", Resource::Group)] {
            for name in all(option) {
                let acl = Acl::allow(all("--allow-principal")[0], operation, resource, name);
                cluster.add_acl(if prefixed { acl.prefixed() } else { acl });
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_single_right_that_is_missing_is_named_and_everything_else_is_looked_at() {
    let (world, engine) = mirrored(71).await;
    for right in needed() {
        world.side(right.0).add_acl(acl(right));
    }
    let whole = world.doctor(LINES, &Wanted::default()).await;
    assert_eq!(errors(&whole), [Code::GroupLiveOnTarget].into(), "{whole:#?}");
    assert_eq!(whole.outcome(), Outcome::Wrong);
    for right in needed() {
        let (is_source, operation, resource, name) = right;
        assert!(world.side(is_source).remove_acl(&acl(right)), "{name}");
        let found = world.doctor(LINES, &Wanted::default()).await;
        world.side(is_source).add_acl(acl(right));
        let word = format!("{operation:?}");
        let kind = if resource == Resource::Topic { "--topic" } else { "--group" };
        // Without READ a topic cannot be described either, which DESCRIBE_CONFIGS does not give back.
        let at = world.side(is_source).bootstrap();
        let command = format!(
            "kafka-acls.sh --bootstrap-server {at} --add --allow-principal {ANONYMOUS} --operation \
             {word} {kind} {name}"
        );
        let told = grants(&found);
        if name.ends_with("orders") && operation == Operation::Read {
            let both = command.replace("Read", "Read --operation DescribeConfigs");
            assert_eq!(told, [both], "{found:#?}");
        } else {
            assert_eq!(told, [command], "{found:#?}");
        }
        assert_eq!(found.outcome(), Outcome::NotFoundOut, "{name}: {found:#?}");
        let mut expected: BTreeSet<Code> =
            [Code::MissingPermission, Code::GroupLiveOnTarget].into();
        // Without these nobody knows of the group, or of the mirror at all.
        let decides = name == "live"
            || name == "mm2-twinlog.hello.internal"
            || (name.ends_with("orders") && operation == Operation::Read);
        if decides {
            expected.remove(&Code::GroupLiveOnTarget);
        }
        assert_eq!(errors(&found), expected, "{word} on {name}: {found:#?}");
    }
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_commands_lead_from_no_right_at_all_to_a_whole_answer() {
    for (seed, lines, rounds_max) in [(72, LINES, 2), (73, "", 2)] {
        let (world, engine) = mirrored(seed).await;
        let found = world.doctor(lines, &Wanted::default()).await;
        assert_eq!(errors(&found), [Code::MissingPermission].into(), "{found:#?}");
        assert_eq!(found.mirrored_by, None, "nobody may be called the one");
        assert_eq!(found.outcome(), Outcome::NotFoundOut);
        let mut rounds = 0;
        let found = loop {
            let found = world.doctor(lines, &Wanted::default()).await;
            if found.outcome() != Outcome::NotFoundOut {
                break found;
            }
            rounds += 1;
            assert!(rounds <= rounds_max, "{found:#?}");
            for command in grants(&found) {
                run(&world, &command);
            }
        };
        let expected = match lines {
            "" => [Code::GroupExcluded, Code::GroupLiveOnTarget].into(),
            _ => BTreeSet::from([Code::GroupLiveOnTarget]),
        };
        assert_eq!(errors(&found), expected, "{found:#?}");
        if lines == LINES {
            let given = |cluster: &EmbeddedCluster| cluster.acls().into_iter().collect();
            let given: [BTreeSet<Acl>; 2] = [given(&world.source), given(&world.target)];
            let wanted = [true, false].map(|side| {
                let here = needed().into_iter().filter(|right| right.0 == side);
                here.map(acl).collect::<BTreeSet<Acl>>()
            });
            assert_eq!(given, wanted, "no more than is documented, and no less");
        }
        engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_asked_for_is_not_missed() {
    let (world, engine) = mirrored(74).await;
    for right in needed().into_iter().filter(|right| right.3 != "live") {
        world.side(right.0).add_acl(acl(right));
    }
    let app = Wanted { group: Some("app".into()), topic: None };
    let found = world.doctor(LINES, &app).await;
    assert_eq!((errors(&found), found.outcome()), (BTreeSet::new(), Outcome::Well), "{found:#?}");
    // That no such group is there is not said of one that may not be seen.
    let live = Wanted { group: Some("live".into()), topic: None };
    let found = world.doctor(LINES, &live).await;
    assert_eq!(errors(&found), [Code::MissingPermission].into(), "{found:#?}");
    assert_eq!(found.outcome(), Outcome::NotFoundOut);
    let chain = world.group("live").await;
    assert_eq!(chain.outcome(), Outcome::NotFoundOut, "{chain:#?}");
    let first = chain.links.iter().find(|link| link.state != LinkState::Ok).expect("one");
    assert!(
        first.fix.iter().any(|fix| matches!(fix, Fix::Command(text)
        if text.contains("--operation Describe --group live"))),
        "{chain:#?}"
    );
    engine.shutdown().await;
}
