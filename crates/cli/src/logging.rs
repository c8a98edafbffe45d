//! Log lines on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::args::{LogFormat, Printing};

/// Starts logging. A long-running command says what it does; the others only what goes wrong.
pub(crate) fn start(printing: &Printing, long_running: bool) {
    let directives = match (printing.verbose, long_running) {
        (0, false) => "error",
        (0, true) | (1, false) => "warn,twinlog=info",
        (1, true) | (2, false) => "info,twinlog=debug",
        (2, true) | (3, false) => "debug,twinlog=trace",
        _ => "trace",
    };
    let filter = match std::env::var("TWINLOG_LOG") {
        Ok(wanted) if !wanted.is_empty() => EnvFilter::new(wanted),
        _ => EnvFilter::new(directives),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours(&std::io::stderr()));
    // A second start (there is none) would be refused; the first one goes on.
    let started = match printing.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    if let Err(error) = started {
        eprintln!("twinlog: cannot log: {error}");
    }
}

/// Whether colours may be used on a stream.
pub(crate) fn colours(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused
}
