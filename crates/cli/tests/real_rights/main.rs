//! `twinlog doctor` and `twinlog verify` with rights to read and no other, on real brokers with an
//! authorizer that allows nothing by itself.
//!
//! One listener of the brokers is for those who run the clusters; who comes by the other one is
//! `User:ANONYMOUS`, and so is twinlog.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use twinlog_testkit::ring::{self, TestResult, test};
use twinlog_testkit::{
    ClusterOptions, CommitAs, KafkaCluster, KafkaVersion, Mm2, Offsets, Scratch, Shell, Twinlog,
    availability, wait_until_some,
};

fn main() -> ExitCode {
    ring::main(&[test("the_doctors_commands_lead_from_no_right_to_a_whole_answer", all)])
}

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const LIMIT: Duration = Duration::from_mins(2);
const READER: &str = "READER";
const ACLS: &str = "org.apache.kafka.tools.AclCommand";

/// What reading takes, as docs/operations.md has it: cluster, operation, kind of resource, name.
const NEEDED: &[(&str, &str, &str, &str)] = &[
    ("hello", "READ", "TOPIC", "orders"),
    ("hello", "DESCRIBE_CONFIGS", "TOPIC", "orders"),
    ("hello", "READ", "TOPIC", "mm2-offset-syncs.world.internal"),
    ("hello", "DESCRIBE", "GROUP", "app"),
    ("world", "READ", "TOPIC", "hello.orders"),
    ("world", "DESCRIBE_CONFIGS", "TOPIC", "hello.orders"),
    ("world", "READ", "TOPIC", "mm2-twinlog.hello.internal"),
    ("world", "READ", "TOPIC", "mm2-twinlog.hello.decisions.internal"),
    ("world", "READ", "TOPIC", "hello.checkpoints.internal"),
    ("world", "READ", "TOPIC", "mm2-configs.hello.internal"),
    ("world", "READ", "TOPIC", "mm2-status.hello.internal"),
    ("world", "READ", "TOPIC", "mm2-offsets.hello.internal"),
    ("world", "DESCRIBE", "GROUP", "app"),
    ("world", "DESCRIBE", "GROUP", "hello-mm2"),
];

struct Scene {
    shell: Shell,
    hello: KafkaCluster,
    world: KafkaCluster,
}

/// What a command answered.
struct Answer {
    exit: Option<i32>,
    flow: Value,
}

impl Answer {
    fn errors(&self) -> BTreeSet<&str> {
        let findings = self.flow["findings"].as_array().map_or(&[][..], Vec::as_slice);
        let errors = findings.iter().filter(|one| one["severity"] == "error");
        errors.filter_map(|one| one["code"].as_str()).collect()
    }

    /// The commands that give rights: of the doctor's findings, or of the whole of verify.
    fn grants(&self) -> Vec<String> {
        let findings = self.flow["findings"].as_array().map_or(&[][..], Vec::as_slice);
        let lists = findings.iter().map(|one| &one["fix"]).chain([&self.flow["fix"]]);
        let fixes = lists.filter_map(Value::as_array).flatten();
        let commands = fixes.filter_map(|fix| fix["command"].as_str());
        commands.filter(|command| command.starts_with("kafka-acls.sh")).map(str::to_owned).collect()
    }
}

fn all() -> TestResult {
    let scratch = Scratch::new("rights")?;
    let jars = availability()?.jars(KafkaVersion::V4_3_0)?;
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_rights/ReaderPrincipal.java");
    let brokers = jars.compile(&source, scratch.path())?;
    let options = ClusterOptions::default()
        .listener(READER)
        .property(
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,READER:PLAINTEXT",
        )
        .property("principal.builder.class", "ReaderPrincipal")
        .property("super.users", "User:admin")
        .property(
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        );
    let (hello, world) =
        KafkaCluster::start_two((&brokers, "hello", &options), (&brokers, "world", &options))?;
    let scene = Scene { shell: Shell::start(&jars)?, hello, world };
    let (source, target) = (scene.hello.bootstrap(), scene.world.bootstrap());
    scene.shell.create_topic(&source, "orders", 1, 1, &[])?;
    let values: Vec<String> = (0..500).map(|n| format!("order {n}")).collect();
    let records: Vec<_> = values.iter().map(|value| (0, None, Some(value.as_str()))).collect();
    scene.shell.produce(&source, "orders", &records, &[])?;
    let offsets: Offsets = [("orders".to_owned(), [(0, 500)].into())].into();
    scene.shell.commit(&source, "app", &offsets, CommitAs::Admin)?;
    let mm2 = Mm2::start(&jars, &properties(&source, &target))?;
    wait_until_some("the group on the target", LIMIT, || {
        let there = scene.shell.committed(&target, "app").map_err(|error| error.to_string())?;
        let stands = there.get("hello.orders").and_then(|all| all.get(&0)).map(|one| one.offset);
        if stands == Some(500) { Ok(()) } else { Err(format!("{there:?}")) }
    })?;

    let readers = (scene.hello.bootstrap_of(READER), scene.world.bootstrap_of(READER));
    let file = scratch.write("mm2.properties", &properties(&readers.0, &readers.1))?;
    let file = file.to_string_lossy();
    let verify = ask(&["verify", &file, "--json"])?;
    assert_eq!((verify.exit, &verify.flow["ready"]), (Some(3), &Value::from(false)));
    assert!(!verify.grants().is_empty(), "{:#}", verify.flow);

    let mut rounds = 0;
    let doctor = loop {
        let doctor = ask(&["doctor", &file, "--json"])?;
        if doctor.exit != Some(3) {
            break doctor;
        }
        rounds += 1;
        assert!(rounds <= 2, "{:#}", doctor.flow);
        // Nothing is said that was not seen.
        assert_eq!(doctor.errors(), ["missing-permission"].into(), "{:#}", doctor.flow);
        for command in doctor.grants() {
            scene.run(&command, &readers)?;
        }
    };
    assert_eq!((doctor.exit, doctor.errors()), (Some(0), BTreeSet::new()), "{:#}", doctor.flow);
    assert_eq!(scene.given()?, wanted(), "no more than is documented, and no less");
    let verify = ask(&["verify", &file, "--json"])?;
    assert_eq!((verify.exit, &verify.flow["ready"]), (Some(0), &Value::from(true)));

    // One right taken away is one command, and everything else is still said.
    let taken = ["--operation", "Read", "--topic", "hello.checkpoints.internal"];
    let change = |what: &str| -> Result {
        let force: &[&str] = if what == "--remove" { &["--force"] } else { &[] };
        scene.acls(
            &[
                &["--bootstrap-server", &target, what, "--allow-principal", "User:ANONYMOUS"],
                &taken[..],
                force,
            ]
            .concat(),
        )
    };
    change("--remove")?;
    let doctor = wait_until_some("the right gone", LIMIT, || {
        let doctor = ask(&["doctor", &file, "--json"]).map_err(|error| error.to_string())?;
        if doctor.exit == Some(3) { Ok(doctor) } else { Err(format!("{:#}", doctor.flow)) }
    })?;
    let command = format!(
        "kafka-acls.sh --bootstrap-server {} --add --allow-principal User:ANONYMOUS --operation Read \
         --topic hello.checkpoints.internal",
        readers.1
    );
    assert_eq!(doctor.grants(), [command], "{:#}", doctor.flow);
    assert_eq!(doctor.flow["mirrored_by"], "mirror-maker-2");
    assert_eq!(doctor.errors(), ["missing-permission"].into(), "{:#}", doctor.flow);
    mm2.kill()?;
    Ok(())
}

fn properties(hello: &str, world: &str) -> String {
    format!(
        "clusters = hello, world
hello.bootstrap.servers = {hello}
world.bootstrap.servers = {world}
hello->world.enabled = true
hello->world.topics = orders
hello->world.groups = app
hello->world.sync.group.offsets.enabled = true
emit.heartbeats.enabled = false
emit.checkpoints.interval.seconds = 1
sync.group.offsets.interval.seconds = 1
refresh.topics.interval.seconds = 2
refresh.groups.interval.seconds = 2
world.offset.flush.interval.ms = 1000
hello.scheduled.rebalance.max.delay.ms = 0
world.scheduled.rebalance.max.delay.ms = 0
sync.topic.acls.enabled = false
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
"
    )
}

fn ask(args: &[&str]) -> Result<Answer> {
    let output = Twinlog::output(Path::new(env!("CARGO_BIN_EXE_twinlog")), args)?;
    let document: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        format!("{args:?}: no JSON: {error}: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(Answer { exit: output.status.code(), flow: document["flows"][0].clone() })
}

fn wanted() -> BTreeSet<String> {
    let line = |(on, operation, kind, name): &(&str, &str, &str, &str)| {
        format!("{on} {operation} {kind} {name}")
    };
    NEEDED.iter().map(line).collect()
}

impl Scene {
    fn acls(&self, args: &[&str]) -> Result {
        let output = self.shell.tool(ACLS, args)?;
        if output.success { Ok(()) } else { Err(format!("{args:?}: {output:?}").into()) }
    }

    /// Runs a command as it was printed, but for the listener: its own may not alter ACLs.
    fn run(&self, command: &str, readers: &(String, String)) -> Result {
        let command = command
            .replace(&readers.0, &self.hello.bootstrap())
            .replace(&readers.1, &self.world.bootstrap());
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        self.acls(&words)
    }

    /// The ACLs that there are, as Kafka's own tool lists them.
    fn given(&self) -> Result<BTreeSet<String>> {
        let mut given = BTreeSet::new();
        for (on, cluster) in [("hello", &self.hello), ("world", &self.world)] {
            let at = cluster.bootstrap();
            let output = self.shell.tool(ACLS, &["--bootstrap-server", &at, "--list"])?;
            let mut resource = String::new();
            for line in output.stdout.lines() {
                let value = |key: &str| {
                    let (_, rest) = line.split_once(&format!("{key}="))?;
                    Some(rest.split([',', ')']).next().unwrap_or_default().to_owned())
                };
                if let (Some(kind), Some(name)) = (value("resourceType"), value("name")) {
                    resource = format!("{kind} {name}");
                } else if let Some(operation) = value("operation") {
                    given.insert(format!("{on} {operation} {resource}"));
                }
            }
        }
        Ok(given)
    }
}
