//! Many looks at the same time, but not all.

use std::future::Future;

use tokio::task::JoinSet;

/// Partitions that are looked at closely at the same time.
const AT_A_TIME: usize = 16;

/// Does the work, some of it at a time. Answers in any order.
pub(super) async fn in_parallel<T: Send + 'static>(
    work: Vec<impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut work = work.into_iter();
    let mut tasks = JoinSet::new();
    let mut done = Vec::new();
    for next in work.by_ref().take(AT_A_TIME) {
        tasks.spawn(next);
    }
    while let Some(finished) = tasks.join_next().await {
        match finished {
            Ok(answer) => done.push(answer),
            // A panic is a bug: it goes on upwards. Nobody cancels these tasks.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
        if let Some(next) = work.next() {
            tasks.spawn(next);
        }
    }
    done
}
