//! Networks and disks of scenarios, and the applications that use them. On an otherwise idle host, each application has
//! a result that the test calculates.

use crate::alone::{near, of, parse, played, reading};
use report::Report;
use scenario::Scenario;
use workloads::metrics::Reading;

const HEAD: &str = "name = \"x\"\ncpus = 2\nlength = \"2s\"\npolicy = \"cfs\"\n";

/// Returns the results of `workload` on an otherwise idle host with the devices `devices`.
fn on_host(devices: &str, workload: &str) -> Reading {
    let text = format!("{HEAD}{devices}\n[[task]]\nname = \"it\"\nworkload.{workload}\n");
    reading(&played(&parse(&text)).applications)
}

/// Returns the results of `workload` in a VM, and the report.
fn in_vm(devices: &str, workload: &str) -> (Reading, Report) {
    let text = format!("{HEAD}{devices}\n[[vm]]\nname = \"vm\"\n[[vm.task]]\nname = \"it\"\nworkload.{workload}\n");
    let report = played(&parse(&text));
    (reading(&report.guests[0].applications), report)
}

const WAYS: [&str; 4] = ["none", "vhost", "hypervisor", "split\"\ndomain = \"vm"];

#[test]
fn iperf_gets_what_the_line_carries_or_a_window_in_each_round_trip() {
    for direction in ["in", "out"] {
        let iperf = |window: u64| format!("iperf = {{ window = {window}, direction = \"{direction}\" }}");
        let line = "[network]\nbandwidth = \"100Mbit\"\nlatency = \"50us\"";
        near(&on_host(line, &iperf(65_536)), "mbit_per_s_milli", 100_000, 5);
        let far = "[network]\nlatency = \"5ms\"";
        // A window of 64 KiB is sent in every round trip of 10 ms, apart from the time to write the data.
        near(&on_host(far, &iperf(65_536)), "mbit_per_s_milli", 52_429, 10);
        for way in WAYS {
            let line = format!("{line}\ndrivers = \"{way}\"");
            near(&in_vm(&line, &iperf(262_144)).0, "mbit_per_s_milli", 100_000, 10);
        }
    }
}

#[test]
fn dd_gets_what_the_disk_transfers() {
    let disk = "[disk]\nservice = \"5ms\"\nbandwidth = \"50MB\"";
    let dd = "dd = { block = 1000000, count = 40, work = \"100us\" }";
    let alone = on_host(disk, dd);
    assert_eq!((of(&alone, "took_ns"), of(&alone, "unfinished")), (40 * 25_100_000, 0), "{alone:?}");
    near(&alone, "mb_per_s_milli", 39_841, 1);
    for (way, events) in [("none", 0), ("vhost", 2), ("hypervisor", 2), ("split\"\ndomain = \"other", 2)] {
        let other = if way.starts_with("split") { "\n[[vm]]\nname = \"other\"\nguest = \"cfs\"" } else { "" };
        let disk = format!("{disk}\nevent = \"50us\"\ndrivers = \"{way}\"{other}");
        let text = format!("{HEAD}{disk}\n[[vm]]\nname = \"vm\"\n[[vm.task]]\nname = \"it\"\nworkload.{dd}\n");
        let report = played(&parse(&text));
        let it = reading(&report.guests.last().expect("a guest").applications);
        let right = 40 * (25_100_000 + events * 50_000);
        assert_eq!(of(&it, "took_ns"), right, "{way}: {it:?}");
    }
}

#[test]
fn a_web_server_answers_as_many_as_it_has_cpu_time_for() {
    let web = "web_server = { clients = 20, response = 1000, service = { uniform = [\"500us\", \"1500us\"] } }";
    for way in WAYS {
        let network = format!("[network]\nevent = \"1us\"\ndrivers = \"{way}\"");
        let (it, _) = in_vm(&network, web);
        near(&it, "requests_per_s_milli", 1_000_000, 30);
    }
    // The response time is the service time plus six latencies of the wire, because no packet waits for another
    // request.
    let one = "web_server = { clients = 1, response = 1000, service = \"1ms\", think = \"10ms\", spread = \"0s\" }";
    let it = on_host("[network]\nlatency = \"100us\"", one);
    assert_eq!(of(&it, "response_p50_ns"), of(&it, "response_max_ns"));
    let right = 1_000_000 + 6 * 100_000;
    near(&it, "response_max_ns", right, 1);
}

#[test]
fn an_answer_may_begin_slowly() {
    // A response of 10 KB has eight segments. With a window of three, the server first sends three segments and then
    // waits for acknowledgements, for a round trip of 200 us.
    let took = |window: &str| {
        let web =
            format!("web_server = {{ clients = 1, service = \"1ms\", think = \"10ms\", spread = \"0s\"{window} }}");
        of(&on_host("[network]\nlatency = \"100us\"", &web), "response_max_ns")
    };
    let at_once = took("");
    assert_eq!(took(", window = 8"), at_once, "there is room for all");
    // The CPU time of a segment is 62.5 us. The server uses this time while an acknowledgement is in transit, so the
    // delay is not exactly one or two round trips.
    let slow = took(", window = 3") - at_once;
    assert!((200_000..=400_000).contains(&slow), "{slow}");
    assert!(took(", window = 2") > took(", window = 3"));
    // A response of a megabyte reaches the maximum window. The server must read every acknowledgement.
    let big = "web_server = { clients = 1, response = 1000000, service = \"1ms\", spread = \"0s\", window = 2 }";
    assert!(of(&on_host("[network]\nlatency = \"100us\"", big), "requests") > 10);
}

#[test]
fn a_driver_domain_tells_guests_of_each_packet_or_once_a_pass() {
    let text =
        include_str!("../../../../scenarios/xen-io.toml").replace("\"1s\"", "\"100ms\"").replace("\"4s\"", "\"1s\"");
    // Under BVT, a woken domain can preempt Dom0 in the middle of a pass, so the instant of the notification has an
    // effect.
    let text = text.replace("policy = \"sedf\"", "policy = \"bvt\"");
    let woken = |tells: &str| {
        let text = text.replace("[network]\n", &format!("[network]\ntells = \"{tells}\"\n"));
        let report = played(&parse(&text));
        report.entities.iter().map(|it| it.got.delivered_ns).collect::<Vec<_>>()
    };
    assert_eq!(woken("each"), {
        let report = played(&parse(&text));
        report.entities.iter().map(|it| it.got.delivered_ns).collect::<Vec<_>>()
    });
    assert_ne!(woken("passes"), woken("each"));
    let wrong = text.replace("[network]\n", "[network]\ntells = \"all\"\n");
    let refused = Scenario::from_bytes("test.toml", wrong.into_bytes()).expect_err("no such word").to_string();
    assert!(refused.contains("use \"each\" or \"passes\""), "{refused}");
}

/// The threads of a driver domain use any of its vCPUs, unless their affinity selects one.
#[test]
fn drivers_run_on_the_vcpus_of_their_affinity() {
    let text = |affinity: &str| {
        let web = "{ web_server = { clients = 20, response = 1000, service = \"100us\" } }";
        format!(
            "name = \"x\"\ncpus = 4\nlength = \"500ms\"\npolicy = \"credit\"\n\
             [network]\ndrivers = \"split\"\ndomain = \"dom0\"\nevent = \"50us\"\n{affinity}\n\
             [[vm]]\nname = \"dom0\"\nvcpus = 2\nguest = \"cfs\"\n\
             [[vm.task]]\nname = \"short\"\nworkload.periodic = {{ period = \"1ms\", work = \"100us\" }}\n\
             [[vm]]\nname = \"web\"\nguest = \"cfs\"\n[[vm.task]]\nname = \"web\"\nworkload = {web}\n"
        )
    };
    let netback = |affinity: &str| {
        let report = played(&parse(&text(affinity)));
        let vcpus: Vec<_> = report.entities.iter().filter(|it| it.name.starts_with("dom0/")).collect();
        let busy = vcpus.iter().map(|it| it.got.delivered_ns).collect::<Vec<_>>();
        assert_eq!(busy.len(), 2, "{busy:?}");
        busy
    };
    let (first, second) = (netback("affinity = \"0\""), netback("affinity = \"1\""));
    // The periodic task stays on one vCPU or the other; the driver uses several times as much.
    assert!(first[0] > 2 * first[1], "{first:?}");
    assert!(second[1] > 2 * second[0], "{second:?}");
    let refused = |text: String| Scenario::from_bytes("test.toml", text.into_bytes()).expect_err("wrong").to_string();
    assert!(
        refused(text("affinity = \"2\"")).contains("`dom0` has no such vCPU"),
        "{}",
        refused(text("affinity = \"2\""))
    );
    let vhost = text("affinity = \"0\"").replace("\"split\"", "\"vhost\"").replace("domain = \"dom0\"\n", "");
    assert!(refused(vhost.clone()).contains("only split drivers have an affinity"), "{}", refused(vhost));
}

#[test]
fn requests_at_a_rate_wait_from_when_they_were_made() {
    let at = |rate: u64| {
        let web = format!("web_server = {{ clients = 50, rate = {rate}, response = 1000, service = \"1ms\" }}");
        in_vm("[network]\ndrivers = \"none\"", &web).0
    };
    let (low, high) = (at(200), at(2_000));
    near(&low, "requests_per_s_milli", 200_000, 100);
    assert!(of(&low, "response_p50_ns") < 3_000_000, "{low:?}");
    near(&high, "requests_per_s_milli", 1_000_000, 60);
    // The clients send twice as many requests as the server can answer. After two seconds, the server is one second
    // late.
    assert!(of(&high, "response_max_ns") > 800_000_000, "{high:?}");
    assert!(of(&high, "open") > 1_500, "{high:?}");
}

#[test]
fn calls_sound_as_their_codec_does() {
    for (codec, mos) in [("g711", 4_370), ("g729", 4_040)] {
        let it = on_host("[network]\nlatency = \"30ms\"", &format!("voip = {{ calls = 5, codec = \"{codec}\" }}"));
        assert_eq!((of(&it, "calls"), of(&it, "lost_ppm"), of(&it, "discarded_ppm")), (5, 0, 0), "{it:?}");
        near(&it, "mos_milli", mos, 10);
        assert!(of(&it, "jitter_mean_ns") < 1_000_000, "{it:?}");
        near(&it, "packets", 5 * 98, 10);
    }
    // The delay of packets varies by up to 20 ms, and the buffer covers only 5 ms.
    let network = "[network]\nlatency = { uniform = [\"20ms\", \"40ms\"] }";
    let it = on_host(network, "voip = { calls = 50, buffer = \"5ms\" }");
    assert!(of(&it, "jitter_mean_ns") > 5_000_000 && of(&it, "discarded_ppm") > 100_000, "{it:?}");
    assert!(of(&it, "mos_milli") < 2_500, "{it:?}");
    // The mean deviation of a uniform variable from its mean is a quarter of its range.
    near(&it, "delay_deviation_ns", 5_000_000, 30);
}

/// The ring of the guest's kernel drops packets when it is full. The kernel's thread has no CPU for 400 ms of every 500
/// ms.
#[test]
fn a_guests_ring_has_room_for_so_many_packets() {
    let lost = |ring: &str| {
        let text = format!(
            "{HEAD}[network]\nreceived = \"10us\"\n{ring}\n[[vm]]\nname = \"vm\"\nguest = \"linux\"\n[[vm.task]]\nname = \"it\"\n\
             workload.voip = {{ calls = 2 }}\n[[vm.task]]\nname = \"hog\"\nclass = {{ fifo = 50 }}\n\
             workload.periodic = {{ period = \"500ms\", work = \"400ms\" }}\n"
        );
        of(&reading(&played(&parse(&text)).guests[0].applications), "lost_ppm")
    };
    // In 400 ms, 20 packets of each call arrive.
    assert_eq!(lost(""), 0);
    assert_eq!(lost("ring = 40"), 0);
    assert!((550_000..800_000).contains(&lost("ring = 4")), "{}", lost("ring = 4"));
}

#[test]
fn calls_lose_what_their_socket_has_no_room_for() {
    let text = format!(
        "{HEAD}[network]\n[[task]]\nname = \"it\"\naffinity = \"0\"\nworkload.voip = {{ calls = 2, socket = 400 }}\n\
         [[task]]\nname = \"hog\"\naffinity = \"0\"\nclass = {{ fifo = 50 }}\n\
         workload.periodic = {{ period = \"500ms\", work = \"400ms\" }}\n"
    )
    .replace("cfs", "linux");
    let it = reading(&played(&parse(&text)).applications);
    // In 400 ms, 20 packets of each call arrive, and the socket of a call has room for two of them.
    assert!((600_000..800_000).contains(&of(&it, "lost_ppm")), "{it:?}");
    assert!(of(&it, "mos_milli") < 1_100, "{it:?}");
}

#[test]
fn a_search_takes_as_long_as_its_slowest_leaf() {
    let vm = |name: &str| format!("[[vm]]\nname = \"{name}\"\nguest = \"cfs\"\n");
    let text = |hog: &str| {
        format!(
            "{HEAD}[network]\nlatency = \"100us\"\ndrivers = \"none\"\n[[vm]]\nname = \"root\"\naffinity = \"0\"\n[[vm.task]]\nname = \"it\"\n\
             workload.search = {{ leaves = [\"a\", \"b\"], work = \"2ms\", merge = \"500us\", think = \"7ms\" }}\n\
             {}affinity = \"0\"\n{}affinity = \"1\"\n{hog}",
            vm("a"),
            vm("b")
        )
    };
    let alone = reading(&played(&parse(&text(""))).guests[0].applications);
    assert_eq!(of(&alone, "response_max_ns"), 2_000_000 + 500_000 + 2 * 100_000, "{alone:?}");
    assert_eq!(of(&alone, "response_mean_ns"), of(&alone, "response_max_ns"), "all are alike: {alone:?}");
    near(&alone, "requests_per_s_milli", 103_093, 10);
    let slow = text("[[task]]\nname = \"hog\"\naffinity = \"1\"\nworkload = \"hog\"\n");
    let slow = slow.replacen("cfs", "round-robin", 1);
    let slow = reading(&played(&parse(&slow)).guests[0].applications);
    assert!(of(&slow, "response_max_ns") > 3_500_000, "one leaf shares its CPU: {slow:?}");
}

#[test]
fn a_device_driver_uses_cpu_time_for_every_event() {
    let (it, report) = in_vm("[disk]\nservice = \"1ms\"\nevent = \"10us\"", "dd = { count = 100 }");
    assert_eq!(of(&it, "blocks"), 100);
    let thread = report.entities.iter().find(|entity| entity.name == "iothread-vm").expect("it is in the report");
    assert_eq!(thread.got.delivered_ns, 100 * 2 * 10_000);
    let web = "web_server = { clients = 1, response = 1000, service = \"1ms\", think = \"90ms\", spread = \"0s\" }";
    let network = "[network]\nevent = \"10us\"\nreceived = \"20us\"";
    let (it, report) = in_vm(network, web);
    let done = of(&it, "requests");
    let thread = report.entities.iter().find(|entity| entity.name == "vhost-vm").expect("it is in the report");
    // A request has four outgoing packets with two events each, and five incoming packets with one event each.
    assert_eq!(thread.got.delivered_ns, done * (4 * 2 + 5) * 10_000, "{it:?}");
    let receiver =
        report.guests[0].entities.iter().find(|entity| entity.name == "network").expect("it is in the report");
    assert_eq!(receiver.got.delivered_ns, done * 5 * 20_000);
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let text =
        include_str!("../../../../scenarios/xen-io.toml").replace("\"4s\"", "\"300ms\"").replace("\"1s\"", "\"100ms\"");
    let scenario = parse(&text);
    assert_eq!(format!("{:?}", played(&scenario)), format!("{:?}", played(&scenario)));
}

#[test]
fn what_connects_machines_is_refused_with_place_reason_and_remedy() {
    let vm =
        |name: &str, work: &str| format!("[[vm]]\nname = \"{name}\"\n[[vm.task]]\nname = \"it\"\nworkload.{work}\n");
    let plain = "[[vm]]\nname = \"plain\"\nworkload = \"hog\"\n";
    let task = "[[task]]\nname = \"it\"\nworkload = \"hog\"\n";
    let iperf = vm("a", "iperf = {}");
    for (text, reason, right) in [
        (vm("a", "dd = {}"), "`it` uses a disk, and there is none", "[disk] in the scenario"),
        (iperf.clone(), "`it` uses a network, and there is none", "[network] in the scenario"),
        (format!("[network]\nbandwidth = \"0Mbit\"\n{iperf}"), "`0Mbit` lets nothing pass", "such as \"1Gbit\""),
        (format!("[network]\nbandwidth = \"fast\"\n{iperf}"), "`fast` is not a bandwidth", "such as \"1Gbit\""),
        (format!("[network]\nroom = 5\n{iperf}"), "no packet waits before a link", "a `bandwidth` with it"),
        (format!("[network]\ndrivers = \"split\"\n{iperf}"), "no domain has the back end", "domain = "),
        (format!("[network]\ndomain = \"a\"\n{iperf}"), "only split drivers have a domain", "drivers = \"split\""),
        (format!("[network]\ndrivers = \"split\"\ndomain = \"b\"\n{iperf}"), "there is no vm `b`", "did you mean `a`"),
        (
            format!("[network]\ndrivers = \"split\"\ndomain = \"plain\"\n{plain}{iperf}"),
            "`plain` has no guest",
            "use one of a",
        ),
        (
            format!("[network]\ndrivers = \"hypervisor\"\nevent = {{ exponential = \"4us\" }}\n{iperf}"),
            "not random",
            "\"4us\"",
        ),
        (format!("[network]\n{}", vm("a", "search = { leaves = [\"a\"] }")), "`it` is in `a` itself", "other VMs"),
        (format!("[network]\n{}", vm("a", "search = {}")), "has no leaves", "leaves = "),
        (format!("[network]\n{}", vm("a", "voip = { socket = 10 }")), "no room for a packet", "use 200 or more"),
        (
            format!("[network]\n{}", vm("a", "web_server = { rate = 5, think = \"1ms\" }")),
            "both a rate and a think time",
            "use one of the two",
        ),
        (
            format!("[network]\n{}{}", vm("a", "voip = { calls = 1000 }"), vm("b", "voip = { calls = 100 }")),
            "too many clients",
            "at most 1024",
        ),
        (
            format!("[network]\n{iperf}{}", task.replace("it", "vhost-a")),
            "a thread that drives a device",
            "another name",
        ),
    ] {
        let text = format!("{HEAD}{text}");
        let problems = Scenario::from_bytes("x.toml", text.clone().into_bytes()).expect_err(&text);
        let [problem] = problems.shown() else { panic!("{problems}") };
        assert!(problem.to_string().contains(reason), "{problem}, not {reason}");
        assert!(problem.remedy().contains(right), "{}, not {right}", problem.remedy());
        assert!(problem.place().starts_with("x.toml:"), "{}", problem.place());
    }
}

#[test]
fn a_user_of_a_vm_that_boots_late_comes_with_it() {
    let text = format!(
        "{HEAD}[network]\n[[vm]]\nname = \"a\"\n[[vm.task]]\nname = \"it\"\nworkload.search = {{ leaves = [\"late\"] }}\n\
         [[vm]]\nname = \"late\"\narrival = \"500ms\"\nguest = \"cfs\"\n"
    );
    let it = reading(&played(&parse(&text)).guests[0].applications);
    // From one search to the next, 11 ms and two latencies of the wire pass on average.
    assert!((90..=170).contains(&of(&it, "requests")), "{it:?}");
}
