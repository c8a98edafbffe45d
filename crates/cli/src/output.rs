//! What is printed, and the exit codes.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use twinlog_client::ClientError;
use twinlog_mirror::Problem;
use twinlog_types::Code;

/// Something is wrong with what was looked at.
pub(crate) const WRONG: u8 = 1;
/// Wrong usage or configuration.
pub(crate) const USAGE: u8 = 2;
/// It could not be found out.
pub(crate) const NOT_FOUND_OUT: u8 = 3;
/// Ended by a second Ctrl-C: 128 + SIGINT, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// How answers are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// Prints one JSON document on one line.
    pub(crate) fn document(document: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(document).map_err(|error| Failure {
            exit: NOT_FOUND_OUT,
            code: "output-failed".into(),
            message: format!("the answer cannot be written as JSON: {error}"),
            next: "report this".into(),
            problems: Vec::new(),
        })?;
        line.push(b'\n');
        write(&line).map_err(|error| Failure::stdout(&error))
    }

    /// Prints text.
    pub(crate) fn text(text: &str) -> Result<(), Failure> {
        write(text.as_bytes()).map_err(|error| Failure::stdout(&error))
    }
}

/// Writes to standard output. A reader that has had enough (`| head`) is no error.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A table that fits the terminal; as wide as its contents elsewhere.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    if io::stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.force_no_tty().set_content_arrangement(ContentArrangement::Disabled);
    }
    table
}

/// How wide the terminal is, where standard output is one.
pub(crate) fn terminal_width() -> Option<usize> {
    Table::new().width().map(usize::from)
}

/// A table as text, without blanks at the ends of lines.
pub(crate) fn table_text(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Why a command has no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: u8,
    /// A finding code, or a word of the same form.
    pub(crate) code: String,
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) next: String,
    /// What is wrong with the configuration.
    pub(crate) problems: Vec<Problem>,
}

#[derive(Serialize)]
struct ErrorDocument<'a> {
    version: u8,
    error: ErrorBody<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<ProblemBody<'a>>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
    next: &'a str,
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    file: &'a str,
    line: Option<u32>,
    key: Option<&'a str>,
    severity: &'static str,
    message: &'a str,
    suggestion: Option<&'a str>,
}

impl Failure {
    /// Wrong usage.
    pub(crate) fn usage(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            exit: USAGE,
            code: "usage".into(),
            message: message.into(),
            next: next.into(),
            problems: Vec::new(),
        }
    }

    /// Problems of the configuration.
    pub(crate) fn configuration(problems: Vec<Problem>) -> Self {
        let message: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let next = problems
            .iter()
            .find_map(|problem| problem.suggestion.clone())
            .unwrap_or_else(|| "correct what is named and try again".into());
        Self {
            exit: USAGE,
            code: "configuration".into(),
            message: message.join("\n"),
            next,
            problems,
        }
    }

    /// A cluster did not give the answer.
    pub(crate) fn client(about: &str, error: &ClientError) -> Self {
        let (code, next) = match error {
            ClientError::Unreachable { .. } => (
                Code::Unreachable.word(),
                "check bootstrap.servers, the listener and the network, then try again",
            ),
            ClientError::Timeout { .. } | ClientError::Closed { .. } => (
                Code::Unreachable.word(),
                "check that the cluster is healthy, or give it more time with --timeout",
            ),
            ClientError::Unsupported { .. } => {
                (Code::UnsupportedVersion.word(), "use brokers of Kafka 3.3 or newer")
            }
            ClientError::Code { code, .. } if code.name().ends_with("AUTHORIZATION_FAILED") => {
                (Code::MissingPermission.word(), "grant the right that is named, then try again")
            }
            _ => ("failed", "see the message; -v shows more"),
        };
        Self {
            exit: NOT_FOUND_OUT,
            code: code.into(),
            message: format!("{about}: {error}"),
            next: next.into(),
            problems: Vec::new(),
        }
    }

    /// The time was up.
    pub(crate) fn timed_out(what: &str, timeout: std::time::Duration) -> Self {
        Self {
            exit: NOT_FOUND_OUT,
            code: "timed-out".into(),
            message: format!("{what} took longer than {timeout:?}"),
            next: "give it more time with --timeout".into(),
            problems: Vec::new(),
        }
    }

    /// The answer could not be printed.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        Self {
            exit: NOT_FOUND_OUT,
            code: "output-failed".into(),
            message: format!("cannot write to standard output: {error}"),
            next: "check where standard output goes".into(),
            problems: Vec::new(),
        }
    }

    /// The operating system refused something.
    pub(crate) fn system(what: &str, error: &io::Error) -> Self {
        Self {
            exit: NOT_FOUND_OUT,
            code: "system".into(),
            message: format!("{what}: {error}"),
            next: "check the limits of this process".into(),
            problems: Vec::new(),
        }
    }

    /// Prints the error as a JSON document, for a command that goes on.
    pub(crate) fn print_document(&self) -> Result<(), Failure> {
        let problems = self.problems.iter().map(|problem| ProblemBody {
            file: &problem.file,
            line: problem.line,
            key: problem.key.as_deref(),
            severity: "error",
            message: &problem.message,
            suggestion: problem.suggestion.as_deref(),
        });
        Output::document(&ErrorDocument {
            version: 1,
            error: ErrorBody { code: &self.code, message: &self.message, next: &self.next },
            problems: problems.collect(),
        })
    }

    /// The lines for people.
    pub(crate) fn lines(&self) -> String {
        if self.problems.is_empty() {
            return format!("twinlog: {}\n  {}\n", self.message, self.next);
        }
        let mut text = String::new();
        for problem in &self.problems {
            let _ = writeln!(text, "{problem}");
            if let Some(suggestion) = &problem.suggestion {
                let _ = writeln!(text, "  {suggestion}");
            }
        }
        text
    }
}

/// Says why there is no answer: for people on standard error, under `--json` also as a document.
pub(crate) fn fail(failure: &Failure, json: bool) -> ExitCode {
    // Nowhere is left to say that standard error is closed.
    let _ = io::stderr().write_all(failure.lines().as_bytes());
    if json && failure.print_document().is_err() {
        return ExitCode::from(failure.exit);
    }
    ExitCode::from(failure.exit)
}

/// What clap has to say: help and version are answers, the rest is wrong usage.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            return match error.print() {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
                Err(error) => fail(&Failure::stdout(&error), false),
            };
        }
        _ => {}
    }
    let json = std::env::args_os().skip(1).any(|arg| arg == "--json");
    if json {
        let (message, next) = usage_in_words(&error.render().to_string());
        let failure = Failure::usage(message, next);
        // The people's text follows on standard error in any case.
        let _ = failure.print_document();
    }
    let _ = error.print();
    ExitCode::from(USAGE)
}

/// clap's message in one line (its first paragraph, where missing arguments stand one a line), and
/// its advice: the tips, else the help of the command that its usage line names.
fn usage_in_words(text: &str) -> (String, String) {
    let paragraph = text.lines().take_while(|line| !line.trim().is_empty());
    let mut message = String::new();
    for (at, line) in paragraph.enumerate() {
        let line = line.trim().trim_start_matches("error: ");
        let joint = if at == 0 {
            ""
        } else if message.ends_with(':') {
            " "
        } else {
            ", "
        };
        message.push_str(joint);
        message.push_str(line);
    }
    let tips: Vec<&str> =
        text.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).collect();
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    let words = usage.unwrap_or("twinlog").split_whitespace().take_while(is_name);
    let command: Vec<&str> = words.collect();
    let help = format!("see `{} --help`", command.join(" "));
    let next = if tips.is_empty() { help } else { format!("{}; {help}", tips.join("; ")) };
    (message, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_usage_is_one_line_with_all_names_and_the_next_step() {
        // As clap 4.6 writes them.
        let missing = "error: the following required arguments were not provided:\n  \
                       --partition <NUMBER>\n  --offset <OFFSET>\n\nUsage: twinlog translate \
                       --partition <NUMBER> <FILE>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            usage_in_words(missing),
            (
                "the following required arguments were not provided: --partition <NUMBER>, \
                 --offset <OFFSET>"
                    .to_owned(),
                "see `twinlog translate --help`".to_owned()
            )
        );
        let unknown = "error: unexpected argument '--grup' found\n\n  tip: a similar argument \
                       exists: '--group'\n\nUsage: twinlog status --group <GROUP> <FILE>\n";
        assert_eq!(
            usage_in_words(unknown),
            (
                "unexpected argument '--grup' found".to_owned(),
                "a similar argument exists: '--group'; see `twinlog status --help`".to_owned()
            )
        );
        assert_eq!(usage_in_words("error: no").1, "see `twinlog --help`");
    }
}
