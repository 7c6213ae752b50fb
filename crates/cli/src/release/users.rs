//! Release of the tables of other users by root. A user may write anything into its directory and its table. The release
//! therefore runs in a process of that user, which can change no process of another user.

use super::done::Done;
use daemon::Explanation;
use daemon::directory::UserDirectory;
use daemon::release::PATIENCE;
use sched::Nanos;
use serde_json::{Value, json};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;
use sys::launch;
use sys::process::Process;

/// Maximum duration of the release of a directory. The user can stop or trace the process.
const LONGEST: Nanos = PATIENCE.saturating_mul(2);
/// Maximum time for the start of the process, and for its end after it was killed.
const ENDS: Nanos = Nanos::s(2);
/// Maximum length of the result of a release, in bytes. A table has up to 4096 threads.
const LENGTH_MOST: u64 = 16 << 20;

/// Releases the directory of a user. The user may stop the process or its file system at any time, so a thread of its own
/// waits for them.
pub(super) fn release(user: &UserDirectory, as_json: bool) -> Done {
    let (send, receive) = channel();
    let asked = user.clone();
    std::thread::spawn(move || {
        // The receiver may have given up.
        let _ = send.send(release_in_process(&asked, as_json));
    });
    let failed =
        |why: String| Done::failed(&user.directory, &Explanation::new(why, "run `tactus release` as this user"));
    match receive.recv_timeout(Duration::from_nanos((LONGEST + ENDS).as_ns())) {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => failed(format!("the directory of user {} is not released: {error}", user.user)),
        Err(_) => failed(format!("the process for user {} does not end", user.user)),
    }
}

fn release_in_process(user: &UserDirectory, as_json: bool) -> anyhow::Result<Done> {
    let UserDirectory { user: id, group, directory } = user;
    let mut command = Command::new("/proc/self/exe");
    // The process starts in `/`, because the user may not be permitted to use the current directory.
    let path = std::path::absolute(directory.path())?;
    command.args(["release", "--directory"]).arg(path).args(as_json.then_some("--json"));
    command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    launch::run_as(&mut command, *id, *group);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let why = format!("no process can be started for user {id}: {error}");
            return Ok(Done::failed(directory, &Explanation::new(why, "let this user execute the tactus program")));
        }
    };
    let mut stdout = child.stdout.take().expect("it is a pipe");
    let (send, receive) = channel();
    // A thread of its own reads, because a process of the user may keep the pipe open.
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.by_ref().take(LENGTH_MOST).read_to_end(&mut text);
        let _ = send.send(text);
    });
    // The child is not reaped yet, so its pid is not reused.
    let process = Process::open(child.id())?;
    if !process.ends_within(LONGEST) {
        process.kill()?;
    }
    let status = child.wait()?;
    let text = receive.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let json: Option<Value> = serde_json::from_str(&text).ok();
    let table = json.as_ref().and_then(|json| json.get("tables")?.get(0)).filter(|table| table.is_object());
    let is_reported = if as_json { table.is_some() } else { !text.is_empty() };
    if !is_reported {
        let why = format!("the process for user {id} reported nothing: {status}");
        return Ok(Done::failed(directory, &Explanation::new(why, "run `tactus release` as this user")));
    }
    let mut json = table.cloned().unwrap_or_default();
    if let Some(table) = json.as_object_mut() {
        table.insert("user".to_string(), json!(id));
    }
    Ok(Done { is_settled: status.success(), text: format!("User {id}: {text}"), json })
}
