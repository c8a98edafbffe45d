//! The scene: two clusters, what lies in them, the groups, and the properties file.
//!
//! Does not: mirror, or judge what was mirrored.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use twinlog_embedded::{AdminError, EmbeddedCluster, EmbeddedOptions, GroupKind};
use twinlog_types::Code;

use super::ledger::{COMPACTED, Ledger, Place};
use crate::config;
use crate::output::{Failure, NOT_FOUND_OUT};

const HOST: &str = "127.0.0.1";
/// Records of one batch of the backlog.
const BATCH: u64 = 500;
/// Records of one transaction.
const TRANSACTION: u64 = 50;
/// What the records of one cluster may take; beyond it the oldest go.
const LOG_BYTES_MAX: usize = 64 << 20;

/// Which of the two flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// `hello->world`.
    There,
    /// `world->hello`.
    Back,
}

/// How the records of a topic are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    Plainly,
    /// In transactions of which every fifth is aborted.
    InTransactions,
    /// By key; then the cleaner runs.
    AndCompacted,
}

/// A topic of the demo.
pub(super) struct Topic {
    pub(super) way: Way,
    pub(super) name: &'static str,
    pub(super) partitions: &'static [Partition],
    pub(super) written: Written,
    /// What is special about it.
    pub(super) what: &'static str,
}

pub(super) struct Partition {
    /// Where the source's log begins: what was there before is gone.
    start: i64,
    /// Records before the mirror starts.
    backlog: u64,
}

const fn part(start: i64, backlog: u64) -> Partition {
    Partition { start, backlog }
}

pub(super) const TOPICS: [Topic; 4] = [
    Topic {
        way: Way::There,
        name: "orders",
        partitions: &[part(731_000, 200_000), part(184_500, 100_000)],
        written: Written::Plainly,
        what: "the first records are gone",
    },
    Topic {
        way: Way::There,
        name: "payments",
        partitions: &[part(52_300, 80_000)],
        written: Written::InTransactions,
        what: "1 in 5 transactions aborts",
    },
    Topic {
        way: Way::There,
        name: COMPACTED,
        partitions: &[part(9_100, 60_000)],
        written: Written::AndCompacted,
        what: "compacted, 2 of 3 are gone",
    },
    Topic {
        way: Way::Back,
        name: "returns",
        partitions: &[part(3_000, 20_000)],
        written: Written::Plainly,
        what: "its flow syncs no groups",
    },
];

/// Where a group stands on its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stands {
    /// So many records behind, and reading on.
    Follows(usize),
    /// At an offset so far behind the start of the log.
    At(i64),
}

/// An offset of `orders` that people may want to translate.
pub(super) const EXAMPLE_OFFSET: i64 = 881_000;

/// A group of the demo.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) way: Way,
    pub(super) place: Place,
    pub(super) stands: Stands,
    pub(super) what: &'static str,
    /// Why it is not synced, where it must not be.
    pub(super) unsynced: Option<Code>,
}

impl Group {
    const fn synced(name: &'static str, place: Place, stands: Stands, what: &'static str) -> Self {
        Self { name, way: Way::There, place, stands, what, unsynced: None }
    }
}

/// The group whose member lives on the target.
pub(super) const LIVE: &str = "fraud";
/// How far its own member has read there.
pub(super) const LIVE_READ: i64 = 12_000;

pub(super) const GROUPS: [Group; 8] = [
    Group::synced("billing", ("orders", 0), Stands::Follows(0), "at the tip"),
    Group::synced("shipping", ("orders", 1), Stands::Follows(1), "1 behind"),
    Group::synced("reports", ("orders", 0), Stands::Follows(50_000), "50,000 behind"),
    // The transactions are 51 offsets long with their markers; the fifth one is aborted.
    Group::synced("audit", ("payments", 0), Stands::At(51 * 504 + 20), "in aborted data"),
    // Two of three records are gone.
    Group::synced("search", (COMPACTED, 0), Stands::At(15_001), "in a hole"),
    Group {
        name: LIVE,
        way: Way::There,
        place: ("orders", 1),
        stands: Stands::At(30_000),
        what: "lives on world",
        unsynced: Some(Code::GroupLiveOnTarget),
    },
    Group {
        name: "adhoc-lena",
        way: Way::There,
        place: ("orders", 0),
        stands: Stands::At(42_000),
        what: "excluded",
        unsynced: Some(Code::GroupExcluded),
    },
    Group {
        name: "returns-app",
        way: Way::Back,
        place: ("returns", 0),
        stands: Stands::At(9_000),
        what: "sync is off",
        unsynced: Some(Code::SyncDisabled),
    },
];

impl Topic {
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        (0..).zip(self.partitions).map(|(partition, _)| (self.name, partition))
    }

    /// Where the source's logs begin, by partition.
    pub(super) fn starts(&self) -> Vec<i64> {
        self.partitions.iter().map(|partition| partition.start).collect()
    }
}

/// The start of the source's log.
pub(super) fn start((topic, partition): Place) -> i64 {
    let found = TOPICS.iter().find(|known| known.name == topic);
    let partition = usize::try_from(partition).unwrap_or_default();
    found.and_then(|topic| topic.partitions.get(partition)).map_or(0, |found| found.start)
}

/// The only one who writes to a cluster, and so knows what lies in it.
pub(super) struct Writer {
    pub(super) cluster: EmbeddedCluster,
    pub(super) ledger: Ledger,
    /// How many transactions there were.
    transactions: u64,
    /// A dead cluster takes nothing.
    alive: bool,
}

impl Writer {
    /// Appends records as one batch. Nothing happens while the cluster is dead.
    pub(super) fn append(&mut self, place: Place, count: u64) -> Result<(), AdminError> {
        if self.alive {
            let records = self.ledger.next(place, count);
            let offset = self.cluster.append(place.0, place.1, &records)?;
            self.ledger.written(place, offset, count);
        }
        Ok(())
    }

    /// Writes records in a transaction; every fifth is aborted.
    pub(super) fn transact(&mut self, place: Place, count: u64) -> Result<(), AdminError> {
        if self.alive {
            self.transactions += 1;
            let commit = !self.transactions.is_multiple_of(5);
            let records = self.ledger.next(place, count);
            let mut transaction = self.cluster.begin_transaction();
            let offset = self.cluster.append_in(&mut transaction, place.0, place.1, &records)?;
            self.cluster.end_transaction(transaction, commit)?;
            if commit {
                self.ledger.written(place, offset, count);
            }
        }
        Ok(())
    }

    /// Kills the cluster. Every record that was acknowledged is in the ledger.
    pub(super) fn kill(&mut self) {
        for id in 1..=self.cluster.addresses().len() {
            self.cluster.kill_broker(id as i32);
        }
        self.alive = false;
    }

    /// Starts the cluster again; its logs are as they were.
    pub(super) fn restart(&mut self) {
        for id in 1..=self.cluster.addresses().len() {
            self.cluster.restart_broker(id as i32);
        }
        self.alive = true;
    }
}

/// A writer that several tasks use; no lock is held across an await.
#[derive(Clone)]
pub(super) struct SharedWriter(Arc<Mutex<Writer>>);

impl SharedWriter {
    fn new(cluster: &EmbeddedCluster) -> Self {
        let (cluster, ledger) = (cluster.clone(), Ledger::default());
        Self(Arc::new(Mutex::new(Writer { cluster, ledger, transactions: 0, alive: true })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The two clusters with what lies in them.
pub(super) struct Scene {
    pub(super) hello: EmbeddedCluster,
    pub(super) world: EmbeddedCluster,
    pub(super) on_hello: SharedWriter,
    pub(super) on_world: SharedWriter,
}

impl Scene {
    /// Starts both clusters on TCP ports.
    pub(super) async fn start(port_base: u16) -> Result<Self, Failure> {
        let (hello, world) = (cluster("hello"), cluster("world"));
        listen(&hello, port_base, port_base).await?;
        let second = match port_base {
            0 => 0,
            base => base.checked_add(1).ok_or_else(|| no_room(port_base))?,
        };
        listen(&world, second, port_base).await?;
        let (on_hello, on_world) = (SharedWriter::new(&hello), SharedWriter::new(&world));
        Ok(Self { hello, world, on_hello, on_world })
    }

    /// How many records of a topic a consumer of its source sees now.
    pub(super) fn written(&self, topic: &Topic) -> u64 {
        let writer = self.writer(topic.way).lock();
        topic.places().map(|place| writer.ledger.count(place)).sum()
    }

    /// Who writes what goes this way.
    pub(super) fn writer(&self, way: Way) -> &SharedWriter {
        match way {
            Way::There => &self.on_hello,
            Way::Back => &self.on_world,
        }
    }

    /// Where what goes this way is read, and where it is written.
    pub(super) fn sides(&self, way: Way) -> (&EmbeddedCluster, &EmbeddedCluster) {
        match way {
            Way::There => (&self.hello, &self.world),
            Way::Back => (&self.world, &self.hello),
        }
    }

    /// Writes everything that is there before the mirror starts, and makes the groups.
    pub(super) fn fill(&self) -> Result<(), AdminError> {
        for topic in &TOPICS {
            let mut writer = self.writer(topic.way).lock();
            let configs: &[(&str, &str)] = if topic.written == Written::AndCompacted {
                &[("cleanup.policy", "compact")]
            } else {
                &[]
            };
            let cluster = writer.cluster.clone();
            cluster.create_topic(topic.name, topic.partitions.len() as i32, configs)?;
            for (place, partition) in topic.places().zip(topic.partitions) {
                cluster.begin_at(place.0, place.1, partition.start)?;
                let batch =
                    if topic.written == Written::InTransactions { TRANSACTION } else { BATCH };
                for _ in 0..partition.backlog / batch {
                    match topic.written {
                        Written::InTransactions => writer.transact(place, batch)?,
                        _ => writer.append(place, batch)?,
                    }
                }
                if topic.written == Written::AndCompacted {
                    cluster.compact(place.0, place.1)?;
                    writer.ledger.compacted(place);
                }
            }
        }
        for group in &GROUPS {
            self.sides(group.way).0.set_group(group.name, GroupKind::Classic, false);
        }
        Ok(())
    }

    /// What MM2 and twinlog are told.
    pub(super) fn properties(&self) -> String {
        let there: Vec<&str> =
            TOPICS.iter().filter(|topic| topic.way == Way::There).map(|topic| topic.name).collect();
        format!(
            "\
# Written by `twinlog demo`, and gone with it. An ordinary MirrorMaker 2 file.
clusters = hello, world
hello.bootstrap.servers = {}
world.bootstrap.servers = {}

hello->world.enabled = true
hello->world.topics = {}
hello->world.sync.group.offsets.enabled = true
hello->world.groups.exclude = console-consumer-.*, connect-.*, __.*, adhoc-.*

# Nobody said world->hello.sync.group.offsets.enabled, and it is false unless somebody does.
world->hello.enabled = true
world->hello.topics = returns
world->hello.groups = returns-app

# Each cluster is one broker.
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
",
            self.hello.bootstrap(),
            self.world.bootstrap(),
            there.join(", "),
        )
    }
}

fn cluster(name: &str) -> EmbeddedCluster {
    let mut options = EmbeddedOptions::new(name);
    options.cluster_id = crate::embedded::cluster_id();
    options.seed = config::seed();
    options.epoch_ms = config::now_ms();
    options.log_bytes_max = Some(LOG_BYTES_MAX);
    // Nobody asks what was requested.
    options.requests_kept = 0;
    EmbeddedCluster::start(options)
}

async fn listen(cluster: &EmbeddedCluster, port: u16, port_base: u16) -> Result<(), Failure> {
    match cluster.listen_tcp(HOST, port).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(no_room(port_base)),
        Err(error) => Err(Failure {
            exit: NOT_FOUND_OUT,
            code: "port-in-use".into(),
            message: format!("cannot listen on {HOST}:{port}: {error}"),
            next: "choose two ports that are free: `twinlog demo --port-base 39092`, or \
                   `--port-base 0` for any"
                .into(),
            problems: Vec::new(),
        }),
    }
}

fn no_room(port_base: u16) -> Failure {
    Failure::usage(
        format!("--port-base {port_base}: two ports are needed, and there is only one"),
        "choose a smaller one, or 0 for any",
    )
}

/// The properties file, as long as the demo runs.
pub(super) struct File(PathBuf);

impl File {
    pub(super) fn write(text: &str, port: u16) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("twinlog-demo-{port}.properties"));
        let written = replace(&path, text);
        written.map_err(|error| Failure {
            exit: NOT_FOUND_OUT,
            code: "file-not-written".into(),
            message: format!("cannot write {}: {error}", path.display()),
            next: "free that name, or name another folder for temporary files in TMPDIR".into(),
            problems: Vec::new(),
        })?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

/// Writes a file that is new: in a folder that others write to, the name may be a link of theirs.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

impl Drop for File {
    fn drop(&mut self) {
        // What is left over lies in the folder for temporary files.
        let _ = fs::remove_file(&self.0);
    }
}
