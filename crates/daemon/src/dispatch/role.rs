//! [`Role`]: the role of a thread in a VM.

/// The role of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The thread runs a vCPU of a VM.
    Vcpu,
    /// Any other thread. In a client with vCPUs, these threads serve the VM: emulator, I/O and vhost threads.
    Other,
}

/// What precedes the number of the vCPU in a thread's name: Firecracker (src/vmm/src/vstate/vcpu.rs), Cloud Hypervisor
/// (vmm/src/cpu.rs), crosvm (src/crosvm/sys/linux/vcpu.rs), kvmtool (builtin-run.c).
const BEFORE_NUMBER: [&str; 4] = ["fc_vcpu ", "vcpu", "crosvm_vcpu", "kvm-vcpu-"];

impl Role {
    /// Returns the role of the thread with this name. QEMU names its threads only with `-name NAME,debug-threads=on`,
    /// which libvirt sets: `CPU 0/KVM` (accel/kvm/kvm-accel-ops.c), `CPU 0/TCG` and `ALL CPUs/TCG` (accel/tcg).
    #[must_use]
    pub fn of(name: &str) -> Role {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_of_qemu = |rest: &str| rest.split_once('/').is_some_and(|(number, _)| is_number(number));
        let is_vcpu = name.strip_prefix("CPU ").is_some_and(is_of_qemu)
            || name == "ALL CPUs/TCG"
            || BEFORE_NUMBER.iter().any(|before| name.strip_prefix(before).is_some_and(is_number));
        if is_vcpu { Role::Vcpu } else { Role::Other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_vcpus_are_known_by_their_names() {
        for name in ["CPU 0/KVM", "CPU 11/TCG", "ALL CPUs/TCG", "fc_vcpu 3", "vcpu0", "crosvm_vcpu12", "kvm-vcpu-1"] {
            assert_eq!(Role::of(name), Role::Vcpu, "{name}");
        }
        for name in ["qemu-system-x86", "IO mon_iothread", "CPU /KVM", "CPU 0", "vcpu", "vcpus0", "fc_api", ""] {
            assert_eq!(Role::of(name), Role::Other, "{name}");
        }
    }
}
