//! [`in_order`]: parallel work on several threads, with the same outcome as on one thread.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Returns the results of `work` for 0, 1, … `count`−1 in this order, computed on up to `threads` threads.
///
/// # Errors
/// Returns the first error in this order. After an error, each thread begins at most one further call of `work`.
///
/// # Panics
/// Panics if `work` panics.
pub fn in_order<T: Send, E: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let outcomes: Vec<Mutex<Option<Result<T, E>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let (next, refused) = (AtomicUsize::new(0), AtomicBool::new(false));
    let loops = || {
        while !refused.load(Ordering::SeqCst) {
            let index = next.fetch_add(1, Ordering::SeqCst);
            let Some(outcome) = outcomes.get(index) else { return };
            let done = work(index);
            refused.fetch_or(done.is_err(), Ordering::SeqCst);
            *outcome.lock().expect("no thread panics while it holds the lock") = Some(done);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(loops);
        }
        loops();
    });
    let mut done = Vec::with_capacity(count);
    for outcome in outcomes {
        // Calls begin in order, so a failed call precedes every missing result.
        match outcome.into_inner().expect("no thread panics while it holds the lock") {
            Some(outcome) => done.push(outcome?),
            None => unreachable!("what was not begun comes after what was refused"),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_in_order_for_any_number_of_threads() {
        for threads in [1, 2, 3, 16] {
            // A later call takes less time, so calls may end in a different order than they begin.
            let work = |index: usize| {
                let busy = (0..(20 - index) * 10_000).fold(0_u64, |sum, step| sum ^ (step as u64).wrapping_mul(31));
                Ok::<_, ()>((index, busy))
            };
            let right: Result<Vec<_>, ()> = (0..20).map(work).collect();
            assert_eq!(in_order(20, threads, work), right, "{threads}");
        }
        assert_eq!(in_order(0, 4, |_| Err::<(), _>(())), Ok(vec![]));
    }

    #[test]
    fn the_first_refusal_counts_and_ends_it() {
        for threads in [1, 2, 8] {
            let begun = AtomicUsize::new(0);
            let outcome = in_order(10_000, threads, |index| {
                begun.fetch_add(1, Ordering::SeqCst);
                if index % 3 == 2 { Err(index) } else { Ok(index) }
            });
            assert_eq!(outcome, Err(2));
            assert!(begun.load(Ordering::SeqCst) < 10_000);
        }
    }
}
