//! Waiting for many futures at once, with their results in the order they were given.
//!
//! For a handful of futures (one per broker): every wake polls all that are unfinished.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

enum Slot<'a, T> {
    Running(Boxed<'a, T>),
    Done(T),
}

/// Runs all of them concurrently within this task and answers their results in order.
pub(crate) async fn join_all<'a, T, F>(futures: impl IntoIterator<Item = F>) -> Vec<T>
where
    F: Future<Output = T> + Send + 'a,
    T: Unpin,
{
    let mut slots: Vec<Slot<'a, T>> =
        futures.into_iter().map(|future| Slot::Running(Box::pin(future) as Boxed<'a, T>)).collect();
    std::future::poll_fn(|context| {
        let mut unfinished = false;
        for slot in &mut slots {
            if let Slot::Running(future) = slot {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *slot = Slot::Done(value),
                    Poll::Pending => unfinished = true,
                }
            }
        }
        if unfinished { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    slots
        .into_iter()
        .filter_map(|slot| match slot {
            Slot::Done(value) => Some(value),
            Slot::Running(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn results_come_in_the_given_order_and_waits_overlap() {
        let began = tokio::time::Instant::now();
        let waits = [3u64, 1, 2].map(|seconds| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            seconds
        });
        assert_eq!(join_all(waits).await, [3, 1, 2]);
        assert_eq!(began.elapsed().as_secs(), 3);
    }
}
