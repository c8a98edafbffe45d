//! The threads that a command runs on.
//!
//! # Invariants
//!
//! A command that ended waits for nothing that is left: those are connections.

use std::num::NonZeroUsize;

use tokio::runtime::{Builder, Runtime};

use crate::output::Failure;

/// Enough for clusters in memory, which people try things with.
pub(crate) const FEW: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// Runs a command that looks, on this thread.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    to_its_end(&mut Builder::new_current_thread(), command)
}

/// Runs a command that has work for all cores.
pub(crate) fn block_on_all_cores<T>(
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    to_its_end(&mut Builder::new_multi_thread(), command)
}

/// Runs a command on so many threads.
pub(crate) fn block_on_threads<T>(
    threads: NonZeroUsize,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    to_its_end(Builder::new_multi_thread().worker_threads(threads.get()), command)
}

fn to_its_end<T>(
    builder: &mut Builder,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let built: std::io::Result<Runtime> = builder.enable_all().build();
    let runtime = built.map_err(|error| Failure::system("threads cannot be started", &error))?;
    let ended = runtime.block_on(command);
    runtime.shutdown_background();
    ended
}
