//! KRaft clusters of real brokers on 127.0.0.1.
//!
//! One broker, or three with replication factor 3 and `min.insync.replicas` 2; each is broker and
//! controller at once. A broker formats its own storage on its first start (in the same JVM: a second one
//! would cost as long as the broker itself) and keeps port and data over stops and kills.
//!
//! The cleaner of compacted logs looks every 200 ms instead of every 15 s, so that a test can wait for
//! it; everything else is Kafka's default unless it must fit one machine.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::jars::{Jars, KafkaVersion};
use crate::ports::{Port, random};
use crate::process::{Process, Signal};
use crate::scratch::Scratch;
use crate::wait::wait_until_some;

/// How long a start may take: the machine may be compiling beside us.
const START: Duration = Duration::from_secs(90);
/// How long a stop may take: a controlled shutdown waits for leaders to move.
const STOP: Duration = Duration::from_mins(1);

/// What kind of cluster to start.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// How many brokers.
    pub brokers: usize,
    /// Lines of `server.properties`, over the defaults here.
    pub properties: Vec<(String, String)>,
    /// Heap per broker in MiB.
    pub heap_mib: u32,
    /// Security protocols of further listeners, each on a port of its own: `SSL`, `SASL_PLAINTEXT`,
    /// `SASL_SSL`. What they need (key stores, mechanisms) is in `properties`.
    pub listeners: Vec<String>,
    /// Arguments for the storage formatter, such as `--add-scram`.
    pub format_args: Vec<String>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            brokers: 1,
            properties: Vec::new(),
            heap_mib: 512,
            listeners: Vec::new(),
            format_args: Vec::new(),
        }
    }
}

impl ClusterOptions {
    /// Three brokers, replication factor 3, two in-sync replicas needed.
    pub fn three() -> Self {
        Self { brokers: 3, ..Self::default() }
    }

    /// Adds a listener of this security protocol.
    pub fn listener(mut self, protocol: &str) -> Self {
        self.listeners.push(protocol.to_owned());
        self
    }

    /// Adds arguments for the storage formatter, for example `["--add-scram",
    /// "SCRAM-SHA-512=[name=alice,password=secret]"]`.
    pub fn format_args(mut self, args: &[&str]) -> Self {
        self.format_args.extend(args.iter().map(|&arg| arg.to_owned()));
        self
    }

    /// Sets a line of `server.properties`.
    pub fn property(mut self, key: &str, value: impl Into<String>) -> Self {
        self.properties.retain(|(k, _)| k != key);
        self.properties.push((key.to_owned(), value.into()));
        self
    }
}

/// A running cluster. Dropping it kills the brokers and removes their data.
#[derive(Debug)]
pub struct KafkaCluster {
    name: String,
    brokers: Vec<Broker>,
}

impl KafkaCluster {
    /// Starts a cluster and waits until it answers.
    pub fn start(jars: &Jars, name: &str, options: &ClusterOptions) -> Result<Self> {
        let cluster = Self::launch(jars, name, options)?;
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// Starts two clusters at once, which takes hardly longer than one.
    pub fn start_two(
        (source_jars, source_name, source): (&Jars, &str, &ClusterOptions),
        (target_jars, target_name, target): (&Jars, &str, &ClusterOptions),
    ) -> Result<(Self, Self)> {
        let source = Self::launch(source_jars, source_name, source)?;
        let target = Self::launch(target_jars, target_name, target)?;
        source.wait_until_ready()?;
        target.wait_until_ready()?;
        Ok((source, target))
    }

    /// Starts the brokers of a cluster without waiting for them.
    pub fn launch(jars: &Jars, name: &str, options: &ClusterOptions) -> Result<Self> {
        let ports = (0..options.brokers)
            .map(|_| Ports::take(&options.listeners))
            .collect::<Result<Vec<_>>>()?;
        let voters: Vec<String> = ports
            .iter()
            .enumerate()
            .map(|(index, ports)| format!("{}@127.0.0.1:{}", index + 1, ports.controller.number()))
            .collect();
        let voters = voters.join(",");
        let cluster_id = random_uuid();

        let mut brokers = Vec::new();
        for (index, ports) in ports.into_iter().enumerate() {
            let node = index + 1;
            let label = format!("{name}-{node}");
            let scratch = Scratch::new(&label)?;
            let data = scratch.path().join("data");
            let mut lines = default_properties(node, options.brokers, &ports);
            lines.push(("controller.quorum.voters".into(), voters.clone()));
            lines.push(("log.dirs".into(), data.display().to_string()));
            for (key, value) in &options.properties {
                lines.retain(|(k, _)| k != key);
                lines.push((key.clone(), value.clone()));
            }
            let mut text = String::new();
            for (key, value) in lines {
                let _ = writeln!(text, "{key}={value}");
            }
            let properties = scratch.write("server.properties", &text)?;
            let mut broker = Broker {
                node,
                label,
                jars: jars.clone(),
                heap_mib: options.heap_mib,
                cluster_id: cluster_id.clone(),
                brokers: options.brokers,
                format_args: options.format_args.clone(),
                ports,
                properties,
                process: None,
                starts: 0,
                scratch,
            };
            broker.launch()?;
            brokers.push(broker);
        }
        Ok(Self { name: name.to_owned(), brokers })
    }

    /// Waits until every running broker answers and knows all of them.
    pub fn wait_until_ready(&self) -> Result<()> {
        for broker in self.brokers.iter().filter(|broker| broker.is_running()) {
            broker.wait_until_ready()?;
        }
        Ok(())
    }

    /// The name given at the start.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `bootstrap.servers` of all brokers.
    pub fn bootstrap(&self) -> String {
        let addresses: Vec<String> = self.brokers.iter().map(Broker::address).collect();
        addresses.join(",")
    }

    /// `bootstrap.servers` of the listeners with this security protocol; empty where there are none.
    pub fn bootstrap_of(&self, protocol: &str) -> String {
        let addresses: Vec<String> =
            self.brokers.iter().filter_map(|broker| broker.address_of(protocol)).collect();
        addresses.join(",")
    }

    /// The cluster's brokers.
    pub fn brokers(&self) -> &[Broker] {
        &self.brokers
    }

    /// The broker with this `node.id`, from 1.
    pub fn broker(&mut self, node: usize) -> &mut Broker {
        &mut self.brokers[node - 1]
    }

    /// Stops all brokers in good order (SIGTERM).
    pub fn stop(&mut self) -> Result<()> {
        // All at once: the last controllers of a quorum would wait for the ones that have gone.
        for broker in &self.brokers {
            broker.signal(Signal::Term)?;
        }
        self.brokers.iter_mut().try_for_each(Broker::stop)
    }

    /// Kills all brokers (SIGKILL).
    pub fn kill(&mut self) -> Result<()> {
        self.brokers.iter_mut().try_for_each(Broker::kill)
    }

    /// Starts all brokers that do not run, on their old data and ports, and waits until they answer.
    pub fn restart(&mut self) -> Result<()> {
        for broker in &mut self.brokers {
            if !broker.is_running() {
                broker.launch()?;
            }
        }
        self.wait_until_ready()
    }
}

/// The ports of one broker.
#[derive(Debug)]
struct Ports {
    plaintext: Port,
    controller: Port,
    /// By security protocol.
    more: Vec<(String, Port)>,
}

impl Ports {
    fn take(listeners: &[String]) -> Result<Self> {
        let more = listeners.iter().map(|protocol| Ok((protocol.clone(), Port::take()?)));
        Ok(Self {
            more: more.collect::<Result<_>>()?,
            plaintext: Port::take()?,
            controller: Port::take()?,
        })
    }

    /// The listeners for clients, as `advertised.listeners` has them.
    fn advertised(&self) -> String {
        let mut listeners = format!("PLAINTEXT://127.0.0.1:{}", self.plaintext.number());
        for (protocol, port) in &self.more {
            let _ = write!(listeners, ",{protocol}://127.0.0.1:{}", port.number());
        }
        listeners
    }
}

/// One broker of a cluster.
#[derive(Debug)]
pub struct Broker {
    node: usize,
    label: String,
    jars: Jars,
    heap_mib: u32,
    cluster_id: String,
    brokers: usize,
    format_args: Vec<String>,
    /// Kept, so that nobody else takes them while the broker is down.
    ports: Ports,
    properties: PathBuf,
    /// Before the folder: a program must end before its data goes.
    process: Option<Process>,
    starts: u32,
    scratch: Scratch,
}

impl Broker {
    /// Its `node.id`.
    pub fn node(&self) -> usize {
        self.node
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.ports.plaintext.number()
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// `127.0.0.1:port` of the listener with this security protocol, where it has one.
    pub fn address_of(&self, protocol: &str) -> Option<String> {
        let port = self.ports.more.iter().find(|(name, _)| name == protocol)?;
        Some(format!("127.0.0.1:{}", port.1.number()))
    }

    /// Its Kafka version.
    pub fn version(&self) -> KafkaVersion {
        self.jars.version()
    }

    /// Where its logs of records are (`log.dirs`).
    pub fn data_dir(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// The process of the newest start.
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// Whether it runs (a paused one does).
    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_running)
    }

    /// Starts it on its old data and waits until it answers.
    pub fn restart(&mut self) -> Result<()> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// Stops it in good order (SIGTERM).
    pub fn stop(&mut self) -> Result<()> {
        match &self.process {
            Some(process) => process.stop(STOP).map(drop),
            None => Ok(()),
        }
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) -> Result<()> {
        match &self.process {
            Some(process) => process.kill().map(drop),
            None => Ok(()),
        }
    }

    /// Freezes it (SIGSTOP): connections stay open and nothing answers.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::Stop)
    }

    /// Thaws it (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::Cont)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.as_ref().map_or(Ok(()), |process| process.signal(signal))
    }

    fn launch(&mut self) -> Result<()> {
        self.starts += 1;
        let log = self.scratch.path().join(format!("broker-{}.log", self.starts));
        let mut java = self.jars.java(self.heap_mib, "INFO");
        java.arg("Broker").arg(&self.properties).arg(&self.cluster_id).args(&self.format_args);
        self.process = Some(Process::start(&format!("broker {}", self.label), java, &log)?);
        Ok(())
    }

    fn wait_until_ready(&self) -> Result<()> {
        let Some(process) = &self.process else {
            let program = format!("broker {}", self.label);
            let status = "nothing: it was never started".to_owned();
            return Err(Error::Failed { program, status, output: String::new() });
        };
        process.wait_for_log("Kafka Server started", START)?;
        // Controllers that are voters but down never register: then one broker alone is enough.
        let wanted = self.brokers / 2 + 1;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()));
        let what = format!("metadata of {wanted} brokers from broker {}", self.label);
        wait_until_some(&what, START, || match metadata_brokers(address) {
            Ok(count) if count >= wanted => Ok(()),
            Ok(count) => Err(format!("{count} brokers")),
            Err(error) => Err(error.to_string()),
        })
    }
}

fn default_properties(node: usize, brokers: usize, ports: &Ports) -> Vec<(String, String)> {
    let factor = brokers.min(3).to_string();
    let in_sync = if brokers >= 3 { "2" } else { "1" };
    let node = node.to_string();
    let advertised = ports.advertised();
    let controller = ports.controller.number();
    let listeners = format!("{advertised},CONTROLLER://127.0.0.1:{controller}");
    let protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,\
                     SASL_PLAINTEXT:SASL_PLAINTEXT";
    let lines: &[(&str, &str)] = &[
        ("process.roles", "broker,controller"),
        ("node.id", &node),
        ("listeners", &listeners),
        ("advertised.listeners", &advertised),
        ("controller.listener.names", "CONTROLLER"),
        ("listener.security.protocol.map", protocols),
        ("inter.broker.listener.name", "PLAINTEXT"),
        ("default.replication.factor", &factor),
        ("min.insync.replicas", in_sync),
        ("offsets.topic.replication.factor", &factor),
        ("offsets.topic.num.partitions", "5"),
        ("transaction.state.log.replication.factor", &factor),
        ("transaction.state.log.min.isr", in_sync),
        ("transaction.state.log.num.partitions", "5"),
        ("share.coordinator.state.topic.replication.factor", &factor),
        ("share.coordinator.state.topic.min.isr", in_sync),
        ("share.coordinator.state.topic.num.partitions", "5"),
        ("group.initial.rebalance.delay.ms", "0"),
        ("log.cleaner.backoff.ms", "200"),
        ("log.cleaner.dedupe.buffer.size", "16777216"),
    ];
    lines.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Asks a broker how many brokers it knows: one Metadata request (v1, no topics) by hand, so that a
/// fault in our own client cannot hide behind a cluster that never became ready.
fn metadata_brokers(address: SocketAddr) -> std::io::Result<usize> {
    let limit = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    // Size, API key 3, version 1, correlation id 7, no client id, an array of no topics.
    stream.write_all(&[0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0])?;
    // Size, correlation id, then the array of brokers, whose length is all we want.
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let [.., a, b, c, d] = head;
    usize::try_from(i32::from_be_bytes([a, b, c, d])).map_err(std::io::Error::other)
}

/// A cluster id as Kafka wants it: 16 bytes in URL-safe base 64 without padding. Letters alone, or the
/// formatter's command line could take it for an option.
fn random_uuid() -> String {
    const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let letter = |_| char::from(LETTERS[(random() % 52) as usize]);
    // The 22nd character carries the last two bits only.
    (0..21).map(letter).chain(['A']).collect()
}
