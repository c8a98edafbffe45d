//! The twinlog binary as a process.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use crate::error::{IoContext as _, Result};
use crate::process::{Process, Signal};
use crate::scratch::Scratch;

/// A running twinlog, both outputs in a log file. Dropping it kills it.
#[derive(Debug)]
pub struct Twinlog {
    process: Process,
    _scratch: Scratch,
}

impl Twinlog {
    /// Starts the binary.
    pub fn start<S: AsRef<OsStr>>(
        binary: &Path,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        Self::start_with_env(binary, args, &[])
    }

    /// Starts the binary with more variables in its environment.
    pub fn start_with_env<S: AsRef<OsStr>>(
        binary: &Path,
        args: impl IntoIterator<Item = S>,
        env: &[(&str, &str)],
    ) -> Result<Self> {
        let scratch = Scratch::new("twinlog")?;
        let mut command = Command::new(binary);
        command.args(args).envs(env.iter().copied());
        let process = Process::start("twinlog", command, &scratch.path().join("twinlog.log"))?;
        Ok(Self { process, _scratch: scratch })
    }

    /// Runs the binary to its end and captures what it prints; for commands that end by themselves.
    pub fn output<S: AsRef<OsStr>>(
        binary: &Path,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Output> {
        let mut command = Command::new(binary);
        command.args(args).stdin(Stdio::null());
        command.output().context(|| format!("run {}", binary.display()))
    }

    /// Its process: signals, log, memory and processor time.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Waits until `text` stands in its log.
    pub fn wait_for_log(&self, text: &str, limit: Duration) -> Result<()> {
        self.process.wait_for_log(text, limit)
    }

    /// Waits for its end.
    pub fn wait(&self, limit: Duration) -> Result<ExitStatus> {
        self.process.wait(limit)
    }

    /// Asks it to end (SIGTERM) and waits for that.
    pub fn stop(&self, limit: Duration) -> Result<ExitStatus> {
        self.process.stop(limit)
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub fn kill(&self) -> Result<ExitStatus> {
        self.process.kill()
    }

    /// Freezes it (SIGSTOP), as a long pause of its machine would.
    pub fn pause(&self) -> Result<()> {
        self.process.signal(Signal::Stop)
    }

    /// Thaws it (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.process.signal(Signal::Cont)
    }
}
