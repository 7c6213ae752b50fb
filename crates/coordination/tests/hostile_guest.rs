//! Random hints and interrupts, as a hostile guest sends them: its boosts stay within the budget, and none lasts longer than its last
//! reason permits.

mod seeds;

use coordination::wire::{FromGuest, Hint, SIZE};
use coordination::{Booster, Coordination, EXPIRY, Protocol};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use sched::{Instant, Nanos};

const VCPUS: usize = 2;
/// Steps of a trace, and maximum time between two of them: the host decides at least so often while a vCPU is boosted.
const STEPS: u32 = 2_000;
const STEP_MOST: Nanos = Nanos::us(200);
/// Steps without an event, at times: longer than a boost lasts.
const QUIET: u32 = 150;

fn below(random: &mut ChaCha8Rng, most: u64) -> u64 {
    random.next_u64() % most
}

/// Returns a hint with random fields; `None`: the bytes are no hint.
fn hint(random: &mut ChaCha8Rng, number: u32) -> Option<Hint> {
    let mut bytes = [0; SIZE];
    random.fill_bytes(&mut bytes);
    bytes[..6].copy_from_slice(b"TcHi\x01\x02");
    bytes[6] %= VCPUS as u8 + 1;
    (bytes[7], bytes[14]) = (0, bytes[14] % 99 + 1);
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    // The instants are between zero and some minutes, and the last fields are within their ranges.
    [21, 22, 23, 29, 30, 31].into_iter().for_each(|at| bytes[at] = 0);
    bytes[32] %= 32;
    bytes[33..64].fill(0);
    bytes[41] = 4;
    let Ok(FromGuest::Hint(hint)) = FromGuest::read(&bytes) else { return None };
    Some(hint)
}

fn keeps(seed: u64, random: &mut ChaCha8Rng) {
    let (_, protocol) = Protocol::ALL[seed as usize % Protocol::ALL.len()];
    // Without a small budget and a limit, only the time since the last reason ends a boost.
    let is_tight = seed.is_multiple_of(2);
    let (budget, limit) = if is_tight { (Nanos::ms(3), Nanos::ms(10)) } else { (Nanos::ms(40), Nanos::ms(90)) };
    let with = Coordination { budget, limit, window: Nanos::ms(20), ..Coordination::new(protocol) };
    let mut booster = Booster::new(with, VCPUS, Instant::ZERO);
    let (mut now, mut boosted) = (Instant::ZERO, [false; VCPUS]);
    let (mut window, mut in_window, mut reason) = (0, Nanos::ZERO, [Instant::ZERO; VCPUS]);
    let (mut hints, mut quiet, mut has_timer) = (0, 0, false);
    let mut sleeps = [false; VCPUS];
    for _ in 0..STEPS {
        let time = Nanos::ns(1 + below(random, STEP_MOST.as_ns()));
        now = now.saturating_add(time);
        quiet = match quiet {
            0 if below(random, 200) == 0 => QUIET,
            0 => 0,
            steps => steps - 1,
        };
        match below(random, 8) {
            _ if quiet > 0 => {}
            0..3 => {
                hints += 1;
                if let Some(hint) = hint(random, hints) {
                    has_timer |= hint.expiry.is_some();
                    booster.receive(hint, now);
                    reason = [now; VCPUS];
                }
            }
            3 => {
                booster.interrupt(below(random, VCPUS as u64 + 1) as usize, now);
                reason = [now; VCPUS];
            }
            4 if below(random, 50) == 0 => booster.clear(),
            5 => sleeps[below(random, VCPUS as u64) as usize] ^= true,
            _ => {}
        }
        // An announced timer is a reason, too, once.
        if booster.next() <= now && std::mem::take(&mut has_timer) {
            reason = [now; VCPUS];
        }
        // A boosted vCPU runs all the time, or sleeps all the time.
        let used: [Nanos; VCPUS] =
            std::array::from_fn(|vcpu| if boosted[vcpu] && !sleeps[vcpu] { time } else { Nanos::ZERO });
        let number = now.as_ns() / with.window.as_ns();
        if number != window {
            (window, in_window) = (number, Nanos::ZERO);
        }
        in_window += used.iter().fold(Nanos::ZERO, |sum, time| sum + *time);
        booster.decide(now, &used, |vcpu, boost| boosted[vcpu] = boost.is_some());
        let slack = STEP_MOST.saturating_mul(2 * VCPUS as u64);
        assert!(in_window <= with.budget + slack, "{in_window} are boosted in a window");
        for vcpu in 0..VCPUS {
            assert!(!boosted[vcpu] || now < reason[vcpu] + EXPIRY, "vCPU {vcpu} is boosted without a reason");
        }
    }
    assert!(hints > 0);
}

#[test]
fn a_hostile_guest_stays_within_its_budget() {
    seeds::each("hostile_guest", 300, keeps);
}
