//! A filter of system calls stays until the end of the process, so its test is alone in this program.

use sys::child::{Child, Work};
use sys::failing::{Call, Errno};
use sys::process::Process;
use sys::usage::Meter;
use sys::{Error, affinity};

#[test]
fn a_call_fails_in_all_threads_and_says_nothing_about_the_end_of_a_thread() {
    let (begin, begins) = std::sync::mpsc::channel();
    let (child, ended) = (Child::start(Work::Sleep).unwrap(), Child::start(Work::Sleep).unwrap());
    let (pid, ended_pid) = (child.pid(), ended.pid());
    let (meter, ended_meter) = (Meter::open(pid).unwrap(), Meter::open(ended_pid).unwrap());
    let earlier = std::thread::spawn(move || begins.recv().map(|()| affinity::get(pid)).unwrap());
    Process::open(ended_pid).unwrap().kill().unwrap();
    drop(ended);
    for call in ["sched_getaffinity", "pread64"] {
        Call::find(call).unwrap().fail(Errno::find("ESRCH").unwrap()).unwrap();
    }
    begin.send(()).unwrap();
    for refused in [affinity::get(pid).map(drop), earlier.join().unwrap().map(drop), meter.read().map(drop)] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Call { .. }), "{error:?}");
        assert!(error.to_string().contains("No such process"), "{error}");
    }
    for gone in [affinity::get(ended_pid).map(drop), ended_meter.read().map(drop)] {
        assert!(matches!(gone, Err(Error::Gone(pid)) if pid == ended_pid), "{gone:?}");
    }
}
