//! `twinlog embedded`: one in-memory Kafka cluster on TCP ports, until stopped.
//!
//! Does not: keep anything when it ends, check rights, or speak TLS or SASL; what the cluster can do
//! is decided in `twinlog-embedded`.
//!
//! # Invariants
//!
//! 1. The first line on standard output is the bootstrap address (or the document, under `--json`),
//!    and it is printed when the cluster can be reached.
//! 2. Without `--port` a port that is taken is no error; with it, it is.
//! 3. Every start is another cluster: its cluster id is new.

use std::collections::hash_map::RandomState;
use std::fmt::Write;
use std::hash::BuildHasher;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use twinlog_embedded::{AdminError, EmbeddedCluster, EmbeddedOptions, PARTITIONS_MAX};

use crate::args::{Embedded, KafkaVersion, NewTopic};
use crate::config;
use crate::output::{Failure, Output};
use crate::threads;

/// How often retention is checked (`log.retention.check.interval.ms`) and the log cleaner looks
/// (`log.cleaner.backoff.ms`): more often than a broker does, for those who try just that.
const RETENTION_CHECK: Duration = Duration::from_secs(10);
const CLEANER_CHECK: Duration = Duration::from_secs(2);

/// What brokers make for themselves, and nobody should write into.
const INTERNAL: [&str; 4] =
    ["__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"];

/// Kafka's port; used where it is free and nothing else is asked for.
const USUAL_PORT: u16 = 9092;

pub(crate) fn embedded(args: &Embedded) -> Result<ExitCode, Failure> {
    if args.host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) {
        return Err(Failure::usage(
            format!("--host {}: clients are sent to this address, and nothing is there", args.host),
            "name the address of this machine that clients can reach",
        ));
    }
    threads::block_on_threads(threads::FEW, serve(args))
}

async fn serve(args: &Embedded) -> Result<ExitCode, Failure> {
    let listened = |error| Failure::system("signals cannot be listened to", &error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(listened)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(listened)?;
    let cluster = EmbeddedCluster::start(options(args));
    for topic in &args.topics {
        create(&cluster, topic)?;
    }
    listen(&cluster, args).await?;
    if args.printing.json {
        Output::document(&document(&cluster, args))?;
    } else {
        Output::text(&format!("{}\n", cluster.bootstrap()))?;
        // Nowhere is left to say that standard error is closed.
        let _ = io::stderr().write_all(hints(&cluster.bootstrap(), args).as_bytes());
    }
    let mut due = tokio::time::interval(CLEANER_CHECK);
    loop {
        tokio::select! {
            _ = interrupt.recv() => {
                info!("Ctrl-C: ended");
                return Ok(ExitCode::SUCCESS);
            }
            _ = terminate.recv() => {
                info!("SIGTERM: ended");
                return Ok(ExitCode::SUCCESS);
            }
            // Whoever asks the cluster something lets it do what is due, also when no client does.
            _ = due.tick() => {
                cluster.now_ms();
            }
        }
    }
}

fn options(args: &Embedded) -> EmbeddedOptions {
    let mut options = EmbeddedOptions::new("embedded").with_brokers(i32::from(args.brokers));
    options.version = match args.kafka_version {
        KafkaVersion::V4_3 => twinlog_embedded::KafkaVersion::V4_3,
        KafkaVersion::V3_9 => twinlog_embedded::KafkaVersion::V3_9,
    };
    options.cluster_id = cluster_id();
    options.seed = config::seed();
    options.epoch_ms = config::now_ms();
    options.auto_create_topics = true;
    options.log_bytes_max = Some(args.memory);
    options.retention_check = Some(RETENTION_CHECK);
    options.cleaner_check = Some(CLEANER_CHECK);
    // Nobody asks what was requested, nor plans faults.
    options.requests_kept = 0;
    options
}

/// A cluster id of Kafka's form, 22 characters, that no other start has: mirrors tell clusters apart
/// by it.
pub(crate) fn cluster_id() -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let random = RandomState::new();
    (0..22_u8)
        .map(|position| {
            let random = random.hash_one((config::seed(), position));
            char::from(ALPHABET[(random % 64) as usize])
        })
        .collect()
}

fn create(cluster: &EmbeddedCluster, topic: &NewTopic) -> Result<(), Failure> {
    if INTERNAL.contains(&topic.name.as_str()) {
        return Err(Failure::usage(
            format!("--topics {}: brokers make and write this topic themselves", topic.name),
            "leave it out: it is there when it is needed",
        ));
    }
    if topic.partitions > PARTITIONS_MAX {
        return Err(Failure::usage(
            format!(
                "--topics {}:{}: a topic is made with at most {PARTITIONS_MAX} partitions, as by a \
                 Kafka controller",
                topic.name, topic.partitions
            ),
            "ask for fewer partitions",
        ));
    }
    cluster.create_topic(&topic.name, topic.partitions, &[]).map_err(|error| {
        let why = match error {
            AdminError::Refused { message, .. } => message,
            other => other.to_string(),
        };
        Failure::usage(
            format!("--topics {}: {why}", topic.name),
            "write topics like orders:3,payments, each one once",
        )
    })?;
    Ok(())
}

/// Listens at the ports that were asked for, or at the usual ones where they are free.
async fn listen(cluster: &EmbeddedCluster, args: &Embedded) -> Result<(), Failure> {
    let host = args.host.as_str();
    let wanted = args.port.unwrap_or(USUAL_PORT);
    let Err(error) = cluster.listen_tcp(host, wanted).await else { return Ok(()) };
    let taken = error.kind() == io::ErrorKind::AddrInUse;
    if taken && args.port.is_none() {
        return match cluster.listen_tcp(host, 0).await {
            Ok(_) => Ok(()),
            Err(error) => Err(unheard(args, 0, &error)),
        };
    }
    Err(unheard(args, wanted, &error))
}

/// Nobody can listen there.
fn unheard(args: &Embedded, wanted: u16, error: &io::Error) -> Failure {
    let last = u32::from(wanted) + u32::from(args.brokers) - 1;
    let (flag, ports) = match (wanted, args.brokers) {
        (0, _) => (format!("--host {}", args.host), "any port".to_owned()),
        (_, 1) => (format!("--port {wanted}"), format!("port {wanted}")),
        _ => (format!("--port {wanted}"), format!("ports {wanted} to {last}")),
    };
    let next = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "something listens there already: choose another with --port, or --port 0 for any free one"
        }
        io::ErrorKind::PermissionDenied => "choose a port above 1023 with --port",
        io::ErrorKind::InvalidInput => "choose a port that leaves room up to 65535 for all brokers",
        _ => "name an address of this machine with --host",
    };
    Failure::usage(format!("{flag}: cannot listen at {ports} of {}: {error}", args.host), next)
}

/// What people may want to try now.
fn hints(bootstrap: &str, args: &Embedded) -> String {
    let mut text = String::new();
    let brokers = if args.brokers == 1 { "broker" } else { "brokers" };
    let _ = writeln!(
        text,
        "{} {brokers} of Kafka {}, in memory: nothing is kept when this ends, with Ctrl-C.",
        args.brokers,
        args.kafka_version.word(),
    );
    let _ = writeln!(
        text,
        "Topics are made when they are first used. Records may take {} MiB; then the oldest go.",
        args.memory >> 20
    );
    if args.port.is_none() && !bootstrap.contains(&format!(":{USUAL_PORT}")) {
        let _ = writeln!(text, "Port {USUAL_PORT} is taken, so others were chosen (see --port).");
    }
    let topic = args.topics.first().map_or("orders", |topic| topic.name.as_str());
    let _ = write!(
        text,
        "Try:
  kafka-console-producer.sh --bootstrap-server {bootstrap} --topic {topic}
  kafka-console-consumer.sh --bootstrap-server {bootstrap} --topic {topic} --from-beginning
  kcat -b {bootstrap} -t {topic} -P
  kcat -b {bootstrap} -t {topic} -C -o beginning
"
    );
    text
}

#[derive(Serialize)]
struct Document<'a> {
    version: u8,
    bootstrap: String,
    brokers: Vec<Broker>,
    cluster_id: String,
    kafka_version: &'static str,
    topics: Vec<Topic<'a>>,
    memory_bytes: usize,
}

#[derive(Serialize)]
struct Broker {
    id: usize,
    host: String,
    port: u16,
}

#[derive(Serialize)]
struct Topic<'a> {
    topic: &'a str,
    partitions: i32,
}

fn document<'a>(cluster: &EmbeddedCluster, args: &'a Embedded) -> Document<'a> {
    let broker = |(index, (host, port))| Broker { id: index + 1, host, port };
    let topic = |topic: &'a NewTopic| Topic { topic: &topic.name, partitions: topic.partitions };
    Document {
        version: 1,
        bootstrap: cluster.bootstrap(),
        brokers: cluster.addresses().into_iter().enumerate().map(broker).collect(),
        cluster_id: cluster.cluster_id(),
        kafka_version: args.kafka_version.word(),
        topics: args.topics.iter().map(topic).collect(),
        memory_bytes: args.memory,
    }
}

#[cfg(test)]
mod tests {
    use super::cluster_id;

    #[test]
    fn cluster_ids_have_kafkas_form_and_are_new_each_time() {
        let (one, other) = (cluster_id(), cluster_id());
        assert_eq!(one.len(), 22);
        assert!(one.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')));
        assert_ne!(one, other);
    }
}
