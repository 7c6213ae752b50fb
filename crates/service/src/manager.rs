//! The service manager that has started this process, such as systemd: the protocols of `sd_notify(3)` and
//! `sd_listen_fds(3)`.
//!
//! Without a service manager, these functions do nothing.

use crate::requests::{Ask, Requests};
use daemon::Explanation;
use sd_notify::NotifyState;
use std::time::Duration;
use sys::launch;
use sys::local_socket::LocalListener;

/// Part of the time limit of the service manager after which the next sign of life is due. A third leaves time for one late
/// sign.
const SIGNS: u32 = 3;
/// Pause before the reconciler is asked again for its first answer.
const RETRY: Duration = Duration::from_millis(50);

/// Variables with which a service manager addresses this process. Children must not inherit them.
pub const VARIABLES: [&str; 6] =
    ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// Returns the socket that the service manager has opened for this process; `None` if it has opened none. Clients that
/// connect between two services then wait for the second one.
///
/// # Errors
/// It has opened several sockets, or a socket that does not listen at a path.
pub(crate) fn socket() -> Result<Option<LocalListener>, Explanation> {
    let wrong = |why: String| Explanation::new(why, "pass one socket with ListenStream= (systemd.socket)");
    let mut passed = sd_notify::listen_fds().map_err(|error| wrong(format!("cannot use passed sockets: {error}")))?;
    match (passed.len(), passed.next()) {
        (0, _) | (_, None) => Ok(None),
        (1, Some(number)) => Ok(Some(LocalListener::inherited(launch::inherited(number)?)?)),
        (several, _) => Err(wrong(format!("{several} sockets were passed, but a service has one"))),
    }
}

/// Reports to the service manager that this process serves.
pub fn ready() {
    notify(NotifyState::Ready);
}

/// Reports to the service manager that this process is about to end.
pub(crate) fn stopping() {
    notify(NotifyState::Stopping);
}

/// The service manager may have ended. The service serves its clients without it.
fn notify(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}

/// Reports that the service serves as soon as the reconciler answers. If the service manager has a time limit for signs of
/// life, sends one after each further answer. A reconciler that hangs sends none, and the service manager then starts the
/// service again.
pub(crate) async fn keep_informed(requests: Requests) {
    let limit = sd_notify::watchdog_enabled();
    inform(&requests, limit.map(|limit| limit / SIGNS), notify).await;
}

/// Passes `Ready` and then, after each `interval`, `Watchdog` to `notify`, each after an answer of the reconciler.
async fn inform(requests: &Requests, interval: Option<Duration>, notify: impl Fn(NotifyState<'static>)) {
    let mut is_ready = false;
    loop {
        let is_answered = requests.ask(Ask::Beat).await.is_ok();
        if is_answered && !is_ready {
            is_ready = true;
            notify(NotifyState::Ready);
        }
        match (is_answered, interval) {
            (true, None) => return std::future::pending().await,
            (true, Some(_)) => notify(NotifyState::Watchdog),
            // Too many requests wait, or the service ends.
            (false, _) => {}
        }
        tokio::time::sleep(interval.unwrap_or(RETRY)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::channel;
    use std::cell::RefCell;
    use std::sync::mpsc::TryRecvError;

    #[test]
    fn a_sign_of_life_needs_an_answer_of_the_reconciler() {
        let (requests, receiver) = channel();
        let signs = RefCell::new(Vec::new());
        let interval = Some(Duration::from_millis(5));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let wait = |time: u64| {
            let informing = inform(&requests, interval, |state| signs.borrow_mut().push(state.to_string()));
            runtime.block_on(async { tokio::time::timeout(Duration::from_millis(time), informing).await }).unwrap_err();
        };
        wait(50);
        assert!(signs.borrow().is_empty(), "a reconciler that does not answer: {signs:?}");
        // The unanswered question waits.
        assert!(matches!(receiver.try_recv(), Ok(Ask::Beat(_))));
        assert!(matches!(receiver.try_recv(), Err(TryRecvError::Empty)));
        let reconciler = std::thread::spawn(move || {
            while let Ok(Ask::Beat(reply)) = receiver.recv() {
                let _ = reply.send(());
            }
        });
        wait(100);
        assert_eq!(signs.borrow()[..3], ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
        drop(requests);
        reconciler.join().unwrap();
    }
}
