//! Producers that go on while the mirror runs, and consumers that follow them.
//!
//! Does not: begin or end anything by itself; the demo says how fast, and when.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::warn;
use twinlog_client::ClientError;
use twinlog_embedded::AdminError;
use twinlog_types::{GroupId, TopicPartition};

use super::look::Clients;
use super::scene::{GROUPS, Scene, SharedWriter, Stands, start};
use crate::output::Failure;

/// How fast the producers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    /// While people wait for the result.
    Busy,
    /// While they look around.
    Calm,
    Stopped,
}

/// Records of one round in each partition, and the time between two rounds.
const BUSY: (u64, Duration) = (20, Duration::from_millis(20));
/// Slow enough that between two rounds everything is seen in sync.
const CALM: (u64, Duration) = (25, Duration::from_secs(5));

/// Records that a second brings, transactions left aside.
pub(super) const BUSY_PER_SECOND: u64 = per_second(BUSY);
pub(super) const CALM_PER_SECOND: u64 = per_second(CALM);

const fn per_second((records, between): (u64, Duration)) -> u64 {
    2 * records * 1_000 / (between.as_millis() as u64)
}

/// The running producers.
pub(super) struct Traffic {
    pace: watch::Sender<Pace>,
    task: JoinHandle<()>,
}

impl Traffic {
    pub(super) fn start(writer: SharedWriter) -> Self {
        let (pace, paced) = watch::channel(Pace::Busy);
        Self { pace, task: tokio::spawn(produce(writer, paced)) }
    }

    pub(super) fn pace(&self, pace: Pace) {
        self.pace.send_replace(pace);
    }

    /// Ends with the round that runs.
    pub(super) async fn stop(self) {
        drop(self.pace);
        // A panic in there was printed; nothing is left to be done about it.
        let _ = self.task.await;
    }
}

async fn produce(writer: SharedWriter, mut paced: watch::Receiver<Pace>) {
    let mut round: u64 = 0;
    loop {
        let pace = *paced.borrow_and_update();
        let (records, between) = match pace {
            Pace::Busy => BUSY,
            Pace::Calm => CALM,
            Pace::Stopped => {
                if paced.changed().await.is_err() {
                    return;
                }
                continue;
            }
        };
        round += 1;
        if let Err(error) = write_round(&writer, round, records) {
            warn!(%error, "the traffic of the demo ends");
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(between) => {}
            changed = paced.changed() => if changed.is_err() { return },
        }
    }
}

fn write_round(writer: &SharedWriter, round: u64, records: u64) -> Result<(), AdminError> {
    let mut writer = writer.lock();
    writer.append(("orders", 0), records)?;
    writer.append(("orders", 1), records)?;
    if round.is_multiple_of(5) {
        writer.transact(("payments", 0), records)?;
    }
    Ok(())
}

/// Which groups commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    Everybody,
    /// Those that follow the producers.
    Following,
}

/// Groups commit on their source where they stand now, as their consumers would.
pub(super) async fn commit(scene: &Scene, clients: &Clients, who: Who) -> Result<(), Failure> {
    for group in &GROUPS {
        let offset = match group.stands {
            Stands::Follows(behind) => {
                scene.writer(group.way).lock().ledger.behind(group.place, behind)
            }
            Stands::At(_) if who == Who::Following => continue,
            Stands::At(behind) => start(group.place) + behind,
        };
        let place = TopicPartition::new(group.place.0, group.place.1);
        let about = || format!("the commit of group {}", group.name);
        let answers = clients
            .source(group.way)
            .commit_offsets(&GroupId::from(group.name), &[(place, offset, String::new())])
            .await
            .map_err(|error| Failure::client(&about(), &error))?;
        for (about, code) in answers {
            code.ok().map_err(|code| {
                let about = about.to_string();
                let error = ClientError::Code { api: "OffsetCommit", code, message: None, about };
                Failure::client(&format!("group {}", group.name), &error)
            })?;
        }
    }
    Ok(())
}
