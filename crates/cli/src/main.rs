//! The `twinlog` binary: flags, output, exit codes.
//!
//! Does not: mirror, translate or judge anything itself; each command asks the crates that do.
//!
//! # Invariants
//!
//! 1. Answers go to standard output, everything else to standard error.
//! 2. The exit code is 0 (all well), 1 (something is wrong with what was looked at), 2 (wrong usage
//!    or configuration) or 3 (it could not be found out); every 2 and 3 says what to do next.
//! 3. No secret of a configuration is ever printed.

mod args;
mod check;
mod config;
mod decide;
mod demo;
mod discovery;
mod doctor;
mod dump;
mod embedded;
mod explain;
mod format;
mod logging;
mod looking;
mod man;
mod output;
mod rehearse;
mod run;
mod status;
mod threads;
mod translate;
mod verify;
mod wait;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Args, Command};
use crate::output::{Failure, Output};

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return output::usage(&error),
    };
    let printing = match &args.command {
        Command::Run(run) => &run.common.printing,
        Command::Check(check) => &check.common.printing,
        Command::Status(status) => &status.common.printing,
        Command::Translate(translate) => &translate.common.printing,
        Command::Wait(wait) => &wait.common.printing,
        Command::Dump(dump) => &dump.common.printing,
        Command::Explain(explain) => &explain.common.printing,
        Command::Doctor(doctor) => &doctor.common.printing,
        Command::Pause(pause) => &pause.common.printing,
        Command::Resume(resume) => &resume.common.printing,
        Command::Sync(sync) => &sync.common.printing,
        Command::Verify(verify) => &verify.common.printing,
        Command::Rehearse(rehearse) => &rehearse.common.printing,
        Command::Demo(demo) => &demo.printing,
        Command::Embedded(embedded) => &embedded.printing,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "twinlog", &mut script);
            return ended(output::write(&script).map_err(|error| Failure::stdout(&error)), false);
        }
        Command::Man(man) => return ended(man::man(man), false),
    };
    let json = printing.json;
    let long_running = matches!(args.command, Command::Run(_) | Command::Embedded(_));
    logging::start(printing, long_running);
    let out = Output { json };
    let answered = match args.command {
        Command::Run(run) => run::run(&run),
        Command::Check(check) => check::check(&check, out),
        Command::Status(status) => status::status(&status, out),
        Command::Translate(translate) => translate::translate(&translate, out),
        Command::Wait(wait) => wait::wait(&wait, out),
        Command::Dump(dump) => dump::dump(&dump, out),
        Command::Explain(explain) => explain::explain(&explain, out),
        Command::Doctor(doctor) => doctor::doctor(&doctor, out),
        Command::Pause(pause) => decide::pause(&pause, out),
        Command::Resume(resume) => decide::resume(&resume, out),
        Command::Sync(sync) => decide::sync(&sync, out),
        Command::Verify(verify) => verify::verify(&verify, out),
        Command::Rehearse(rehearse) => rehearse::rehearse(&rehearse, out),
        Command::Demo(demo) => demo::demo(&demo, out),
        Command::Embedded(embedded) => embedded::embedded(&embedded),
        Command::Completions { .. } | Command::Man(_) => Ok(ExitCode::SUCCESS),
    };
    match answered {
        Ok(code) => code,
        Err(failure) => output::fail(&failure, json),
    }
}

fn ended(answered: Result<(), Failure>, json: bool) -> ExitCode {
    match answered {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output::fail(&failure, json),
    }
}
