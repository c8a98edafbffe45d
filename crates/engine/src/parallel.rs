//! Much at the same time, but not all.

use std::future::Future;

use tokio::task::JoinSet;

/// Does the work, so many pieces of it at a time. Answers in any order.
pub async fn in_parallel<T: Send + 'static>(
    at_a_time: usize,
    work: Vec<impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut work = work.into_iter();
    let mut tasks = JoinSet::new();
    let mut done = Vec::new();
    for next in work.by_ref().take(at_a_time) {
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
