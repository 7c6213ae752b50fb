//! Tests of the pictures of the essays and of figure 6 of Poris (Wu et al.).

use super::*;

/// Returns a host of two CPUs with two VMs of two vCPUs below one group, and with a hog on each CPU. If both VMs are
/// marked, the mark is on the common group.
fn two_vms<'a>(
    policy: &'static Descriptor,
    knobs: &[(&str, i64)],
    marked: [bool; 2],
) -> (Driver<'a>, Vec<(EntityId, char)>) {
    let mut host = host(policy, 2, knobs);
    let above = group(&mut host, marked == [true; 2], GroupId::ROOT);
    let mut names = Vec::new();
    for (mark, name) in marked.into_iter().zip(['a', 'b']) {
        let vm_group = group(&mut host, mark && marked != [true; 2], above);
        names.extend(vm(&mut host, vm_group, 2).into_iter().map(|e| (e, name)));
    }
    names.iter().for_each(|&(e, _)| wake(&mut host, e));
    for cpu in [CPU, OTHER] {
        names.push((hog(&mut host, on(cpu)), '.'));
    }
    (host, names)
}

fn assert_picture(policy: &'static Descriptor, knobs: &[(&str, i64)], step: u64) {
    let (mut host, names) = two_vms(policy, knobs, [true; 2]);
    let rows = rows(&mut host, 0..45, step, &names);
    assert_eq!(rows[0], rows[1], "side by side");
    assert!(policy.essay().contains(&rows[0]), "{}", rows[0]);
}

#[test]
fn vms_below_one_mark_take_rounds() {
    assert_picture(&poris::POLICY, &[("latency", ms(10))], 1_000);
}

#[test]
fn each_vm_has_whole_turns() {
    assert_picture(&poris_s::POLICY, &[("latency", ms(10))], 1_000);
}

#[test]
fn each_vm_has_whole_long_turns() {
    assert_picture(&ps::POLICY, &[], 6_000);
}

#[test]
fn a_concurrent_vm_runs_side_by_side() {
    let mut host = host(&hybrid::POLICY, 2, &[]);
    let marked = group(&mut host, true, GroupId::ROOT);
    let mut names: Vec<(EntityId, char)> = vm(&mut host, marked, 2).into_iter().map(|e| (e, 'a')).collect();
    names.iter().for_each(|&(e, _)| wake(&mut host, e));
    for cpu in [CPU, CPU, OTHER] {
        names.push((hog(&mut host, on(cpu)), '.'));
    }
    let rows = rows(&mut host, 0..45, 6_000, &names);
    for row in &rows {
        assert!(hybrid::POLICY.essay().contains(row), "{}", rows.join("\n"));
    }
}

#[test]
fn an_event_goes_first() {
    let mut host = host(&rs::POLICY, 1, &[]);
    let marked = group(&mut host, true, GroupId::ROOT);
    let mut names: Vec<(EntityId, char)> =
        ['a', 'b', 'c'].map(|name| (hog(&mut host, Params::default()), name)).to_vec();
    let e = hog(&mut host, Params { group: marked, ..Params::default() });
    names.push((e, 'e'));
    let mut row = rows(&mut host, 0..12, 1_000, &names).concat();
    host.notice(e, Notice::Interrupt);
    row += &rows(&mut host, 12..22, 1_000, &names).concat();
    assert!(rs::POLICY.essay().contains(&row), "{row}");
}

/// Returns figure 6 of Poris, a row for each CPU and a letter for each millisecond. Four VMs of two vCPUs have four
/// CPUs. Hogs fill each CPU up to four vCPUs.
fn figure_6_under(knobs: &[(&str, i64)]) -> Vec<String> {
    let mut host = host(&poris::POLICY, 4, knobs);
    let together = group(&mut host, true, GroupId::ROOT);
    let vms: Vec<Vec<EntityId>> = (0..4)
        .map(|_| {
            let group = group(&mut host, false, together);
            vm(&mut host, group, 2)
        })
        .collect();
    let others: Vec<EntityId> = (0..4).flat_map(|cpu| [(); 2].map(|()| hog(&mut host, on(CpuId::new(cpu))))).collect();
    vms.iter().flatten().for_each(|&e| wake(&mut host, e));
    let mut names: Vec<(EntityId, char)> = others.iter().map(|&e| (e, '.')).collect();
    names.extend(vms.iter().zip('1'..).flat_map(|(vm, name)| vm.iter().map(move |&e| (e, name))));
    rows(&mut host, 0..60, 1_000, &names)
}

/// The right side of figure 6: with rounds.
#[test]
fn figure_6() {
    let rows = figure_6_under(&[]);
    // From the second round on, all vCPUs are runnable. Two subgroups then alternate for five rounds each, at the same
    // instants on all CPUs.
    let expected = [".1313131313.", ".1313131313.", ".2424242424.", ".2424242424."];
    let columns: Vec<_> = rows.iter().zip(expected).map(|(row, expected)| row.find(expected)).collect();
    assert!(columns[0].is_some() && columns.iter().all(|&column| column == columns[0]), "{}", rows.join("\n"));
}

/// The left side of figure 6: without rounds, each subgroup has one whole time slice, and others then run. All CPUs end
/// these time slices at the same instant, so no member runs when the next subgroup is picked.
#[test]
fn figure_6_without_rounds() {
    let rows = figure_6_under(&[("round", ms(6))]);
    let expected = [".1111133333.....", ".1111133333.....", ".2222244444.....", ".2222244444....."];
    let columns: Vec<_> = rows.iter().zip(expected).map(|(row, expected)| row.find(expected)).collect();
    assert!(columns[0].is_some() && columns.iter().all(|&column| column == columns[0]), "{}", rows.join("\n"));
}
