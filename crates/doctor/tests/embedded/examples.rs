//! What docs/findings.md shows: each is kept as a file, and compared with it.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tracing_subscriber::EnvFilter;
use twinlog_doctor::{Diagnosis, told};
use twinlog_types::Code;
use twinlog_worlds::kept::keep;

fn file(kind: &str, code: Code) -> PathBuf {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/findings/examples"));
    folder.join(kind).join(format!("{code}.txt"))
}

/// What the doctor says of this code, as `twinlog doctor -v` prints it.
pub(crate) fn doctor(found: &Diagnosis, code: Code) {
    let finding = found.findings.iter().find(|one| one.code == code);
    let finding = finding.unwrap_or_else(|| panic!("no {code}: {found:#?}"));
    keep(&file("doctor", code), &told(finding, 100, true));
}

/// Log lines of an engine on this thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

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
    /// Listens until the guard is dropped.
    pub(crate) fn listen() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        // As `twinlog run` logs, but for the time.
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("warn,twinlog=info"))
            .with_ansi(false)
            .without_time()
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The first line with this code, once there is one.
    pub(crate) fn line(&self, code: Code) -> Option<String> {
        let text = String::from_utf8_lossy(&self.0.lock().expect("no writer panics")).into_owned();
        let tagged = [format!("code={code} "), format!("code={code}\n")];
        let has = |line: &&str| tagged.iter().any(|tag| format!("{line}\n").contains(tag));
        text.lines().find(has).map(|line| line.trim().to_owned())
    }

    /// The same, kept.
    pub(crate) fn shows(&self, code: Code) {
        let line = self.line(code).unwrap_or_else(|| panic!("no line with {code}"));
        keep(&file("log", code), &format!("{line}\n"));
    }
}
