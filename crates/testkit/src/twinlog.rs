//! The twinlog binary as a process.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, ExitStatus, Output, Stdio};
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

/// A running `twinlog embedded`: a cluster in memory, on ports of its own. Dropping it kills it.
#[derive(Debug)]
pub struct Embedded {
    process: Process,
    line: String,
    /// Open, so that nobody is told that it is closed.
    _stdout: BufReader<ChildStdout>,
    _scratch: Scratch,
}

impl Embedded {
    /// Starts `binary embedded` on free ports, with further arguments, and waits until it serves.
    pub fn start(binary: &Path, args: &[&str]) -> Result<Self> {
        let args: Vec<&str> = ["--port", "0"].into_iter().chain(args.iter().copied()).collect();
        Self::start_anywhere(binary, &args)
    }

    /// The same on the ports that the arguments say, or that it chooses.
    pub fn start_anywhere(binary: &Path, args: &[&str]) -> Result<Self> {
        let scratch = Scratch::new("embedded")?;
        let mut command = Command::new(binary);
        command.arg("embedded").args(args);
        let log = scratch.path().join("embedded.log");
        let (process, _, stdout) = Process::start_piped("twinlog embedded", command, &log)?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line).context(|| "read the bootstrap address".to_owned())?;
        if line.is_empty() {
            return Err(process.ended_early());
        }
        let line = line.trim_end().to_owned();
        Ok(Self { process, line, _stdout: stdout, _scratch: scratch })
    }

    /// What it printed first.
    pub fn first_line(&self) -> &str {
        &self.line
    }

    /// `host:port` of every broker, which is what it prints first without `--json`.
    pub fn bootstrap(&self) -> &str {
        self.first_line()
    }

    /// Its process: signals, log, memory and processor time.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Asks it to end (SIGTERM) and waits for that.
    pub fn stop(&self, limit: Duration) -> Result<ExitStatus> {
        self.process.stop(limit)
    }
}
