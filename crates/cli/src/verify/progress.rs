//! How far a comparison is: for people, and in a file to go on from.

use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use twinlog_engine::observe::Observer;
use twinlog_types::FlowName;
use twinlog_verify::{Progress, Saved};

use super::TELLS_EVERY;
use crate::output::{Failure, NOT_FOUND_OUT};

/// How often a terminal is told.
const SHOWN_EVERY: Duration = Duration::from_millis(500);

/// Tells on standard error how far it is, and writes the file; never ends but with an error.
pub(super) async fn tell(
    flow: &FlowName,
    progress: &Arc<Progress>,
    full: bool,
    saving: Option<&Saving>,
) -> Result<(), Failure> {
    let terminal = std::io::stderr().is_terminal();
    let every = if terminal { SHOWN_EVERY } else { TELLS_EVERY };
    let began = Instant::now();
    let mut written = Instant::now();
    loop {
        tokio::time::sleep(every).await;
        if full {
            let line = line(flow, progress, began.elapsed());
            let mut stderr = std::io::stderr().lock();
            // Nobody is left to be told that standard error is closed.
            let _ = if terminal {
                write!(stderr, "\r\x1b[K{line}")
            } else {
                writeln!(stderr, "{line}")
            };
        }
        if let Some(saving) = saving
            && written.elapsed() >= TELLS_EVERY
        {
            saving.write()?;
            written = Instant::now();
        }
    }
}

/// Takes a line of progress away from a terminal.
pub(super) fn clear() {
    let mut stderr = std::io::stderr().lock();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K");
    }
}

fn line(flow: &FlowName, progress: &Progress, elapsed: Duration) -> String {
    let (source, target) = progress.bytes();
    let (done, all) = progress.offsets();
    let percent = done.saturating_mul(100).checked_div(all).unwrap_or_default();
    let rate = |bytes: u64| bytes as f64 / 1e6 / elapsed.as_secs_f64().max(0.001);
    format!(
        "{flow}: {done} of {all} offsets ({percent} %), {:.0} MB/s of the source, {:.0} MB/s of \
         the target",
        rate(source),
        rate(target)
    )
}

/// The most memory that this process has taken.
pub(super) fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// A file that says how far each flow is.
#[derive(Debug)]
pub(super) struct Saving {
    file: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// As the file has them.
    read: Vec<FlowState>,
    running: Vec<(FlowState, Arc<Progress>)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Document {
    version: u8,
    flows: Vec<FlowState>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct FlowState {
    flow: String,
    /// It is of no use between other clusters.
    source_cluster: String,
    target_cluster: String,
    partitions: Vec<Saved>,
}

impl Saving {
    /// Reads the file, where there is one.
    pub(super) fn open(file: PathBuf) -> Result<Self, Failure> {
        let bad = |what: String| {
            let message = format!("--resume {}: {what}", file.display());
            Failure::usage(message, "name another file, or remove this one")
        };
        let read = match std::fs::read(&file) {
            Ok(bytes) => {
                let document: Document =
                    serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
                if document.version != 1 {
                    return Err(bad(format!("version {} is not known", document.version)));
                }
                document.flows
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(bad(error.to_string())),
        };
        let state = Mutex::new(State { read, running: Vec::new() });
        let saving = Self { file, state };
        // That it cannot be written is said before hours of work.
        saving.write()?;
        Ok(saving)
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The progress of a flow: what the file says of it, between the same clusters.
    pub(super) async fn progress(&self, observer: &Observer) -> Result<Arc<Progress>, Failure> {
        let name = observer.config.name.to_string();
        let ids = tokio::try_join!(observer.source.cluster_id(), observer.target.cluster_id());
        let (source, target) = ids.map_err(|error| Failure::client(&name, &error))?;
        let mut state = FlowState {
            flow: name,
            source_cluster: source.to_string(),
            target_cluster: target.to_string(),
            partitions: Vec::new(),
        };
        let mut held = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |other: &FlowState| {
            (&other.flow, &other.source_cluster, &other.target_cluster)
                == (&state.flow, &state.source_cluster, &state.target_cluster)
        };
        if let Some(at) = held.read.iter().position(same) {
            state = held.read.remove(at);
        }
        let progress = Arc::new(Progress::resumed(state.partitions.clone()));
        held.running.push((state, progress.clone()));
        Ok(progress)
    }

    /// Writes the file, whole or not at all.
    pub(super) fn write(&self) -> Result<(), Failure> {
        let held = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let running = held.running.iter().map(|(state, progress)| FlowState {
            partitions: progress.all_saved(),
            ..state.clone()
        });
        let flows = held.read.iter().cloned().chain(running).collect();
        let failed = |error: &dyn std::fmt::Display| Failure {
            exit: NOT_FOUND_OUT,
            code: "output-failed".into(),
            message: format!("--resume {}: {error}", self.file.display()),
            next: "name a file that can be written".into(),
            problems: Vec::new(),
        };
        let bytes = serde_json::to_vec(&Document { version: 1, flows });
        let bytes = bytes.map_err(|error| failed(&error))?;
        let mut beside = self.file.clone().into_os_string();
        beside.push(".new");
        std::fs::write(&beside, bytes).map_err(|error| failed(&error))?;
        std::fs::rename(&beside, &self.file).map_err(|error| failed(&error))
    }

    /// The end: of no use any more when everything was compared.
    pub(super) fn end(&self, whole: bool) -> Result<(), Failure> {
        if !whole {
            return self.write();
        }
        // What is left there is refused or read by the next run; nothing is lost.
        let _ = std::fs::remove_file(&self.file);
        Ok(())
    }
}
