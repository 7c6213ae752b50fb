//! Recognition of VMs by the command lines of their processes.

use api::Kind;

/// Maximum length of an id or a name. Unit: bytes. A longer one is ignored: the owner of a process chooses its command line.
const NAME_MOST: usize = 128;
/// Beginning of the ids of processes that are no VMs.
pub(crate) const PID: &str = "pid:";

/// Returns whether `text` can be an id or a name: short, without control characters, and no id of a process.
pub(crate) fn is_proper(text: &str) -> bool {
    let is_short = !text.is_empty() && text.len() <= NAME_MOST;
    is_short && !text.starts_with(PID) && !text.chars().any(char::is_control)
}

/// Returns the kind of the VM with this command line, its UUID and its name, if the command line has them; `None` if it is
/// the command line of no VM.
pub(crate) fn recognise(words: &[String]) -> Option<(Kind, Option<String>, Option<String>)> {
    let program = words.first()?.rsplit('/').next()?;
    // The value of an option: `--id NAME` or `--id=NAME`. QEMU accepts one and two dashes.
    let value = |option: &str| {
        let is_option = |word: &str| word.trim_start_matches('-') == option && word.starts_with('-');
        let after = words.iter().position(|word| is_option(word)).and_then(|at| words.get(at + 1).cloned());
        let prefix = format!("--{option}=");
        after.or_else(|| words.iter().find_map(|word| word.strip_prefix(&prefix).map(str::to_string)))
    };
    match program {
        _ if program.starts_with("qemu-system-") || matches!(program, "qemu" | "kvm" | "qemu-kvm") => {
            Some((Kind::Qemu, value("uuid"), value("name").and_then(|text| guest_name(&text))))
        }
        _ if is_firecracker(program) => Some((Kind::Firecracker, None, value("id"))),
        "cloud-hypervisor" | "cloud-hypervisor-static" | "cloud-hypervisor-static-aarch64" => {
            let uuid = value("platform")
                .and_then(|text| text.split(',').find_map(|it| it.strip_prefix("uuid=").map(str::to_string)));
            Some((Kind::CloudHypervisor, uuid, None))
        }
        _ => None,
    }
}

/// Returns the path of the socket at which a VM of QEMU answers QMP, from its command line: `-qmp unix:PATH,server=on`, or
/// `-chardev socket,id=ID,path=PATH,server=on` with `-mon chardev=ID,mode=control`. A comma within the path is doubled.
pub(crate) fn monitor_of(words: &[String]) -> Option<String> {
    let values = |option: &'static str| {
        let is_option = move |word: &str| word.starts_with('-') && word.trim_start_matches('-') == option;
        words.windows(2).filter(move |two| is_option(&two[0])).map(|two| two[1].replace(",,", "\0"))
    };
    let key = |text: &str, key: &str| {
        text.split(',').find_map(|part| part.strip_prefix(key)?.strip_prefix('=').map(str::to_string))
    };
    let is_server = |text: &str| text.split(',').any(|part| matches!(part, "server" | "server=on"));
    let direct = || {
        let text = values("qmp").find(|text| text.starts_with("unix:") && is_server(text))?;
        Some(text.strip_prefix("unix:")?.split(',').next()?.to_string())
    };
    let by_chardev = || {
        let controls = |text: &String| key(text, "mode").is_some_and(|mode| mode == "control");
        let ids: Vec<String> = values("mon").filter(controls).filter_map(|text| key(&text, "chardev")).collect();
        let is_it = |text: &String| {
            text.starts_with("socket,") && is_server(text) && key(text, "id").is_some_and(|id| ids.contains(&id))
        };
        key(&values("chardev").find(is_it)?, "path")
    };
    let path = direct().or_else(by_chardev)?.replace('\0', ",");
    Some(path).filter(|path| !path.is_empty())
}

/// Returns whether `program` is Firecracker. Its releases have the version in the name: `firecracker-v1.7.0-x86_64`.
fn is_firecracker(program: &str) -> bool {
    let version = program.strip_prefix("firecracker-v");
    program == "firecracker" || version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the name in the value of QEMU's option `-name`: `vm1`, `vm1,process=x` or `guest=vm1,debug-threads=on`. A
/// comma within the name is doubled.
fn guest_name(text: &str) -> Option<String> {
    let text = text.replace(",,", "\0");
    let mut parts = text.split(',');
    let first = parts.next().filter(|first| !first.contains('='));
    let name = first.or_else(|| text.split(',').find_map(|part| part.strip_prefix("guest=")))?;
    Some(name.replace('\0', ",")).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use daemon::dispatch::Role;

    fn of(line: &str) -> Option<(Kind, Option<String>, Option<String>)> {
        recognise(&line.split(' ').map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn vms_are_recognised_by_their_command_lines() {
        let named = |name: &str| Some(name.to_string());
        let uuid = "c7a5fdbd-edaf-9455-926a-d65c16db1809";
        for (line, kind, id, name) in [
            (
                &*format!("/usr/bin/qemu-system-x86_64 -name guest=vm1,debug-threads=on -uuid {uuid} -m 1024"),
                Kind::Qemu,
                named(uuid),
                named("vm1"),
            ),
            ("qemu-system-aarch64 --name vm,,2,process=x -nodefaults", Kind::Qemu, None, named("vm,2")),
            ("/usr/libexec/qemu-kvm -m 512", Kind::Qemu, None, None),
            ("qemu-system-x86_64 -name debug-threads=on", Kind::Qemu, None, None),
            ("/srv/jail/firecracker --id=micro-7 --api-sock /run/x", Kind::Firecracker, None, named("micro-7")),
            ("./firecracker-v1.7.0-x86_64 --id micro-8", Kind::Firecracker, None, named("micro-8")),
            (
                "cloud-hypervisor --platform num_pci_segments=1,uuid=abc --cpus boot=2",
                Kind::CloudHypervisor,
                named("abc"),
                None,
            ),
        ] {
            assert_eq!(of(line), Some((kind, id, name)), "{line}");
        }
        for line in [
            "",
            "bash -c qemu-system-x86_64",
            "/usr/bin/qemu-img convert",
            "vim firecracker",
            "firecracker-containerd --config x",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn the_monitor_of_a_vm_is_on_its_command_line() {
        let of = |line: &str| monitor_of(&line.split(' ').map(str::to_string).collect::<Vec<_>>());
        for (line, path) in [
            ("qemu-system-x86_64 -qmp unix:/run/vm.sock,server=on,wait=off", Some("/run/vm.sock")),
            ("qemu-system-x86_64 --qmp unix:a,,b,server,nowait", Some("a,b")),
            (
                "qemu -chardev socket,id=m,path=/run/m,server=on -chardev socket,id=x,path=/run/x,server=on -mon chardev=m,mode=control",
                Some("/run/m"),
            ),
            ("qemu -qmp unix:/run/vm.sock", None),
            ("qemu -qmp tcp:127.0.0.1:4444,server=on", None),
            ("qemu -chardev socket,id=m,fd=24,server=on -mon chardev=m,mode=control", None),
            ("qemu -chardev socket,id=m,path=/run/m,server=on -mon chardev=m,mode=readline", None),
            ("qemu -qmp", None),
        ] {
            assert_eq!(of(line).as_deref(), path, "{line}");
        }
    }

    #[test]
    fn an_id_or_a_name_is_short_and_no_id_of_a_process() {
        for (text, is_it) in
            [("vm1", true), ("", false), ("pid:7", false), ("a\nb", false), (&"x".repeat(129), false), ("größer", true)]
        {
            assert_eq!(is_proper(text), is_it, "{text}");
        }
    }

    /// What /proc shows of a VM: the words of the command line, and the names of the threads. The VMs were not tried here.
    struct Tree {
        cmdline: &'static str,
        comms: &'static [&'static str],
    }

    /// A VM of Firecracker with two vCPUs, which its jailer has started: src/jailer/src/env.rs (`exec_command`),
    /// src/firecracker/src/api_server_adapter.rs, src/vmm/src/vstate/vcpu.rs.
    const FIRECRACKER: Tree = Tree {
        cmdline: "/firecracker --id 68b73387-d84c-4710-8122-b4ed8bf3ccff --start-time-us 276814583 \
            --start-time-cpu-us 3045 --parent-cpu-time-us 2871 --api-sock /run/firecracker.socket",
        comms: &["firecracker", "fc_api", "fc_vcpu 0", "fc_vcpu 1"],
    };
    /// A VM of Cloud Hypervisor with two vCPUs. The threads are those that its pull request 2163 lists, each name as the
    /// kernel shortens it.
    const CLOUD_HYPERVISOR: Tree = Tree {
        cmdline: "/usr/bin/cloud-hypervisor --api-socket /run/ch.sock --platform \
            uuid=0b7c6a3e-6f0e-4d06-9a49-3a1f0c1d2e3f --cpus boot=2",
        comms: &[
            "cloud-hyperviso",
            "seccomp_signal_",
            "vmm",
            "http-server",
            "vcpu0",
            "vcpu1",
            "signal_handler",
            "_console",
            "_rng",
            "_disk0_q0",
            "_disk0_q1",
            "_net1_ctrl",
            "_net1_qp0",
            "_net1_qp1",
        ],
    };

    #[test]
    fn vms_of_firecracker_and_cloud_hypervisor_have_their_ids_and_their_vcpus() {
        for (tree, kind, id, vcpus) in [
            (FIRECRACKER, Kind::Firecracker, "68b73387-d84c-4710-8122-b4ed8bf3ccff", ["fc_vcpu 0", "fc_vcpu 1"]),
            (CLOUD_HYPERVISOR, Kind::CloudHypervisor, "0b7c6a3e-6f0e-4d06-9a49-3a1f0c1d2e3f", ["vcpu0", "vcpu1"]),
        ] {
            let words: Vec<String> = tree.cmdline.split(' ').map(str::to_string).collect();
            let (found, uuid, name) = recognise(&words).unwrap();
            assert_eq!((found, uuid.or(name).as_deref()), (kind, Some(id)));
            let of_vcpus: Vec<&str> = tree.comms.iter().copied().filter(|name| Role::of(name) == Role::Vcpu).collect();
            assert_eq!(of_vcpus, vcpus);
        }
    }
}
