//! Without a guardian, service is suspended, and all threads have their original values.

use super::scene::Scene;
use daemon::dispatch::{PromiseRequest, RaiseBy};
use sched::{CpuSet, EntityId, Nanos, Reservation};
use sim::Workload;

const HOG: (&str, Workload) = ("hog", Workload::Hog);

fn affinities(scene: &Scene, tids: &[u32]) -> Vec<CpuSet> {
    tids.iter().map(|&tid| scene.host.world().setting(tid).expect("it lives").affinity).collect()
}

/// Makes a promise on one of two CPUs to two threads, and suspends service. If `inherits`, the second thread starts
/// before the suspension, and inherits the confinement of the first; otherwise it starts afterwards. It is adopted
/// during the suspension.
fn suspended(inherits: bool) -> (Scene, EntityId, [u32; 2]) {
    let mut scene = Scene::new(RaiseBy::Inheritance, 2);
    let request = PromiseRequest::new("client", Reservation::new(Nanos::ms(4), Nanos::ms(10)));
    let (entities, tids) = scene.admit(&request, &[HOG]);
    scene.pass(Nanos::ms(50));
    let start = |scene: &Scene| scene.host.world_mut().clone_thread(tids[0], Workload::Hog).expect("numbers are free");
    let early = inherits.then(|| start(&scene));
    scene.dispatcher.suspend();
    let second = early.unwrap_or_else(|| start(&scene));
    assert_eq!(affinities(&scene, &[second])[0].len(), if inherits { 1 } else { 2 });
    scene.adopt();
    (scene, entities.expect("there is room")[0], [tids[0], second])
}

#[test]
fn a_thread_that_is_adopted_during_a_suspension_has_its_original_cpus_until_the_service_goes_on() {
    for inherits in [true, false] {
        let (mut scene, entity, tids) = suspended(inherits);
        let all = CpuSet::first_n(2);
        assert_eq!(affinities(&scene, &tids), [all, all], "{inherits}");
        scene.dispatcher.resume();
        scene.ring();
        scene.pass(Nanos::ms(50));
        let [first, second] = affinities(&scene, &tids)[..] else { panic!("there are two threads") };
        assert!(first == second && first.len() == 1, "{inherits}: {first} {second}");
        scene.dispatcher.dismiss(entity);
        assert_eq!(affinities(&scene, &tids), [all, all], "{inherits}");
    }
}
