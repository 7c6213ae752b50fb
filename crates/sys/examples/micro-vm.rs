//! A virtual machine for tests: `micro-vm VCPUS PARENT [fork-join]`. Needs /dev/kvm.
//!
//! The vCPUs run a loop in real mode, and leave the guest after about a millisecond of CPU time. The first vCPU is
//! always busy. Each other vCPU sleeps for two milliseconds after each exit, as for I/O. The main thread wakes up every
//! ten milliseconds, as the main loop of QEMU does. The vCPU threads have the names that QEMU gives them.
//!
//! With `fork-join`, the vCPUs never leave the guest: each computes for a part of a millisecond, and then spins until all
//! others have computed, too. For each line on its standard input, the program prints the present instant in ns and the number
//! of rounds so far.
//!
//! When each vCPU has left the guest once, or has begun with `fork-join`, the program prints `ready`. It runs until it is
//! killed, or until the thread of process PARENT that started it ends.

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use sched::Nanos;
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;
use sys::clock;

/// Size of the guest's memory in bytes.
const MEMORY: usize = 0x1_0000;
/// Address of the guest's code.
const CODE_AT: usize = 0x1000;
/// `again: mov eax, ebx; loop: dec eax; jnz loop; out dx, al; jmp again`
const CODE: [u8; 10] = [0x66, 0x89, 0xd8, 0x66, 0x48, 0x75, 0xfc, 0xee, 0xeb, 0xf6];
/// Rounds of the loop between two exits. A round has two instructions.
const ROUNDS: u64 = 250_000;
/// The code of a vCPU with fork-join work, which waits in a barrier after each loop: EBP is the number of vCPUs, and ESI the
/// number of arrivals that ends the round.
///
/// ```text
/// again: mov eax, ebx; loop: dec eax; jnz loop
///        lock inc dword [0x2000]; add esi, ebp
/// spin:  pause; cmp [0x2000], esi; js spin; jmp again
/// ```
const FORK_JOIN: [u8; 27] = [
    0x66, 0x89, 0xd8, 0x66, 0x48, 0x75, 0xfc, 0xf0, 0x66, 0xff, 0x06, 0x00, 0x20, 0x66, 0x01, 0xee, 0xf3, 0x90, 0x66,
    0x39, 0x36, 0x00, 0x20, 0x78, 0xf7, 0xeb, 0xe5,
];
/// Address of the number of arrivals at the barrier.
const ARRIVALS_AT: usize = 0x2000;
/// Rounds of the loop in fork-join work.
const PART: u64 = 20_000;
/// Sleep of a vCPU other than the first after each exit.
const IO: Nanos = Nanos::ms(2);
/// Interval between wake-ups of the main thread.
const MAIN_LOOP: Nanos = Nanos::ms(10);

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let usage = "use micro-vm VCPUS PARENT [fork-join]";
    let vcpus: u64 =
        words.next().and_then(|word| word.parse().ok()).filter(|count| (1..=8).contains(count)).ok_or(usage)?;
    let parent: u32 = words.next().and_then(|word| word.parse().ok()).ok_or(usage)?;
    let joins = match words.next().as_deref() {
        None => false,
        Some("fork-join") => true,
        Some(_) => return Err(usage.into()),
    };
    sys::process::end_with(parent)?;
    let kvm = Kvm::new()?;
    let machine = kvm.create_vm()?;
    let arrivals = fill(&machine, if joins { &FORK_JOIN } else { &CODE })?;
    let (left, exits) = channel();
    for number in 0..vcpus {
        let vcpu = vcpu(&machine, number, if joins { PART } else { ROUNDS }, vcpus)?;
        let left = left.clone();
        Builder::new().name(format!("CPU {number}/KVM")).spawn(move || {
            if joins {
                // It does not leave the guest. The main thread waits for it.
                let _ = left.send(());
            }
            if let Err(error) = serve(vcpu, number, &left) {
                eprintln!("vCPU {number}: {error}");
                std::process::exit(1);
            }
        })?;
    }
    for _ in 0..vcpus {
        exits.recv()?;
    }
    println!("ready");
    let requests = joins.then(|| std::io::stdin().lines());
    for request in requests.into_iter().flatten() {
        request?;
        println!("{} {}", clock::now().as_ns(), u64::from(arrivals.load(Ordering::Relaxed)) / vcpus);
    }
    loop {
        clock::sleep(MAIN_LOOP);
    }
}

/// Gives the machine memory with the guest's code. Returns the number of arrivals at the barrier.
fn fill(machine: &VmFd, code: &[u8]) -> Result<&'static AtomicU32, Box<dyn Error>> {
    let flags = MapFlags::SHARED;
    // SAFETY: the kernel chooses the address, so the mapping replaces no other.
    let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), MEMORY, ProtFlags::READ | ProtFlags::WRITE, flags)? };
    // SAFETY: the mapping is writable, has room for the code at this address, and nothing else refers to it.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), memory.cast::<u8>().add(CODE_AT), code.len()) };
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: MEMORY as u64,
        userspace_addr: memory as u64,
    };
    // SAFETY: the mapping lasts as long as the process, and only the guest uses it from now on.
    unsafe { machine.set_user_memory_region(region)? };
    // SAFETY: the address is aligned and within the mapping, which lasts as long as the process. The guest, too, changes the
    // number only by atomic instructions.
    Ok(unsafe { AtomicU32::from_ptr(memory.cast::<u8>().add(ARRIVALS_AT).cast()) })
}

fn vcpu(machine: &VmFd, number: u64, rounds: u64, vcpus: u64) -> Result<VcpuFd, kvm_ioctls::Error> {
    let vcpu = machine.create_vcpu(number)?;
    let mut special = vcpu.get_sregs()?;
    (special.cs.base, special.cs.selector) = (0, 0);
    vcpu.set_sregs(&special)?;
    let mut general = vcpu.get_regs()?;
    // Bit 1 of the flags is always set.
    (general.rip, general.rbx, general.rdx, general.rflags) = (CODE_AT as u64, rounds, 0x10, 2);
    general.rbp = vcpus;
    vcpu.set_regs(&general)?;
    Ok(vcpu)
}

/// Runs the vCPU. Reports each exit.
fn serve(mut vcpu: VcpuFd, number: u64, left: &Sender<()>) -> Result<(), Box<dyn Error>> {
    let mut is_first = true;
    loop {
        match vcpu.run() {
            Ok(VcpuExit::IoOut(..)) => {}
            // A signal of the debugger or the shell.
            Err(error) if error.errno() == rustix::io::Errno::INTR.raw_os_error() => continue,
            Ok(other) => return Err(format!("unexpected exit: {other:?}").into()),
            Err(error) => return Err(error.into()),
        }
        if std::mem::take(&mut is_first) {
            left.send(())?;
        }
        if number > 0 {
            clock::sleep(IO);
        }
    }
}
