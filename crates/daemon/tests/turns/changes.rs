//! Promises change at run time.

use super::scene::{CPU, Scene};
use daemon::dispatch::{RaiseBy, Refusal};
use sched::Nanos;
use sim::Workload;

const HOG: &[(&str, Workload)] = &[("hog", Workload::Hog)];

/// Returns the CPU time of a thread in the next second.
fn in_a_second(scene: &mut Scene, tid: u32) -> Nanos {
    let before = scene.usage(&[tid])[0].ran;
    scene.pass(Nanos::s(1));
    scene.usage(&[tid])[0].ran - before
}

#[test]
fn a_changed_promise_is_in_force_from_the_next_turn_on() {
    for by in [RaiseBy::Inheritance, RaiseBy::Attributes] {
        let mut scene = Scene::new(by, 1);
        let (e, tids) = scene.promise(Nanos::ms(2), Nanos::ms(10), HOG);
        scene.pass(Nanos::ms(123));
        let (changed, call) = scene.dispatcher.adjust(e, Nanos::ms(5), Nanos::ms(10));
        changed.expect("there is room");
        assert!(call.contains(CPU), "the agent is woken at once");
        scene.ring();
        scene.pass(Nanos::ms(10));
        let had = in_a_second(&mut scene, tids[0]);
        assert!((Nanos::ms(495)..=Nanos::ms(505)).contains(&had), "{by:?}: {had}");
        scene.dispatcher.adjust(e, Nanos::us(300), Nanos::ms(3)).0.expect("there is room");
        scene.ring();
        scene.pass(Nanos::ms(10));
        let had = in_a_second(&mut scene, tids[0]);
        assert!((Nanos::ms(98)..=Nanos::ms(103)).contains(&had), "{by:?}: {had}");
    }
}

#[test]
fn a_refused_change_names_what_fits_and_changes_nothing() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    let (first, tids) = scene.promise(Nanos::ms(2), Nanos::ms(10), HOG);
    let (second, _) = scene.promise(Nanos::ms(5), Nanos::ms(10), HOG);
    scene.pass(Nanos::ms(50));
    let (refused, _) = scene.dispatcher.adjust(first, Nanos::ms(6), Nanos::ms(10));
    let Err(Refusal::NoRoom(room)) = refused else { panic!("{refused:?}") };
    assert_eq!(room.alternatives().slice, Some(Nanos::ms(4)));
    let had = in_a_second(&mut scene, tids[0]);
    assert!((Nanos::ms(197)..=Nanos::ms(203)).contains(&had), "{had}");
    scene.dispatcher.adjust(first, Nanos::ms(4), Nanos::ms(10)).0.expect("the named slice fits");
    let _ = scene.dispatcher.dismiss(second);
    let (gone, _) = scene.dispatcher.adjust(second, Nanos::ms(1), Nanos::ms(10));
    assert!(matches!(gone, Err(Refusal::NoPromise)), "{gone:?}");
    let (short, _) = scene.dispatcher.adjust(first, Nanos::us(1), Nanos::ms(10));
    assert!(matches!(short, Err(Refusal::TooShort { .. })), "{short:?}");
}
