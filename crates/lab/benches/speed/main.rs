mod bare_loop;
use sched::*;
use std::time::Instant as Clock;
fn main() {
    let text = std::fs::read_to_string(
        std::env::args()
            .nth(1)
            .filter(|a| a.ends_with("csv"))
            .unwrap_or("/work/shared/oracles/edf/ts_B_n100_u3.6.csv".into()),
    )
    .unwrap();
    let tasks: Vec<(u64, u64)> = text
        .lines()
        .skip(1)
        .map(|l| {
            let v: Vec<u64> = l.split(',').map(|x| x.parse().unwrap()).collect();
            (v[1] * 1000, v[2] * 1000)
        })
        .collect();
    let seconds = 10;
    for _ in 0..5 {
        let t = Clock::now();
        let bare_loop::Table([r, c, rest @ ..]) = bare_loop::run(&tasks, 4, seconds * 1_000_000_000);
        let bare = t.elapsed().as_secs_f64();
        let t = Clock::now();
        let edf = policies::find("edf").unwrap();
        let mut knobs = edf.defaults();
        knobs.set("enforce", 2).unwrap();
        let mut host = sim::Host::new(edf, Host::new(4), &knobs, sim::Costs::NONE).unwrap();
        for (i, &(p, w)) in tasks.iter().enumerate() {
            let params = Params {
                reservation: Some(Reservation {
                    slice: Nanos::ns(w),
                    period: Nanos::ns(p),
                    start: None,
                    limit: Limit::Soft,
                }),
                ..Params::default()
            };
            let jobs = sim::Periodic { end: sim::JobEnd::Yield, ..sim::Periodic::new(Nanos::ns(p), Nanos::ns(w)) };
            host.attach(&i.to_string(), params, sim::Workload::Periodic(jobs)).unwrap();
        }
        host.run_until(Instant::at_ns(seconds * 1_000_000_000));
        let ours = t.elapsed().as_secs_f64();
        println!(
            "bare {r} {c} {rest:?} {:.1} M/s; ours {:?} {:.1} M/s; ratio {:.2}",
            (r + c) as f64 / bare / 1e6,
            host.counts(),
            (host.counts().releases + host.counts().completions) as f64 / ours / 1e6,
            bare / ours
        );
    }
}
