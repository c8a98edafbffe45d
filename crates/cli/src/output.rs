//! What is printed, and the exit codes.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width, presets};
use serde::Serialize;
use twinlog_client::ClientError;
use twinlog_engine::named_file;
use twinlog_mirror::Problem;
use twinlog_types::{Code, is_obeyed};

/// Something is wrong with what was looked at.
pub(crate) const WRONG: u8 = 1;
/// Wrong usage or configuration.
pub(crate) const USAGE: u8 = 2;
/// It could not be found out.
pub(crate) const NOT_FOUND_OUT: u8 = 3;
/// Ended by a second Ctrl-C: 128 + SIGINT, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Text is not made narrower than this.
const WIDTH_MIN: usize = 60;

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
        write(printable(text).as_bytes()).map_err(|error| Failure::stdout(&error))
    }
}

/// `text` without what a terminal would obey but line feeds: group ids, metadata and files may hold
/// any.
fn printable(text: &str) -> Cow<'_, str> {
    let obeyed = |character: char| character != '\n' && is_obeyed(character);
    if text.contains(obeyed) {
        Cow::Owned(text.replace(obeyed, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
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

/// A table as wide as its contents; [`table_text`] fits it to the terminal.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(header.iter().copied())
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// How wide the terminal is, where standard output is one.
pub(crate) fn terminal_width() -> Option<usize> {
    Table::new().width().map(usize::from)
}

/// How wide text is: the terminal, if that is not too narrow to read; `elsewhere` where there is
/// none.
pub(crate) fn text_width(elsewhere: usize) -> usize {
    terminal_width().map_or(elsewhere, |width| width.max(WIDTH_MIN))
}

/// A table as text, without blanks at the ends of lines: broken to fit the terminal, as wide as its
/// contents elsewhere.
pub(crate) fn table_text(table: &Table) -> String {
    table_text_within(table, terminal_width())
}

/// Cells are broken at blanks only: names and codes are there to be copied. Where that does not make
/// it fit, cells stay whole, and it is wider than `width`.
fn table_text_within(table: &Table, width: Option<usize>) -> String {
    let mut table = table.clone();
    table.row_iter_mut().for_each(one_line);
    if let Some(width) = width {
        narrow(&mut table, width);
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A line end within a cell would begin a line that looks like one of the table.
fn one_line(row: &mut Row) {
    if row.cell_iter().any(|cell| cell.content().contains(is_obeyed)) {
        let cells = row.cell_iter().map(|cell| cell.content().replace(is_obeyed, "\u{fffd}"));
        *row = cells.collect::<Vec<_>>().into();
    }
}

/// Narrows columns, the widest first: headers are broken before the cells are.
fn narrow(table: &mut Table, width: usize) {
    let chars = |text: &str| text.chars().count();
    let longest_word = |text: &str| text.split(' ').map(chars).max().unwrap_or_default();
    // How wide each column is, how wide with a broken header, and how wide when all is broken.
    let mut widths = Vec::new();
    let (mut whole_cells, mut words) = (Vec::new(), Vec::new());
    for column in table.column_iter() {
        let header = table.header().and_then(|row| row.cell_iter().nth(column.index));
        let header = header.map(comfy_table::Cell::content).unwrap_or_default();
        let cells: Vec<String> = table
            .column_cells_iter(column.index)
            .flatten()
            .map(comfy_table::Cell::content)
            .collect();
        let widest = cells.iter().map(|cell| chars(cell)).max().unwrap_or_default();
        let word = cells.iter().map(|cell| longest_word(cell)).max().unwrap_or_default();
        widths.push(widest.max(chars(&header)));
        whole_cells.push(widest.max(longest_word(&header)));
        words.push(word.max(longest_word(&header)));
    }
    let padding: usize =
        table.column_iter().map(|column| usize::from(column.padding_width())).sum();
    // The last blank of a line is cut off.
    let room = (width + 1).saturating_sub(padding);
    let mut over = widths.iter().sum::<usize>().saturating_sub(room);
    if over == 0 {
        return;
    }
    let fits = words.iter().sum::<usize>() <= room;
    for least in [whole_cells, words].into_iter().take(if fits { 2 } else { 1 }) {
        while over > 0 {
            let can = (0..widths.len()).filter(|&at| widths[at] > least[at]);
            let Some(widest) = can.max_by_key(|&at| widths[at]) else { break };
            widths[widest] -= 1;
            over -= 1;
        }
    }
    for (column, width) in table.column_iter_mut().zip(widths) {
        let padded =
            u16::try_from(width).unwrap_or(u16::MAX).saturating_add(column.padding_width());
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(padded)));
    }
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

    /// With the configuration named in its commands.
    pub(crate) fn naming(self, file: &str) -> Self {
        let (message, next) = (named_file(&self.message, file), named_file(&self.next, file));
        Self { message, next, ..self }
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
    let _ = io::stderr().write_all(printable(&failure.lines()).as_bytes());
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
    fn a_terminal_is_given_no_commands_that_came_from_outside() {
        assert_eq!(printable("a\u{202e}b\u{2066}\u{200b}"), "a\u{fffd}b\u{fffd}\u{fffd}");
        assert_eq!(printable("g \u{1b}[2J\u{9b}1m\r\n"), "g \u{fffd}[2J\u{fffd}1m\u{fffd}\n");
        assert!(matches!(printable("größe\n"), Cow::Borrowed("größe\n")));
    }

    fn groups() -> Table {
        let mut rows = table(&["GROUP", "COMMITTED ON SOURCE", "CODE"]);
        rows.add_row(["adhoc-lena", "hello.payments-0 773000", "group-excluded"]);
        rows.add_row(["billing", "orders-0 1", "-"]);
        rows
    }

    #[test]
    fn a_table_is_broken_at_blanks_until_it_fits() {
        let whole = " GROUP       COMMITTED ON SOURCE      CODE\n \
                      adhoc-lena  hello.payments-0 773000  group-excluded\n \
                      billing     orders-0 1               -\n";
        // 1 + 10 + 2 + 23 + 2 + 14 columns.
        for width in [None, Some(52)] {
            assert_eq!(table_text_within(&groups(), width), whole);
        }
        let broken = " GROUP       COMMITTED ON      CODE\n             SOURCE\n \
                       adhoc-lena  hello.payments-0  group-excluded\n             773000\n \
                       billing     orders-0 1        -\n";
        assert_eq!(table_text_within(&groups(), Some(45)), broken);
        assert_eq!(table_text_within(&groups(), Some(20)), whole, "wider than the terminal");
    }

    #[test]
    fn headers_are_broken_before_cells() {
        let mut rows = table(&["COMMITTED ON SOURCE", "NEXT"]);
        rows.add_row(["orders-0 931140", "orders-0 #200141"]);
        let text = table_text_within(&rows, Some(34));
        assert_eq!(text, " COMMITTED ON     NEXT\n SOURCE\n orders-0 931140  orders-0 #200141\n");
    }

    #[test]
    fn a_name_with_a_line_end_stays_in_its_cell() {
        let mut rows = table(&["GROUP", "STATE"]);
        rows.add_row(["x\nOK  all is well\u{202e}", "stopped"]);
        let text = table_text_within(&rows, None);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("x\u{fffd}OK  all is well\u{fffd}  stopped"), "{text}");
    }

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
