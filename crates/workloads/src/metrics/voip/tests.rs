use super::e_model::{absolute, score};
use super::{Call, Codec, Jitter, Line, Phone, Quality, rate};
use sched::{Instant, Nanos};

fn at(us: u64) -> Instant {
    Instant::ZERO + Nanos::us(us)
}

fn near(value: f64, right: f64, by: f64) -> bool {
    (value - right).abs() <= by
}

/// G.107, section 3.7: with all defaults R is 93.2. Annex B: the score is then 4.41.
#[test]
fn defaults_give_the_rating_that_the_recommendation_states() {
    let Quality { r, mos } = rate(&Line::default());
    assert!(near(r, 93.2, 0.05), "{r}");
    assert!(near(mos, 4.41, 0.005), "{mos}");
}

/// Table B.1 of G.107: the lower bounds of R and of the score of each class.
#[test]
fn scores_are_those_of_the_table() {
    for (r, mos) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
        assert!(near(score(r), mos, 0.01), "{r}: {}", score(r));
    }
    assert_eq!([-1.0, 0.0, 3.0, 100.0].map(score), [1.0, 1.0, 1.0, 4.5]);
}

#[test]
fn delay_matters_from_a_tenth_of_a_second_on_and_more_and_more() {
    let r = |one_way_ms| rate(&Line { one_way_ms, ..Line::default() }).r;
    let fall: Vec<f64> = [0.0, 100.0, 150.0, 200.0, 300.0, 400.0].windows(2).map(|at| r(at[0]) - r(at[1])).collect();
    assert!(fall.iter().all(|fall| *fall > 0.0), "{fall:?}");
    // Without echo, delays up to 100 ms have no effect. The values are then those of the table in G.113 (02/1996).
    for (t, right) in [(100.0, 0.0), (200.0, 3.0), (300.0, 15.0), (400.0, 25.0), (800.0, 40.0)] {
        assert!(near(absolute(t), right, 1.0), "{t} ms: {}", absolute(t));
    }
}

/// G.113, appendix I: the impairment of G.711 by a percentage of loss, with and without concealment, and the impairment
/// of the other codecs without loss.
#[test]
fn loss_costs_what_the_codec_lets_it_cost() {
    let fall = |codec, loss_percent| 93.206 - rate(&Line { codec, loss_percent, ..Line::default() }).r;
    assert!(near(fall(Codec::G711, 4.3), 95.0 / 2.0, 0.01), "half of all at Bpl: {}", fall(Codec::G711, 4.3));
    assert!(near(fall(Codec::G711Concealed, 2.0), 7.01, 0.02), "{}", fall(Codec::G711Concealed, 2.0));
    assert!(near(fall(Codec::G729, 0.0), 11.0, 0.01) && near(fall(Codec::G7231, 0.0), 15.0, 0.01));
    let bursts = rate(&Line { loss_percent: 3.0, burst: 2.0, ..Line::default() });
    assert!(bursts.r < rate(&Line { loss_percent: 3.0, ..Line::default() }).r, "bursts are worse");
}

/// RFC 3550, A.8, by hand: J += (|D| − J) / 16.
#[test]
fn jitter_is_that_of_the_rfc() {
    let mut jitter = Jitter::default();
    // Transit times of 10, 26 and 10 ms: each time differs from the previous time by 16 ms.
    for (sent, arrived) in [(0, 10_000), (20_000, 46_000), (40_000, 50_000)] {
        jitter.packet(at(sent), at(arrived));
    }
    // The estimate is 16/16 = 1 ms, and then 1 + 15/16 ms.
    assert_eq!(jitter.now(), Nanos::ns(1_937_500));
    assert_eq!(jitter.mean(), Nanos::ns(1_468_750));
    let mut even = Jitter::default();
    (0..100).for_each(|n| even.packet(at(20_000 * n), at(20_000 * n + 5_000)));
    assert_eq!((even.now(), even.mean()), (Nanos::ZERO, Nanos::ZERO));
}

#[test]
fn a_call_without_loss_has_the_score_of_its_codec() {
    for codec in [Codec::G711, Codec::G729] {
        // The call has 1000 packets with a transit time of zero, which are played immediately.
        let mut call = Call::new(Phone { codec, packet: Nanos::ns(1), buffer: Nanos::ZERO });
        (0..1000).for_each(|n| call.packet(at(20_000 * n), Some(at(20_000 * n))));
        let reading = call.read();
        let codec_alone = rate(&Line { codec, ..Line::default() });
        assert_eq!(reading.get("mos_milli"), Some(codec_alone.mos_milli()), "{codec:?}");
        assert_eq!((reading.get("lost_ppm"), reading.get("discarded_ppm")), (Some(0), Some(0)));
        assert_eq!(reading.get("jitter_ns"), Some(0));
    }
}

#[test]
fn what_never_comes_is_lost_and_what_comes_too_late_is_discarded() {
    let mut call = Call::new(Phone { buffer: Nanos::ms(60), ..Phone::default() });
    // The first transit time is 5 ms, so each packet must arrive within 65 ms. Every tenth packet is lost. The second
    // packet after each lost packet arrives after 65.001 ms.
    for n in 0..100 {
        let under_way = match n % 10 {
            3 => None,
            5 => Some(65_001),
            7 => Some(65_000),
            _ => Some(5_000),
        };
        call.packet(at(20_000 * n), under_way.map(|us| at(20_000 * n + us)));
    }
    let reading = call.read();
    assert_eq!(reading.get("lost_ppm"), Some(100_000));
    assert_eq!(reading.get("discarded_ppm"), Some(100_000));
    assert!(reading.get("mos_milli") < Some(1_500), "{reading:?}");
    let silence = Call::new(Phone::default()).read();
    assert_eq!((silence.get("packets"), silence.get("lost_ppm")), (Some(0), Some(0)), "nothing divides by none");
}
