//! [`rate`]: the E-model of ITU-T G.107 (03/2005), which rates the quality of a line from its properties.
//!
//! R = Ro − Is − Id − Ie,eff + A, with the terms of the recommendation's section 3. Parameters that do not depend on
//! VoIP transport have the default values of table 2. All mathematical functions are from `libm`, so that the result is
//! equal on every machine.

use libm::{exp, log10, pow, sqrt};

/// The coding of speech. Source of the figures: ITU-T G.113 (11/2007), appendix I, tables I.3 and I.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    /// Rate: 64 kbit/s, with silence in place of lost packets.
    G711,
    /// Rate: 64 kbit/s, with earlier speech in place of lost packets (packet loss concealment).
    G711Concealed,
    /// Rate: 8 kbit/s, with voice activity detection (annexes A and B).
    G729,
    /// Rate: 6.3 kbit/s, with voice activity detection (annex A).
    G7231,
}

impl Codec {
    /// Returns the equipment impairment factor Ie without loss.
    fn impairment(self) -> f64 {
        match self {
            Codec::G711 | Codec::G711Concealed => 0.0,
            Codec::G729 => 11.0,
            Codec::G7231 => 15.0,
        }
    }

    /// Returns the packet loss robustness factor Bpl.
    fn robustness(self) -> f64 {
        match self {
            Codec::G711 => 4.3,
            Codec::G711Concealed => 25.1,
            Codec::G729 => 19.0,
            Codec::G7231 => 16.1,
        }
    }
}

/// The properties of a line that depend on VoIP transport.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Line {
    /// Coding of speech.
    pub codec: Codec,
    /// Delay from mouth to ear (T and Ta of the model; the round trip Tr is twice this delay). Unit: milliseconds.
    /// Minimum: 0.
    pub one_way_ms: f64,
    /// Share of packets that are not played. Unit: percent. Range: 0 to 100.
    pub loss_percent: f64,
    /// Ratio of the mean length of loss bursts to their mean length with independent losses (BurstR). Minimum: 1.
    pub burst: f64,
}

impl Default for Line {
    /// Returns the default of the recommendation: no delay, no loss, and the codec of a fixed network.
    fn default() -> Line {
        Line { codec: Codec::G711, one_way_ms: 0.0, loss_percent: 0.0, burst: 1.0 }
    }
}

/// The rated quality of a line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quality {
    /// Rating factor R. Range: at most 93.21 with this model's defaults, and below 0 for an unusable connection.
    pub r: f64,
    /// Mean opinion score (annex B). Range: 1 to 4.5.
    pub mos: f64,
}

impl Quality {
    /// Returns R in thousandths. Returns zero if R is negative.
    #[must_use]
    pub fn r_milli(self) -> u64 {
        libm::round(self.r.max(0.0) * 1000.0) as u64
    }

    /// Returns the score in thousandths.
    #[must_use]
    pub fn mos_milli(self) -> u64 {
        libm::round(self.mos * 1000.0) as u64
    }
}

// Default values of table 2, with the recommendation's names.
const SLR: f64 = 8.0;
const RLR: f64 = 2.0;
const STMR: f64 = 15.0;
const DS: f64 = 3.0;
const DR: f64 = 3.0;
const TELR: f64 = 65.0;
const WEPL: f64 = 110.0;
const QDU: f64 = 1.0;
const NC: f64 = -70.0;
const NFOR: f64 = -64.0;
const PS: f64 = 35.0;
const PR: f64 = 35.0;
const ADVANTAGE: f64 = 0.0;

/// Returns the rated quality of `line`.
#[must_use]
pub fn rate(line: &Line) -> Quality {
    let noise = noise();
    let ro = 15.0 - 1.5 * (SLR + noise);
    let r = ro - simultaneous(ro, noise, line) - delay(ro, noise, line) - equipment(line) + ADVANTAGE;
    Quality { r, mos: score(r) }
}

/// Returns 10 to the power of a tenth of `decibels`.
fn power(decibels: f64) -> f64 {
    pow(10.0, decibels / 10.0)
}

/// Returns the `n`-th root of 1 + `x` to the power of `n`.
fn bend(x: f64, n: f64) -> f64 {
    pow(1.0 + pow(x, n), 1.0 / n)
}

/// Returns No, the sum of all noise, in dBm0p (3-3 to 3-7).
fn noise() -> f64 {
    let olr = SLR + RLR;
    let sending = PS - SLR - DS - 100.0 + 0.004 * pow(PS - olr - DS - 14.0, 2.0);
    let effective = PR + 10.0 * log10(1.0 + power(10.0 - (STMR + DR)));
    let receiving = RLR - 121.0 + effective + 0.008 * pow(effective - 35.0, 2.0);
    let floor = NFOR + RLR;
    10.0 * log10(power(NC) + power(sending) + power(receiving) + power(floor))
}

/// Returns Is, the impairment by too low an overall loudness rating, non-optimum sidetone, and quantising distortion
/// (3-8 to 3-18).
fn simultaneous(ro: f64, noise: f64, line: &Line) -> f64 {
    let xolr = SLR + RLR + 0.2 * (64.0 + noise - RLR);
    let loud = 20.0 * (bend(xolr / 8.0, 8.0) - xolr / 8.0);
    let stmro = -10.0 * log10(power(-STMR) + exp(-line.one_way_ms / 4.0) * power(-TELR));
    let side = side_tone(stmro);
    let q = 37.0 - 15.0 * log10(QDU);
    let g = 1.07 + 0.258 * q + 0.0602 * q * q;
    let y = (ro - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
    let z = 46.0 / 30.0 - g / 40.0;
    let quantising = 15.0 * log10(1.0 + pow(10.0, y) + pow(10.0, z));
    loud + side + quantising
}

/// Returns Ist (3-11).
fn side_tone(stmro: f64) -> f64 {
    12.0 * bend((stmro - 13.0) / 6.0, 8.0)
        - 28.0 * bend((stmro + 1.0) / 19.4, 35.0)
        - 13.0 * bend((stmro - 3.0) / 33.0, 13.0)
        + 29.0
}

/// Returns Id, the impairment by the talker's echo, the listener's echo, and the delay itself (3-19 to 3-28).
fn delay(ro: f64, noise: f64, line: &Line) -> f64 {
    let t = line.one_way_ms;
    let terv = TELR - 40.0 * log10((1.0 + t / 10.0) / (1.0 + t / 150.0)) + 6.0 * exp(-0.3 * t * t);
    let half = (-1.5 * (noise - RLR) - (80.0 + 2.5 * (terv - 14.0))) / 2.0;
    let talker = (half + sqrt(half * half + 100.0) - 1.0) * (1.0 - exp(-t));
    let half = (ro - 10.5 * (WEPL + 7.0) * pow(2.0 * t + 1.0, -0.25)) / 2.0;
    let listener = half + sqrt(half * half + 169.0);
    talker + listener + absolute(t)
}

/// Returns Idd, the impairment by a delay of `t` milliseconds without any echo (3-27 and 3-28).
pub(super) fn absolute(t: f64) -> f64 {
    if t <= 100.0 {
        return 0.0;
    }
    let x = log10(t / 100.0) / log10(2.0);
    25.0 * (bend(x, 6.0) - 3.0 * bend(x / 3.0, 6.0) + 2.0)
}

/// Returns Ie,eff, the impairment by the codec and by missing packets (3-29).
fn equipment(line: &Line) -> f64 {
    let (ie, loss) = (line.codec.impairment(), line.loss_percent);
    ie + (95.0 - ie) * loss / (loss / line.burst + line.codec.robustness())
}

/// Returns the mean opinion score for R (B-4).
pub(super) fn score(r: f64) -> f64 {
    match r {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        // For R between 0 and 6.5, the polynomial is below 1, the minimum of the scale.
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}
