//! One started program: its log file, its signals, its end.
//!
//! # Invariants
//!
//! 1. A started program ends with the test process, however that ends: dropped, panicked, aborted,
//!    killed. Each program leads its own process group; a small guard process (`sh`) holds the list of
//!    groups and the scratch folder, and clears both when its standard input closes, which the kernel
//!    does for a dead process. `PR_SET_PDEATHSIG` would not do: it follows the thread that started the
//!    program, and it needs `unsafe` or a helper program.
//! 2. A group is taken off the guard's list only after its leader has been reaped, so the guard never
//!    kills a number that somebody else was given meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::error::{Error, IoContext as _, Result};
use crate::wait::wait_until_some;

/// Clears what a dead test process left: arguments are the scratch folder and whether to keep it.
const GUARD: &str = r#"
trap '' HUP INT TERM
groups=
while read -r verb group; do
  case $verb in
    watch) groups="$groups $group" ;;
    forget)
      rest=
      for g in $groups; do [ "$g" = "$group" ] || rest="$rest $g"; done
      groups=$rest ;;
  esac
done
for g in $groups; do kill -s KILL -- "-$g"; done
[ -n "$2" ] || rm -rf -- "$1"
"#;

/// The signals that tests send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ask to end.
    Term,
    /// As from the keyboard.
    Int,
    /// End without a word.
    Kill,
    /// Freeze.
    Stop,
    /// Thaw.
    Cont,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Int => "INT",
            Self::Kill => "KILL",
            Self::Stop => "STOP",
            Self::Cont => "CONT",
        }
    }
}

/// A running (or ended) program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: u32,
    log: PathBuf,
    child: Mutex<Child>,
}

impl Process {
    /// Starts `command` with both outputs appended to `log`, and standard input closed.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let out = open_log(log)?;
        let err = out.try_clone().context(|| format!("open {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        Self::spawn(name, command, log)
    }

    /// Starts `command` with pipes to talk over; only its standard error goes to `log`.
    pub fn start_piped(
        name: &str,
        mut command: Command,
        log: &Path,
    ) -> Result<(Self, ChildStdin, ChildStdout)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(open_log(log)?);
        let process = Self::spawn(name, command, log)?;
        let (stdin, stdout) = {
            let mut child = process.child();
            (child.stdin.take(), child.stdout.take())
        };
        match (stdin, stdout) {
            (Some(stdin), Some(stdout)) => Ok((process, stdin, stdout)),
            _ => unreachable!("both pipes were asked for"),
        }
    }

    fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let child = command.process_group(0).spawn().context(|| format!("start {name}"))?;
        let process = Self {
            name: name.to_owned(),
            pid: child.id(),
            log: log.to_owned(),
            child: Mutex::new(child),
        };
        tell_guard("watch", process.pid)?;
        Ok(process)
    }

    /// The process id, which is also the id of its process group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it was called when it was started.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its output goes.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// All it has printed so far.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// The last `lines` lines it has printed, for messages.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log(), lines)
    }

    /// Sends a signal to the program alone. A program that has ended is left in peace.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        // The lock is held while the signal is under way: nobody reaps the program meanwhile, so its
        // number cannot have been given to another one.
        let mut child = self.child();
        if child.try_wait().context(|| format!("look at {}", self.name))?.is_some() {
            return Ok(());
        }
        let script = format!("kill -s {} {}", signal.name(), self.pid);
        let status = Command::new("sh").args(["-c", &script]).status();
        let status = status.context(|| format!("send {} to {}", signal.name(), self.name))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Failed { program: script, status: status.to_string(), output: String::new() })
    }

    /// The exit status, where it has ended.
    pub fn status(&self) -> Result<Option<ExitStatus>> {
        self.child().try_wait().context(|| format!("look at {}", self.name))
    }

    /// Whether it still runs (a frozen one does).
    pub fn is_running(&self) -> bool {
        matches!(self.status(), Ok(None))
    }

    /// Waits for its end.
    pub fn wait(&self, limit: Duration) -> Result<ExitStatus> {
        wait_until_some(&format!("end of {}", self.name), limit, || match self.status() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(format!("still running; its log ends with\n{}", self.log_tail(5))),
            Err(error) => Err(error.to_string()),
        })
    }

    /// Asks it to end (SIGTERM) and waits for that.
    pub fn stop(&self, limit: Duration) -> Result<ExitStatus> {
        self.signal(Signal::Term)?;
        self.wait(limit)
    }

    /// Kills its whole group (SIGKILL) and waits until it is gone.
    pub fn kill(&self) -> Result<ExitStatus> {
        let mut child = self.child();
        if let Some(status) = child.try_wait().context(|| format!("look at {}", self.name))? {
            return Ok(status);
        }
        let script = format!("kill -s KILL -- -{}", self.pid);
        let group = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
        if !group.is_ok_and(|status| status.success()) {
            child.kill().context(|| format!("kill {}", self.name))?;
        }
        child.wait().context(|| format!("wait for {}", self.name))
    }

    /// Waits until `text` stands in the log, failing early where the program ends instead.
    pub fn wait_for_log(&self, text: &str, limit: Duration) -> Result<()> {
        let what = format!("\"{text}\" in the log of {}", self.name);
        let found = wait_until_some(&what, limit, || {
            // The state is read before the log, or the last words of a program would be missed.
            let ended = !self.is_running();
            match self.log().contains(text) {
                true => Ok(true),
                false if ended => Ok(false),
                false => Err(self.log_tail(5)),
            }
        })?;
        if found { Ok(()) } else { Err(self.ended_early()) }
    }

    /// The error for a program that ended while somebody still counted on it.
    pub fn ended_early(&self) -> Error {
        let status = match self.status() {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => "nothing, it still runs".to_owned(),
            Err(error) => error.to_string(),
        };
        // What went wrong stands before what the shutdown says.
        let log = self.log();
        let telling = |line: &&str| line.contains(" ERROR ") || line.contains("Exception");
        let first: Vec<&str> = log.lines().filter(telling).take(5).collect();
        let output = format!("{}\n{}", first.join("\n"), tail(&log, 15));
        Error::Failed { program: self.name.clone(), status, output }
    }

    /// Resident memory in bytes, from `/proc`; nothing once it has ended.
    pub fn rss_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let kib = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    }

    /// The highest resident memory so far in bytes, from `/proc`; nothing once it has ended.
    pub fn rss_peak_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let kib = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    }

    /// Processor time used so far (user and system), from `/proc`; nothing once it has ended.
    pub fn cpu(&self) -> Option<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        // The second field is the program's name in parentheses and may hold anything.
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        // USER_HZ is 100 on every Linux that Rust's std runs on.
        Some(Duration::from_millis(ticks * 10))
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody is left to tell; the guard tries again when this process ends.
        if self.kill().is_ok() {
            let _ = tell_guard("forget", self.pid);
        }
    }
}

/// The last `lines` lines of `text`.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn open_log(log: &Path) -> Result<File> {
    let opened = OpenOptions::new().create(true).append(true).open(log);
    opened.context(|| format!("open {}", log.display()))
}

fn tell_guard(verb: &str, group: u32) -> Result<()> {
    let guard = guard(&crate::scratch::root()?)?;
    let mut stdin = guard.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(stdin, "{verb} {group}").context(|| "talk to the guard process".to_owned())
}

/// The guard process of this process, started by the first who needs it.
pub(crate) fn guard(scratch: &Path) -> Result<&'static Mutex<ChildStdin>> {
    static STDIN: OnceLock<Mutex<ChildStdin>> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stdin) = STDIN.get() {
        return Ok(stdin);
    }
    let keep = std::env::var("TWINLOG_TEST_KEEP").unwrap_or_default();
    let mut guard = Command::new("sh")
        .args(["-c", GUARD, "twinlog-test-guard"])
        .arg(scratch)
        .arg(keep)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context(|| "start the guard process".to_owned())?;
    let Some(stdin) = guard.stdin.take() else { unreachable!("the pipe was asked for") };
    Ok(STDIN.get_or_init(|| Mutex::new(stdin)))
}
