//! Which VMs the client may change, so that keys without effect are not offered. The service decides.

use api::{Caller, Kind, Vm};

/// Returns whether the role of `caller` may allow changes of `vm`.
pub(super) fn may_change(caller: &Caller, vm: &Vm) -> bool {
    match caller.role.as_str() {
        "admin" => true,
        "operate" => vm.kind != Kind::Process || !vm.id.starts_with("pid:"),
        "own" => {
            let user = caller.name.strip_prefix("uid:").and_then(|user| user.parse::<u32>().ok());
            user.is_some() && vm.process.map(|process| process.user) == user
        }
        _ => false,
    }
}
