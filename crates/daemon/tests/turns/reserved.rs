//! Threads with a SCHED_DEADLINE reservation of another process.

use crate::scene::Scene;
use daemon::dispatch::{KeptBy, PromiseRequest, RaiseBy};
use sched::{Nanos, Reservation};
use sim::Workload;
use sys::attributes::{Attributes, Policy};

#[test]
fn a_thread_with_a_reservation_of_another_process_is_refused_and_keeps_it() {
    for by in [RaiseBy::Inheritance, RaiseBy::Attributes] {
        let mut scene = Scene::new(by, 1);
        let pid = scene.start(&[("client", Workload::Hog)])[0];
        let (deadline, period) = (Nanos::ms(10), Nanos::ms(10));
        let reserved = Policy::Deadline { runtime: Nanos::ms(1), deadline, period, reclaim: false, overrun: false };
        scene.host.world_mut().reschedule(pid, Attributes::of(reserved));
        let promise = PromiseRequest::new("client", Reservation::new(Nanos::ms(2), Nanos::ms(10)));
        let request = PromiseRequest { by: KeptBy::Dispatcher(by), ..promise };
        let refused = scene.dispatcher.admit(&request, pid, &[scene.daemon.pid()]).unwrap_err().to_string();
        assert!(refused.contains("has a reservation already") && refused.contains("chrt --other"), "{refused}");
        assert!(scene.host.world().differences().is_empty());
        assert!(scene.dispatcher.table().entries().is_empty());
    }
}
