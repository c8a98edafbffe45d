//! A test harness for targets that need real brokers.
//!
//! libtest decides at compile time which tests are ignored; here that depends on whether Java and Maven
//! are on this machine. So such a target sets `harness = false` and calls [`main`]: it takes libtest's
//! flags and prints libtest's lines, which `cargo test` and its wrappers read. Where Java or Maven are
//! missing each test is *ignored, with the reason*; under `CI=true` it *fails* with that reason, because
//! a ring that is silently skipped there proves nothing.
//!
//! Tests run one after another, each on a thread of its own name: two clusters fill a small machine.
//! Output is not captured (`--nocapture` changes nothing), and threads, shuffling and formats other than
//! `pretty` and `terse` are accepted and ignored.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use twinlog_testkit::ring::{self, TestResult, test};
//!
//! fn a_topic_survives_a_restart() -> TestResult {
//!     Ok(())
//! }
//!
//! fn main() -> ExitCode {
//!     ring::main(&[test("a_topic_survives_a_restart", a_topic_survives_a_restart)])
//! }
//! ```

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// What a test answers; a panic fails it as well.
pub type TestResult = Result<(), Box<dyn std::error::Error>>;

/// libtest's exit code for failed tests.
const FAILED: u8 = 101;
/// After how long a running test is mentioned, as libtest does.
const LONG: Duration = Duration::from_mins(1);

/// A named test.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    name: &'static str,
    run: fn() -> TestResult,
}

/// A test: a name that states a fact, and a function that fails where it is none.
pub const fn test(name: &'static str, run: fn() -> TestResult) -> Test {
    Test { name, run }
}

/// Runs what the command line asks for: the whole `main` of a test target.
pub fn main(tests: &[Test]) -> ExitCode {
    let missing = crate::availability().err().map(|reason| reason.to_string());
    let ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(FAILED);
        }
    };
    let ring = Ring { tests, missing, ci, options };
    match ring.run(&mut io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            eprintln!("error: cannot write to standard output: {error}");
            ExitCode::from(FAILED)
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    filters: Vec<String>,
    skip: Vec<String>,
    exact: bool,
    list: bool,
    terse: bool,
    ignored: bool,
    include_ignored: bool,
}

impl Options {
    fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args;
        while let Some(arg) = args.next() {
            let (flag, mut inline) = match arg.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
                _ => (arg.as_str(), None),
            };
            let mut value =
                || inline.take().or_else(|| args.next()).ok_or(format!("{flag} needs a value"));
            match flag {
                "--list" => options.list = true,
                "--exact" => options.exact = true,
                "--ignored" => options.ignored = true,
                "--include-ignored" => options.include_ignored = true,
                "--skip" => options.skip.push(value()?),
                "--format" => options.terse = value()? == "terse",
                "-q" | "--quiet" => options.terse = true,
                "--nocapture"
                | "--no-capture"
                | "--show-output"
                | "--test"
                | "--bench"
                | "--force-run-in-process"
                | "--exclude-should-panic"
                | "--shuffle"
                | "--report-time"
                | "--ensure-time" => {}
                "--test-threads" | "--color" | "--logfile" | "--shuffle-seed" | "-Z" => {
                    value()?;
                }
                "--" => options.filters.extend(args.by_ref()),
                _ if flag.starts_with('-') => return Err(format!("unknown flag {flag}")),
                _ => options.filters.push(arg),
            }
        }
        Ok(options)
    }

    fn selects(&self, name: &str) -> bool {
        let matches = |pattern: &String| {
            if self.exact { name == pattern } else { name.contains(pattern.as_str()) }
        };
        (self.filters.is_empty() || self.filters.iter().any(matches))
            && !self.skip.iter().any(matches)
    }
}

struct Ring<'a> {
    tests: &'a [Test],
    missing: Option<String>,
    ci: bool,
    options: Options,
}

impl Ring<'_> {
    /// Answers whether nothing failed.
    fn run(&self, out: &mut dyn Write) -> io::Result<bool> {
        let start = Instant::now();
        let options = &self.options;
        let ignorable = self.missing.is_some() && !self.ci;
        // As in libtest, --ignored leaves only the tests that would be ignored.
        let selected: Vec<&Test> = self
            .tests
            .iter()
            .filter(|test| options.selects(test.name) && (!options.ignored || ignorable))
            .collect();
        if options.list {
            return self.list(&selected, out);
        }
        let plural = if selected.len() == 1 { "" } else { "s" };
        writeln!(out, "\nrunning {} test{plural}", selected.len())?;

        let (mut passed, mut ignored, mut failures) = (0, 0, Vec::new());
        for test in &selected {
            write!(out, "test {} ... ", test.name)?;
            out.flush()?;
            let result = match &self.missing {
                Some(reason) if ignorable && !options.ignored && !options.include_ignored => {
                    writeln!(out, "ignored, {reason}")?;
                    ignored += 1;
                    continue;
                }
                Some(reason) => Err(reason.clone()),
                None => run_one(**test, out)?,
            };
            match result {
                Ok(()) => {
                    writeln!(out, "ok")?;
                    passed += 1;
                }
                Err(message) => {
                    writeln!(out, "FAILED")?;
                    failures.push((test.name, message));
                }
            }
        }
        if !failures.is_empty() {
            writeln!(out, "\nfailures:\n")?;
            for (name, message) in &failures {
                writeln!(out, "---- {name} stdout ----\n{message}\n")?;
            }
            writeln!(out, "\nfailures:")?;
            for (name, _) in &failures {
                writeln!(out, "    {name}")?;
            }
        }
        let verdict = if failures.is_empty() { "ok" } else { "FAILED" };
        writeln!(
            out,
            "\ntest result: {verdict}. {passed} passed; {} failed; {ignored} ignored; 0 measured; \
             {} filtered out; finished in {:.2}s\n",
            failures.len(),
            self.tests.len() - selected.len(),
            start.elapsed().as_secs_f64(),
        )?;
        Ok(failures.is_empty())
    }

    fn list(&self, selected: &[&Test], out: &mut dyn Write) -> io::Result<bool> {
        for test in selected {
            writeln!(out, "{}: test", test.name)?;
        }
        if !self.options.terse {
            let plural = if selected.len() == 1 { "" } else { "s" };
            writeln!(out, "\n{} test{plural}, 0 benchmarks", selected.len())?;
        }
        Ok(true)
    }
}

/// Runs a test on a thread of its name, so that the message of a panic says whose it is.
fn run_one(test: Test, out: &mut dyn Write) -> io::Result<Result<(), String>> {
    let (sender, receiver) = sync_channel(1);
    let body = move || {
        let result = (test.run)().map_err(|error| error.to_string());
        // The receiver waits until this thread has ended.
        let _ = sender.send(result);
    };
    let thread = std::thread::Builder::new().name(test.name.to_owned()).spawn(body)?;
    let mut said = false;
    let result = loop {
        match receiver.recv_timeout(LONG) {
            Ok(result) => break Some(result),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) if said => {}
            Err(RecvTimeoutError::Timeout) => {
                said = true;
                let limit = LONG.as_secs();
                writeln!(out, "test {} has been running for over {limit} seconds", test.name)?;
            }
        }
    };
    let joined = thread.join();
    Ok(match (result, joined) {
        (Some(result), Ok(())) => result,
        (_, Err(panic)) => Err(panic_text(panic.as_ref())),
        (None, Ok(())) => Err("the test ended without a result".to_owned()),
    })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "with something that is no text".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes() -> TestResult {
        "1".parse::<u8>().map(drop).map_err(Into::into)
    }

    fn fails() -> TestResult {
        Err("no such luck".into())
    }

    fn panics() -> TestResult {
        panic!("at once")
    }

    const TESTS: &[Test] = &[test("good", passes), test("bad", fails), test("worse", panics)];

    fn ring(missing: Option<&str>, ci: bool, args: &[&str]) -> (bool, String) {
        let options = Options::parse(args.iter().map(|&arg| arg.to_owned())).unwrap();
        let ring = Ring { tests: TESTS, missing: missing.map(str::to_owned), ci, options };
        let mut out = Vec::new();
        let ok = ring.run(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        // The time is not ours to foretell.
        let until = text.find("; finished in").unwrap_or(text.len());
        (ok, text[..until].to_owned())
    }

    #[test]
    fn the_lines_are_those_of_libtest() {
        let (ok, text) = ring(None, false, &[]);
        assert!(!ok);
        assert_eq!(
            text,
            "\nrunning 3 tests\n\
             test good ... ok\n\
             test bad ... FAILED\n\
             test worse ... FAILED\n\
             \nfailures:\n\n\
             ---- bad stdout ----\nno such luck\n\n\
             ---- worse stdout ----\npanicked: at once\n\n\
             \nfailures:\n    bad\n    worse\n\
             \ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out"
        );
    }

    #[test]
    fn without_java_tests_are_ignored_with_the_reason() {
        let (ok, text) = ring(Some("no java on the PATH"), false, &["good"]);
        assert!(ok);
        assert_eq!(
            text,
            "\nrunning 1 test\ntest good ... ignored, no java on the PATH\n\
             \ntest result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out"
        );
    }

    #[test]
    fn without_java_tests_fail_under_ci_and_when_asked_for() {
        for (ci, args) in [(true, &["good"][..]), (false, &["good", "--include-ignored"])] {
            let (ok, text) = ring(Some("no java on the PATH"), ci, args);
            assert!(!ok);
            assert!(text.contains("test good ... FAILED\n"), "{text}");
            assert!(text.contains("---- good stdout ----\nno java on the PATH\n"), "{text}");
        }
    }

    #[test]
    fn filters_and_skips_match_parts_or_with_exact_the_whole_name() {
        let (_, text) = ring(None, false, &["--skip", "wors", "o", "--exact", "--list"]);
        assert_eq!(text, "\n0 tests, 0 benchmarks\n");
        let (_, text) = ring(None, false, &["o", "--skip=wors", "--list", "--format", "terse"]);
        assert_eq!(text, "good: test\n");
    }

    #[test]
    fn with_java_no_test_is_an_ignored_one() {
        let (ok, text) = ring(None, false, &["--ignored", "--list", "--format=terse"]);
        assert!(ok);
        assert_eq!(text, "");
    }

    #[test]
    fn the_flags_of_libtest_are_accepted_and_others_are_not() {
        let args =
            ["--nocapture", "--test-threads=1", "--color", "always", "-Z", "unstable-options"];
        let parsed = Options::parse(args.iter().map(|&arg| arg.to_owned()));
        assert_eq!(parsed, Ok(Options::default()));
        let parsed = Options::parse(["--nonsense".to_owned()].into_iter());
        assert_eq!(parsed, Err("unknown flag --nonsense".to_owned()));
    }
}
