//! A virtual machine for tests: `micro-vm VCPUS PARENT`. Needs /dev/kvm.
//!
//! The vCPUs run a loop in real mode, and leave the guest after about a millisecond of CPU time. The first vCPU is
//! always busy. Each other vCPU sleeps for two milliseconds after each exit, as for I/O. The main thread wakes up every
//! ten milliseconds, as the main loop of QEMU does. The vCPU threads have the names that QEMU gives them.
//!
//! When each vCPU has left the guest once, the program prints `ready`. It runs until it is killed, or until the thread
//! of process PARENT that started it ends.

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use sched::Nanos;
use std::error::Error;
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
/// Sleep of a vCPU other than the first after each exit.
const IO: Nanos = Nanos::ms(2);
/// Interval between wake-ups of the main thread.
const MAIN_LOOP: Nanos = Nanos::ms(10);

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let usage = "use micro-vm VCPUS PARENT";
    let vcpus: u64 =
        words.next().and_then(|word| word.parse().ok()).filter(|count| (1..=8).contains(count)).ok_or(usage)?;
    let parent: u32 = words.next().and_then(|word| word.parse().ok()).ok_or(usage)?;
    sys::process::end_with(parent)?;
    let kvm = Kvm::new()?;
    let machine = kvm.create_vm()?;
    fill(&machine)?;
    let (left, exits) = channel();
    for number in 0..vcpus {
        let vcpu = vcpu(&machine, number)?;
        let left = left.clone();
        Builder::new().name(format!("CPU {number}/KVM")).spawn(move || {
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
    loop {
        clock::sleep(MAIN_LOOP);
    }
}

/// Gives the machine memory with the guest's code.
fn fill(machine: &VmFd) -> Result<(), Box<dyn Error>> {
    let flags = MapFlags::SHARED;
    // SAFETY: the kernel chooses the address, so the mapping replaces no other.
    let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), MEMORY, ProtFlags::READ | ProtFlags::WRITE, flags)? };
    // SAFETY: the mapping is writable, has room for the code at this address, and nothing else refers to it.
    unsafe { std::ptr::copy_nonoverlapping(CODE.as_ptr(), memory.cast::<u8>().add(CODE_AT), CODE.len()) };
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: MEMORY as u64,
        userspace_addr: memory as u64,
    };
    // SAFETY: the mapping lasts as long as the process, and only the guest uses it from now on.
    unsafe { machine.set_user_memory_region(region)? };
    Ok(())
}

fn vcpu(machine: &VmFd, number: u64) -> Result<VcpuFd, kvm_ioctls::Error> {
    let vcpu = machine.create_vcpu(number)?;
    let mut special = vcpu.get_sregs()?;
    (special.cs.base, special.cs.selector) = (0, 0);
    vcpu.set_sregs(&special)?;
    let mut general = vcpu.get_regs()?;
    // Bit 1 of the flags is always set.
    (general.rip, general.rbx, general.rdx, general.rflags) = (CODE_AT as u64, ROUNDS, 0x10, 2);
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
