//! Connectors of MirrorMaker 2 on a Connect worker, each with a configuration of its own: what one says
//! and another does not.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use twinlog_testkit::ports::Port;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{Process, Scratch, wait_until_some};

use crate::setup::{self, Doctor, LIMIT, Result, Scene};

const IDENTITY: &str = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy";
const BYTES: &str = "org.apache.kafka.connect.converters.ByteArrayConverter";
/// An answer of its REST API takes no longer, also while it is busy.
const ANSWER: Duration = Duration::from_secs(30);

/// A Connect worker, on the target.
struct Worker {
    process: Process,
    port: Port,
    _scratch: Scratch,
}

impl Worker {
    fn start(scene: &Scene) -> Result<Self> {
        let (scratch, port) = (Scratch::new("connect")?, Port::take()?);
        let text = format!(
            "bootstrap.servers = {}\ngroup.id = faults-connect\nlisteners = http://127.0.0.1:{}\n\
             key.converter = {BYTES}\nvalue.converter = {BYTES}\nheader.converter = {BYTES}\n\
             config.storage.topic = faults-configs\noffset.storage.topic = faults-offsets\n\
             status.storage.topic = faults-status\nconfig.storage.replication.factor = 1\n\
             offset.storage.replication.factor = 1\nstatus.storage.replication.factor = 1\n\
             offset.storage.partitions = 1\nstatus.storage.partitions = 1\n\
             offset.flush.interval.ms = 1000\nplugin.discovery = service_load\n",
            scene.target(),
            port.number()
        );
        let file = scratch.write("connect.properties", &text)?;
        let mut java = scene.jars.java(512, "INFO");
        java.arg("org.apache.kafka.connect.cli.ConnectDistributed").arg(&file);
        let process = Process::start("connect", java, &scratch.path().join("connect.log"))?;
        let worker = Self { process, port, _scratch: scratch };
        wait_until_some("a Connect worker", LIMIT, || {
            let code = worker.ask("GET", "/connectors", "").map_err(|error| error.to_string())?;
            if code == 200 { Ok(()) } else { Err(code.to_string()) }
        })?;
        Ok(worker)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    /// The code of its answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> Result<u16> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port.number()))?;
        stream.set_read_timeout(Some(ANSWER))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.ok_or_else(|| format!("no answer to {method} {path}: {answer}").into())
    }

    /// A connector of the flow from `alias` to `world`, of its topics and groups.
    fn connector(&self, scene: &Scene, alias: &str, class: &str, more: &[(&str, &str)]) -> Result {
        let mut config = json!({
            "connector.class": format!("org.apache.kafka.connect.mirror.{class}"),
            "source.cluster.alias": alias,
            "target.cluster.alias": "world",
            "source.cluster.bootstrap.servers": scene.source(),
            "target.cluster.bootstrap.servers": scene.target(),
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "sync.topic.configs.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "refresh.topics.interval.seconds": "2",
        });
        for (key, value) in more {
            config[*key] = Value::from(*value);
        }
        let path = format!("/connectors/{alias}-{class}/config");
        Ok(wait_until_some(&format!("{path} taken"), LIMIT, || {
            let code = self.ask("PUT", &path, &config.to_string()).map_err(|e| e.to_string())?;
            // 409: the worker is just sharing its work out.
            if code < 300 { Ok(()) } else { Err(code.to_string()) }
        })?)
    }
}

type Keys<'a> = Vec<(&'a str, &'a str)>;

/// The keys of a source connector, and of a checkpoint connector beside it.
fn keys(topics: &str) -> (Keys<'_>, Keys<'_>) {
    let source = vec![("topics", topics)];
    let checkpoint = vec![
        ("topics", topics),
        ("groups", topics),
        ("sync.group.offsets.enabled", "true"),
        ("emit.checkpoints.interval.seconds", "1"),
        ("sync.group.offsets.interval.seconds", "1"),
        ("refresh.groups.interval.seconds", "2"),
    ];
    (source, checkpoint)
}

pub(crate) fn apart() -> TestResult {
    let scene = setup::scene()?;
    for name in ["apart", "named", "whole"] {
        scene.filled(&format!("{name}-topic"), 100)?;
        scene.commit(&format!("{name}-group"), &format!("{name}-topic"), 100)?;
    }
    let worker = Worker::start(scene)?;
    let (source_class, checkpoint_class) = ("MirrorSourceConnector", "MirrorCheckpointConnector");
    // Nothing is wrong with these.
    let (source, checkpoint) = keys("whole-.*");
    worker.connector(scene, "whole", source_class, &source)?;
    worker.connector(scene, "whole", checkpoint_class, &checkpoint)?;
    // The pairs of offsets are written in one place and read in another.
    let (source, mut checkpoint) = keys("apart-.*");
    worker.connector(scene, "apart", source_class, &source)?;
    checkpoint.push(("offset-syncs.topic.location", "target"));
    worker.connector(scene, "apart", checkpoint_class, &checkpoint)?;
    // How topics are named is said to the source connector alone.
    let (mut source, checkpoint) = keys("named-.*");
    source.push(("replication.policy.class", IDENTITY));
    worker.connector(scene, "named", source_class, &source)?;
    worker.connector(scene, "named", checkpoint_class, &checkpoint)?;
    for mirror in ["whole.whole-topic", "apart.apart-topic", "named-topic"] {
        scene.until_end(mirror, 100)?;
    }

    let said = |name: &str| {
        let lines = ["topics", "groups"].map(|key| format!("{key} = {name}-.*"));
        let policy = format!("replication.policy.class = {IDENTITY}");
        let sync = "sync.group.offsets.enabled = true".to_owned();
        let mut all = lines.to_vec();
        all.extend([sync].into_iter().chain((name == "named").then_some(policy)));
        all
    };
    let names = ["whole", "apart", "named"];
    let said: Vec<Vec<String>> = names.iter().map(|name| said(name)).collect();
    let said: Vec<Vec<&str>> =
        said.iter().map(|lines| lines.iter().map(String::as_str).collect()).collect();
    let flows = names.iter().zip(&said).map(|(name, lines)| (*name, "world", &lines[..]));
    let text = setup::file(scene, &flows.collect::<Vec<_>>());
    let doctor = Doctor::new(&text)?.with(&["--connect-url", &worker.url()]);
    scene.until_stands("whole-group", "whole.whole-topic", 100)?;
    doctor.until("whole->world", ["--group", "whole-group"], &[])?;

    let apart = ["offset-syncs-location-mismatch"];
    let found = doctor.until("apart->world", ["--group", "apart-group"], &apart)?;
    let reader = format!("{}/connectors/apart-{checkpoint_class}/config", worker.url());
    let said = [reader.as_str(), r#"{\"offset-syncs.topic.location\":\"source\"}"#];
    found.says("offset-syncs-location-mismatch", &said)?;
    assert_eq!(scene.stands("apart-group", "apart.apart-topic", 0)?, None);

    let found = doctor.until("named->world", ["--group", "named-group"], &["policy-mismatch"])?;
    let names =
        "named-topic is copied to named-topic, and groups are looked for on named.named-topic";
    found.says("policy-mismatch", &[names])?;
    worker.process.kill()?;
    Ok(())
}
