//! What the tests share: clusters, a JVM for each version of Kafka's clients, and their tools.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use twinlog_testkit::{
    Embedded, Jars, JavaTool, KafkaVersion, Shell, ToolOutput, availability, wait_until_some,
};

/// Of a test or of something it asks.
pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Far more than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// A cluster, and Kafka's clients of one version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) version: KafkaVersion,
    pub(crate) jars: &'static Jars,
    pub(crate) shell: &'static Shell,
    pub(crate) bootstrap: &'static str,
}

/// Kafka's jars, and a JVM with its clients.
#[derive(Debug)]
struct Clients {
    jars: Jars,
    shell: Shell,
}

type Shared<T> = LazyLock<std::result::Result<T, String>>;

fn clients(version: KafkaVersion) -> std::result::Result<Clients, String> {
    let start = || {
        let jars = availability()?.jars(version)?;
        let shell = Shell::start(&jars)?;
        Ok(Clients { jars, shell })
    };
    start().map_err(|error: twinlog_testkit::Error| error.to_string())
}

fn cluster(args: &[&str]) -> std::result::Result<Embedded, String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_twinlog"));
    Embedded::start(binary, args).map_err(|error| error.to_string())
}

static NEW_CLIENTS: Shared<Clients> = LazyLock::new(|| clients(KafkaVersion::V4_3_0));
static OLD_CLIENTS: Shared<Clients> = LazyLock::new(|| clients(KafkaVersion::V3_9_1));
/// Of several brokers, so that clients have to find leaders and coordinators.
static NEW_CLUSTER: Shared<Embedded> =
    LazyLock::new(|| cluster(&["--brokers", "3", "--kafka-version", "4.3"]));
static OLD_CLUSTER: Shared<Embedded> = LazyLock::new(|| cluster(&["--kafka-version", "3.9"]));

fn scene(
    version: KafkaVersion,
    clients: &'static Shared<Clients>,
    cluster: &'static Shared<Embedded>,
) -> Result<Scene> {
    let clients = clients.as_ref().map_err(String::as_str)?;
    let cluster = cluster.as_ref().map_err(String::as_str)?;
    let bootstrap = cluster.bootstrap();
    Ok(Scene { version, jars: &clients.jars, shell: &clients.shell, bootstrap })
}

/// Clients of 4.3.0, a cluster of 4.3.
pub(crate) fn new_on_new() -> Result<Scene> {
    scene(KafkaVersion::V4_3_0, &NEW_CLIENTS, &NEW_CLUSTER)
}

/// Clients of 3.9.1, a cluster of 3.9.
pub(crate) fn old_on_old() -> Result<Scene> {
    scene(KafkaVersion::V3_9_1, &OLD_CLIENTS, &OLD_CLUSTER)
}

/// Clients of 3.9.1, a cluster of 4.3.
pub(crate) fn old_on_new() -> Result<Scene> {
    scene(KafkaVersion::V3_9_1, &OLD_CLIENTS, &NEW_CLUSTER)
}

/// Clients of 4.3.0, a cluster of 3.9.
pub(crate) fn new_on_old() -> Result<Scene> {
    scene(KafkaVersion::V4_3_0, &NEW_CLIENTS, &OLD_CLUSTER)
}

impl Scene {
    /// A name that no other test has on this cluster.
    pub(crate) fn name(&self, name: &str) -> String {
        let version = match self.version {
            KafkaVersion::V4_3_0 => "new",
            KafkaVersion::V3_9_1 | KafkaVersion::V3_4_0 => "old",
        };
        format!("{name}-{version}")
    }

    /// Runs a tool against the cluster in the JVM that is there.
    pub(crate) fn output(&self, class: &str, args: &[&str]) -> Result<ToolOutput> {
        let mut all = vec!["--bootstrap-server", self.bootstrap];
        all.extend(args);
        Ok(self.shell.tool(class, &all)?)
    }

    /// The same of a tool that must end well; its standard output.
    pub(crate) fn tool(&self, class: &str, args: &[&str]) -> Result<String> {
        let output = self.output(class, args)?;
        if output.success && !output.stderr.contains("Error") && !output.stdout.contains("Error:") {
            return Ok(output.stdout);
        }
        Err(format!("{class} {args:?}: {output:?}").into())
    }

    /// Reads `count` records with `kafka-console-consumer`, in a JVM of its own.
    pub(crate) fn consume(
        &self,
        topic: &str,
        group: &str,
        count: usize,
        properties: &[&str],
    ) -> Result<Vec<String>> {
        let count = count.to_string();
        let mut args = vec!["--bootstrap-server", self.bootstrap, "--topic", topic];
        args.extend(["--group", group, "--from-beginning", "--max-messages", &count]);
        // Not to wait for what never comes.
        args.extend(["--timeout-ms", "90000"]);
        for property in properties {
            args.extend([self.property_flag(), *property]);
        }
        let output = JavaTool::new(self.jars, JavaTool::CONSOLE_CONSUMER).args(args).run()?;
        Ok(output.lines().map(str::to_owned).collect())
    }

    /// How the console consumer takes properties of its client.
    pub(crate) fn property_flag(&self) -> &'static str {
        match self.version {
            KafkaVersion::V4_3_0 => "--command-property",
            KafkaVersion::V3_9_1 | KafkaVersion::V3_4_0 => "--consumer-property",
        }
    }

    /// Waits until a group is in a state.
    pub(crate) fn wait_for_state(&self, group: &str, wanted: &str) -> Result {
        let what = format!("group {group} {wanted}");
        Ok(wait_until_some(&what, LIMIT, || match self.shell.groups(self.bootstrap) {
            Ok(groups) if groups.get(group).is_some_and(|state| state == wanted) => Ok(()),
            Ok(groups) => Err(format!("{:?}", groups.get(group))),
            Err(error) => Err(error.to_string()),
        })?)
    }

    /// What a group has committed, without zero partitions.
    pub(crate) fn committed(&self, group: &str, topic: &str) -> Result<Vec<(i32, i64)>> {
        let committed = self.shell.committed(self.bootstrap, group)?;
        let partitions = committed.get(topic).into_iter().flatten();
        Ok(partitions.map(|(&partition, committed)| (partition, committed.offset)).collect())
    }
}

/// The rows of a table that a tool printed, by the names in its head.
pub(crate) fn table<'a>(output: &'a str, columns: &[&str]) -> Result<Vec<Vec<&'a str>>> {
    let mut lines = output.lines().filter(|line| !line.trim().is_empty());
    let head = lines
        .find(|line| columns.iter().all(|column| line.split_whitespace().any(|c| c == *column)))
        .ok_or_else(|| format!("no table with {columns:?} in {output}"))?;
    let head: Vec<&str> = head.split_whitespace().collect();
    let places: Vec<usize> =
        columns.iter().filter_map(|column| head.iter().position(|found| found == column)).collect();
    let row = |line: &'a str| -> Option<Vec<&'a str>> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        places.iter().map(|&place| fields.get(place).copied()).collect()
    };
    Ok(lines.filter_map(row).collect())
}
