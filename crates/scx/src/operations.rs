//! The operations that a kernel knows. Those for control groups do not exist in every kernel with sched_ext.

use libbpf_rs::OpenObject;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use std::collections::BTreeSet;

/// The type of a scheduler.
const OPERATIONS: &str = "sched_ext_ops";
/// Operations that a scheduler has only if the kernel knows them begin with this. Without CONFIG_EXT_GROUP_SCHED, a kernel has
/// none of them. `cgroup_set_bandwidth` is from Linux 6.17.
const OPTIONAL: &str = "cgroup_";
/// Length of a pointer to a program.
const POINTER: usize = 8;

/// Returns the members of the type of a scheduler, with their offsets in bytes.
fn members(of: &Btf<'_>) -> Vec<(String, usize)> {
    let Some(operations) = of.type_by_name::<Struct<'_>>(OPERATIONS) else { return Vec::new() };
    let members = operations.iter().filter_map(|member| {
        let MemberAttr::Normal { offset } = member.attr else { return None };
        Some((member.name?.to_string_lossy().into_owned(), offset as usize / 8))
    });
    members.collect()
}

/// Returns the offsets of the optional operations of `own` that are not in `known`.
fn lacking(own: &[(String, usize)], known: &BTreeSet<String>) -> Vec<usize> {
    let lacking = own.iter().filter(|(name, _)| name.starts_with(OPTIONAL) && !known.contains(name));
    lacking.map(|(_, offset)| *offset).collect()
}

/// Leaves out the optional operations of the scheduler `name` that this kernel lacks. libbpf refuses an object with them.
///
/// # Errors
/// The types of the kernel or of the object cannot be read.
pub(crate) fn leave_out_lacking(object: &mut OpenObject, programs: &[u8], name: &str) -> libbpf_rs::Result<()> {
    let known = members(&Btf::from_vmlinux()?).into_iter().map(|(name, _)| name).collect();
    let own = Btf::from_raw("scheduler", programs)?.map_or_else(Vec::new, |own| members(&own));
    let Some(mut scheduler) = object.maps_mut().find(|map| map.name() == name) else { return Ok(()) };
    let Some(value) = scheduler.initial_value_mut() else { return Ok(()) };
    for offset in lacking(&own, &known) {
        value[offset..offset + POINTER].fill(0);
    }
    Ok(())
}

/// Sets a number of 64 bits in the scheduler `name`.
///
/// # Errors
/// The types of the object cannot be read.
pub(crate) fn set(
    object: &mut OpenObject,
    programs: &[u8],
    name: &str,
    member: &str,
    number: u64,
) -> libbpf_rs::Result<()> {
    let own = Btf::from_raw("scheduler", programs)?.map_or_else(Vec::new, |own| members(&own));
    let Some((_, offset)) = own.into_iter().find(|(name, _)| name == member) else { return Ok(()) };
    let Some(mut scheduler) = object.maps_mut().find(|map| map.name() == name) else { return Ok(()) };
    if let Some(value) = scheduler.initial_value_mut() {
        value[offset..offset + size_of::<u64>()].copy_from_slice(&number.to_ne_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_optional_operations_that_the_kernel_lacks_are_left_out() {
        let own = [("dispatch", 8), ("cgroup_init", 16), ("cgroup_set_bandwidth", 24)];
        let own = own.map(|(name, offset)| (name.to_string(), offset));
        let known = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
        assert_eq!(lacking(&own, &known(&["dispatch", "cgroup_init", "cgroup_set_bandwidth"])), Vec::<usize>::new());
        assert_eq!(lacking(&own, &known(&["dispatch", "cgroup_init"])), [24]);
        assert_eq!(lacking(&own, &known(&["cgroup_init"])), [24]);
        assert_eq!(lacking(&own, &known(&["dispatch"])), [16, 24]);
    }
}
