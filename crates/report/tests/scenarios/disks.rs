//! Workloads on files and drives. On an otherwise idle host, each workload has a result that the test calculates.

use crate::alone::{near, of, parse, played, reading};
use report::{AppReport, Report};
use scenario::Scenario;
use workloads::metrics::Reading;

const HEAD: &str = "name = \"x\"\ncpus = 2\nlength = \"60s\"\npolicy = \"cfs\"\n";

/// Returns the results of `workload` on an otherwise idle host with the devices `devices`.
fn on_host(devices: &str, workload: &str) -> Reading {
    let text = format!("{HEAD}{devices}\n[[task]]\nname = \"it\"\nworkload.{workload}\n");
    reading(&played(&parse(&text)).applications)
}

#[test]
fn a_transaction_takes_its_cpu_time_and_what_is_not_in_the_cache() {
    let disk = "[disk]\nservice = \"5ms\"";
    // Each transaction has two operations of 20 us. Every twentieth transaction reads the disk for 5 ms.
    let it = on_host(disk, "postmark = { transactions = 5000, written_back = 0 }");
    assert_eq!((of(&it, "took_ns"), of(&it, "transactions")), (5_000 * 40_000 + 250 * 5_000_000, 5_000), "{it:?}");
    assert_eq!((of(&it, "transactions_per_s_milli"), of(&it, "unfinished")), (3_448_276, 0));
    // The last round has fewer than ten transactions, and counts with its actual CPU time.
    let odd = on_host(disk, "postmark = { transactions = 4567, hits = 100, written_back = 0 }");
    assert_eq!((of(&odd, "took_ns"), of(&odd, "transactions")), (4_567 * 40_000, 4_567), "{odd:?}");
    // The sizes of reads and writes are means. A read of a file includes all data that was appended before.
    near(&odd, "mb_read_per_s_milli", 25_000 * 6_833 / 2_000, 1);
    near(&odd, "mb_written_per_s_milli", 25_000 * (5_250 + 1_583) / 2_000, 1);
}

#[test]
fn a_writer_faster_than_the_disk_waits_for_it() {
    let fast = on_host("[disk]\nbandwidth = \"200MB\"", "postmark = { transactions = 400000, hits = 100 }");
    assert_eq!((of(&fast, "transactions_per_s_milli"), of(&fast, "unfinished")), (25_000_000, 0), "{fast:?}");
    let postmark = "postmark = { transactions = 20000, hits = 100, dirty = 100000 }";
    let slow = on_host("[disk]\nbandwidth = \"2MB\"", postmark);
    near(&slow, "mb_written_per_s_milli", 2_000, 5);
    // Half of the data is deleted before it is written back.
    let half = on_host("[disk]\nbandwidth = \"2MB\"", &postmark.replace("hits", "written_back = 50, hits"));
    near(&half, "mb_written_per_s_milli", 4_000, 5);
}

#[test]
fn a_mail_server_is_as_fast_as_its_disk_synchronises() {
    let disk = "[disk]\nservice = \"5ms\"";
    // A loop has 13 operations of 10 us, with two appends of 8 KiB and two reads of 16 KiB, copied at 4 GB/s. Two
    // operations wait for the disk.
    let one = on_host(disk, "filebench = { mix = \"varmail\", threads = 1, loops = 100, hits = 100 }");
    let turn = 130_000 + 4 * 2_048 + 4_096 + 2 * 5_000_000;
    assert_eq!((of(&one, "took_ns"), of(&one, "operations")), (100 * turn, 1_300), "{one:?}");
    assert_eq!((of(&one, "operation_mean_ns"), of(&one, "operation_max_ns")), (turn / 13, 5_010_000), "{one:?}");
    // The disk serves 200 requests per second. Each loop of 13 operations makes two requests, or 2.2 if a tenth of the
    // reads misses the cache.
    let many = |hits: u64| on_host(disk, &format!("filebench = {{ mix = \"varmail\", hits = {hits} }}"));
    near(&many(100), "operations_per_s_milli", 1_300_000, 5);
    near(&many(90), "operations_per_s_milli", 1_300_000 * 20 / 22, 5);
}

#[test]
fn every_mix_does_what_its_file_says() {
    let of_mix = |mix: &str| {
        let disk = "[disk]\nbandwidth = \"1GB\"";
        let filebench = format!("filebench = {{ mix = \"{mix}\", threads = 2, loops = 500, hits = 75 }}");
        on_host(disk, &filebench)
    };
    // The columns are the mix, the operations per loop, and the KiB read and written per loop.
    for (mix, operations, read, written) in
        [("varmail", 13, 32, 16), ("fileserver", 11, 128, 136), ("webserver", 31, 160, 8), ("webproxy", 19, 80, 8)]
    {
        let it = of_mix(mix);
        assert_eq!((of(&it, "operations"), of(&it, "unfinished")), (2 * 500 * operations, 0), "{mix}: {it:?}");
        let moved = |kib: u64| 1_000 * kib * 1_024 * 1_000_000 / of(&it, "took_ns");
        near(&it, "mb_read_per_s_milli", moved(read), 1);
        near(&it, "mb_written_per_s_milli", moved(written), 1);
    }
}

#[test]
fn a_reader_that_keeps_up_with_a_drive_loses_no_turn() {
    let reader = "cd_reader = { turns = 50, turn = \"20ms\", buffer = 5, work = \"1ms\" }";
    let it = on_host("", reader);
    assert_eq!((of(&it, "took_ns"), of(&it, "unfinished")), (50 * 20_000_000 + 1_000_000, 0), "{it:?}");
    // Only the driver's event for the last request increases the total time. The other requests are handled while the
    // disc turns.
    for way in ["none", "vhost", "hypervisor", "split\"\ndomain = \"other"] {
        let other = if way.starts_with("split") { "\n[[vm]]\nname = \"other\"\nguest = \"cfs\"" } else { "" };
        let disk = format!("[disk]\nservice = \"5ms\"\nevent = \"50us\"\ndrivers = \"{way}\"{other}");
        let text = format!("{HEAD}{disk}\n[[vm]]\nname = \"vm\"\n[[vm.task]]\nname = \"it\"\nworkload.{reader}\n");
        let report = played(&parse(&text));
        let it = reading(&report.guests.last().expect("a guest").applications);
        let event = if way == "none" { 0 } else { 50_000 };
        assert_eq!(of(&it, "took_ns"), 1_001_000_000 + event, "{way}: {it:?}");
        if let Some(thread) = report.entities.iter().find(|entity| entity.name == "iothread-vm") {
            assert_eq!((way, thread.got.delivered_ns), ("vhost", 50 * 2 * 50_000));
        }
    }
}

#[test]
fn a_drive_that_is_not_kept_up_with_seeks_back() {
    let held_up = |seek: &str| {
        let text = format!(
            "{HEAD}[[task]]\nname = \"it\"\naffinity = \"0\"\n\
             workload.cd_reader = {{ turns = 50, turn = \"20ms\", buffer = 5, seek = \"{seek}\", work = \"1ms\" }}\n\
             [[task]]\nname = \"hog\"\naffinity = \"0\"\nclass = {{ fifo = 50 }}\n\
             workload.periodic = {{ period = \"100s\", work = \"200ms\", phase = \"110ms\" }}\n"
        );
        reading(&played(&parse(&text.replace("cfs", "linux"))).applications)
    };
    // The buffer has no room for the data of the turn at 240 ms until 311 ms. At 311 ms, the program has processed the
    // first waiting turn. The drive continues at the next turn, at 320 ms instead of 260 ms.
    assert_eq!(of(&held_up("0s"), "took_ns"), 1_001_000_000 + 60_000_000);
    // With a seek of 100 ms, the drive is ready at 411 ms, and continues at 420 ms.
    assert_eq!(of(&held_up("100ms"), "took_ns"), 1_001_000_000 + 160_000_000);
}

#[test]
fn ripping_a_disc_takes_as_long_as_without_vsched_where_its_slice_is_large_enough() {
    // In figure 10 of vsched-2005, the program takes 37 s at 5 % of the CPU without VSched.
    let ripped = |asks: &str, policy: &str| {
        let text = format!("{HEAD}[[task]]\nname = \"it\"\n{asks}workload.cd_reader = {{}}\n");
        let text = text.replace("60s", "600s").replace("policy = \"cfs\"", policy);
        let report = played(&parse(&text));
        let used: u64 = report.entities.iter().map(|entity| entity.got.delivered_ns).sum();
        let it = reading(&report.applications);
        (of(&it, "took_ns"), 1_000 * used / of(&it, "took_ns"), of(&it, "unfinished"))
    };
    let unscheduled = ripped("", "policy = \"cfs\"");
    assert_eq!(unscheduled, (37_001_000_000, 49, 0));
    let vsched = |slice: &str, period: &str| {
        let asks = format!("slice = \"{slice}\"\nperiod = \"{period}\"\nlimit = \"hard\"\n");
        ripped(&asks, "policy = \"edf\"")
    };
    for (slice, period) in [("1ms", "10ms"), ("6ms", "100ms")] {
        let (took, _, unfinished) = vsched(slice, period);
        assert!(took < 37_200_000_000 && unfinished == 0, "{slice} of {period}: {took}");
    }
    // The processing of 1850 turns takes 1.85 s of CPU time. With 4 % of a CPU, this lasts at least 46 s; with 2 %, at
    // least 92 s.
    for (slice, least) in [("4ms", 46), ("2ms", 92)] {
        let (took, _, unfinished) = vsched(slice, "100ms");
        assert!(took > least * 1_000_000_000 && unfinished == 0, "{slice} of 100 ms: {took}");
    }
}

/// Runs a VM with a web server and a program that reads a disk. Returns the number of answered requests, the names and
/// CPU times of the host's driver threads, and the report.
fn web_and_disk(devices: &str) -> (u64, Vec<(String, u64)>, Report) {
    let text = format!(
        "{HEAD}{devices}[[vm]]\nname = \"vm\"\n[[vm.task]]\nname = \"dd\"\nworkload.dd = {{ count = 100 }}\n[[vm.task]]\n\
         name = \"it\"\nworkload.web_server = {{ clients = 1, response = 1000, service = \"1ms\", think = \"90ms\" }}\n"
    );
    let report = played(&parse(&text.replace("60s", "2s")));
    let threads = report.entities.iter().filter(|entity| entity.name != "vm");
    let threads = threads.map(|entity| (entity.name.clone(), entity.got.delivered_ns)).collect();
    let [dd, web] = &report.guests[0].applications[..] else { panic!("two applications") };
    let of = |it: &AppReport, name| Reading { values: it.values.clone(), ..Reading::default() }.get(name);
    assert_eq!(of(dd, "blocks"), Some(100));
    (of(web, "requests").expect("it is there"), threads, report)
}

#[test]
fn an_emulator_drives_all_devices_of_its_vm_by_one_thread() {
    let (network, disk) = ("[network]\nevent = \"10us\"\n", "[disk]\nservice = \"1ms\"\nevent = \"30us\"\n");
    let drivers = |name: &str| format!("drivers = \"{name}\"\n");
    let emulator = drivers("emulator");
    // For each request, five packets arrive with one event each, and four packets leave with two events each.
    let (done, threads, _) = web_and_disk(&format!("{network}{emulator}{disk}{emulator}"));
    let (packets, blocks) = (done * 13 * 10_000, 100 * 2 * 30_000);
    assert_eq!(threads, [("emulator-vm".to_string(), packets + blocks)], "each event costs what its device says");
    for (first, second, packets_by, blocks_by) in [
        ("vhost", "emulator", "vhost-vm", "emulator-vm"),
        ("vhost", "iothread", "vhost-vm", "iothread-vm"),
        ("emulator", "vhost", "emulator-vm", "iothread-vm"),
    ] {
        let (done, threads, _) = web_and_disk(&format!("{network}{}{disk}{}", drivers(first), drivers(second)));
        let right = [(packets_by.to_string(), done * 13 * 10_000), (blocks_by.to_string(), blocks)];
        assert_eq!(threads, right, "{first} and {second}");
    }
}

#[test]
fn a_vm_pays_for_telling_its_emulator() {
    let used = |kick: &str| {
        let (.., report) = web_and_disk(&format!(
            "[network]\ndrivers = \"none\"\n[disk]\nservice = \"1ms\"\ndrivers = \"emulator\"\nkick = \"{kick}\"\n"
        ));
        report.entities.iter().find(|entity| entity.name == "vm").expect("the VM").got.delivered_ns
    };
    // The program pays for the notification of a request at its next computation. It does not compute after the last
    // request. The emulator handles the completions.
    assert_eq!(used("70us") - used("0s"), 99 * 70_000);
}

#[test]
fn what_is_wrong_with_them_is_said_with_place_reason_and_remedy() {
    let said = |workload: &str| {
        let text = format!("{HEAD}[disk]\n[[task]]\nname = \"it\"\nworkload.{workload}\n");
        Scenario::from_bytes("x.toml", text.into()).expect_err(workload).to_string()
    };
    let emulator = "[network]\ndrivers = \"emulator\"\nkick = \"1us\"\n[disk]\ndrivers = \"emulator\"";
    let text = format!("{HEAD}{emulator}\n[[vm]]\nname = \"vm\"\n[[vm.task]]\nname = \"it\"\nworkload.dd = {{}}\n");
    let two = Scenario::from_bytes("x.toml", text.clone().into()).expect_err("they differ").to_string();
    assert!(two.contains("x.toml:5:1: one thread drives both, but their kick differs"), "{two}");
    Scenario::from_bytes("x.toml", text.replace("emulator\"\n[[", "iothread\"\n[[").into()).expect("two threads");
    for (workload, reason, right) in [
        ("postmark = { smallest = 600, largest = 500 }", "8:49: the largest file is smaller", "use 600 or more"),
        ("postmark = { smallest = 10001 }", "the largest file is smaller", "use 10001 or more"),
        ("postmark = { reads = 11 }", "`reads` is out of range", "from 0 to 10"),
        ("postmark = { hits = 101 }", "`hits` is out of range", "from 0 to 100"),
        ("postmark = { dirty = 100 }", "the room is too small for the writes of ten transactions", "use 52500 or more"),
        ("postmark = { work = \"0s\" }", "the work is zero", "from 1 ns up"),
        ("cd_reader = { seek = 5 }", "the seek has no unit", "\"5ms\""),
        ("filebench = {}", "the workload `filebench` has no mix", "mix = \"varmail\""),
        ("filebench = { mix = \"mailserver\" }", "there is no mix `mailserver`", "\"varmail\", \"fileserver\""),
        ("filebench = { mix = \"varmail\", copy = 5 }", "`copy` is a whole number", "\"50MB\""),
        ("filebench = { mix = \"varmail\", dirty = 5 }", "`dirty` is out of range", "from 131072 to"),
    ] {
        let said = said(workload);
        assert!(said.contains(reason) && said.contains(right), "{workload}: {said}");
    }
}
