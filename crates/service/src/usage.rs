//! The CPU time of VMs, read on request: a service without clients reads nothing.

use api::{CpuTime, Process, ThreadUsage, ThreadUsages, Usage, Usages, Vm};
use daemon::dispatch::Role;
use sched::Nanos;
use sys::clock;
use sys::thread::{self, Thread};
use sys::usage::Meter;

/// Returns the CPU time of the VMs that run.
pub(crate) fn of_all(vms: &[Vm]) -> Usages {
    let running = vms.iter().filter_map(|vm| Some((vm, vm.process?)));
    let vms = running.map(|(vm, process)| of_vm(vm, process)).collect();
    Usages { at_ns: clock::now().as_ns(), vms }
}

fn of_vm(vm: &Vm, process: Process) -> Usage {
    let (mut vcpus, mut of_vcpus, mut of_others) = (0, CpuTime::default(), CpuTime::default());
    for thread in of_process(process, &vm.vcpus) {
        vcpus += u32::from(thread.is_vcpu);
        let sum = if thread.is_vcpu { &mut of_vcpus } else { &mut of_others };
        sum.add(&thread.time);
    }
    Usage { id: vm.id.clone(), pid: process.pid, vcpus, of_vcpus, of_others }
}

/// Returns the CPU time of each thread of a VM.
pub(crate) fn of_threads(vm: &Vm) -> ThreadUsages {
    let threads = vm.process.map(|process| of_process(process, &vm.vcpus)).unwrap_or_default();
    ThreadUsages { at_ns: clock::now().as_ns(), threads }
}

/// Returns the CPU time of the threads of a process.
fn of_process(process: Process, vcpus: &[u32]) -> Vec<ThreadUsage> {
    threads_of(process, vcpus).into_iter().map(|thread| thread.first).collect()
}

/// A thread of a VM, and its CPU time when it was opened.
#[derive(Debug)]
pub(crate) struct VmThread {
    thread: Thread,
    meter: Meter,
    first: ThreadUsage,
}

/// Returns the threads of a process, by tid; none if it has ended. Those in `vcpus` run vCPUs, whatever their names are.
pub(crate) fn threads_of(process: Process, vcpus: &[u32]) -> Vec<VmThread> {
    let is_same = thread::status(process.pid).is_ok_and(|status| status.start_time == process.start_time);
    let mut tids = if is_same { thread::threads(process.pid).unwrap_or_default() } else { Vec::new() };
    tids.sort_unstable();
    // A thread that has ended meanwhile does not count.
    tids.into_iter().filter_map(|tid| VmThread::open(tid, vcpus).ok()).collect()
}

impl VmThread {
    fn open(tid: u32, vcpus: &[u32]) -> sys::Result<VmThread> {
        let thread = Thread::open(tid)?;
        let (status, meter) = (thread.status()?, thread.meter()?);
        let usage = meter.read()?;
        let time = cpu_time(usage);
        let is_vcpu = Role::of(&status.name) == Role::Vcpu || vcpus.contains(&tid);
        let (cpu, name) = (status.cpu, status.name);
        let first = ThreadUsage { tid, is_vcpu, cpu, time, name };
        Ok(VmThread { thread, meter, first })
    }

    pub(crate) fn tid(&self) -> u32 {
        self.first.tid
    }

    /// Returns the sum of all waits for a CPU since the thread has started; `None` if it has ended.
    pub(crate) fn waited(&self) -> Option<Nanos> {
        self.meter.read().ok().map(|usage| usage.waited)
    }

    /// Returns the CPU time since the thread was opened; none if it has ended.
    pub(crate) fn into_usage(self) -> ThreadUsage {
        let VmThread { thread, meter, first } = self;
        let time = meter.read().map(cpu_time).unwrap_or_default().since(&first.time);
        let cpu = thread.status().map_or(first.cpu, |status| status.cpu);
        ThreadUsage { cpu, time, ..first }
    }
}

fn cpu_time(usage: sys::usage::Usage) -> CpuTime {
    CpuTime { ran_ns: usage.ran.as_ns(), waited_ns: usage.waited.as_ns(), dispatches: usage.dispatches }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{Desired, Kind, Measured, Phase, State};

    fn this_process() -> Vm {
        let pid = std::process::id();
        let start_time = thread::status(pid).unwrap().start_time;
        let state = State { phase: Phase::None, mechanism: None, reason: None, remedy: None };
        Vm {
            id: "this".into(),
            name: "this".into(),
            kind: Kind::Process,
            process: Some(Process { pid, start_time, user: 0 }),
            vcpus: Vec::new(),
            generation: 0,
            desired: Desired::default(),
            source: None,
            state,
            measured: Measured::default(),
        }
    }

    #[test]
    fn the_time_of_vcpus_and_of_other_threads_is_counted_apart() {
        let vm = this_process();
        let before = of_all(std::slice::from_ref(&vm));
        assert_eq!(before.vms[0].vcpus, 0);
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let vcpu = std::thread::Builder::new().name("CPU 0/KVM".into()).spawn(move || {
            let end = clock::now() + Nanos::ms(50);
            while clock::now() < end {}
            receiver.recv().unwrap_or_default();
        });
        let vcpu = vcpu.unwrap();
        let read = || of_all(std::slice::from_ref(&vm)).vms.remove(0);
        let end = clock::now() + Nanos::s(20);
        while read().of_vcpus.ran_ns < 20_000_000 {
            assert!(clock::now() < end, "{:?}", read());
            clock::sleep(Nanos::ms(1));
        }
        assert_eq!(read().vcpus, 1);
        let threads = of_threads(&vm).threads;
        let of_vcpu = threads.iter().find(|thread| thread.is_vcpu).unwrap();
        assert!(of_vcpu.name == "CPU 0/KVM" && of_vcpu.time.dispatches > 0, "{of_vcpu:?}");
        // Without a name, the monitor knows.
        let this = Vm { vcpus: vec![thread::current()], ..this_process() };
        assert!(of_threads(&this).threads.iter().any(|it| it.tid == thread::current() && it.is_vcpu));
        drop(sender);
        vcpu.join().unwrap();
        let mut other = this_process();
        other.process = other.process.map(|process| Process { start_time: 1, ..process });
        assert_eq!(of_threads(&other).threads, [], "another process has the pid now");
    }
}
