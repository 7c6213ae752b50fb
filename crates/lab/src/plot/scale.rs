//! [`Scale`]: the positions of values along an axis, and the ticks of the axis.

/// An axis of a picture. A value beyond an end of the axis has the position of this end.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    /// Position and label of each tick.
    pub(super) ticks: Vec<(f64, String)>,
}

/// Maximum number of ticks of an axis.
const TICKS_MOST: usize = 9;
/// Room beyond the minimum and the maximum value. Unit: length of the axis.
const ROOM: f64 = 0.04;

impl Scale {
    /// Returns a linear scale from the minimum to the maximum of `values`, or over `range`. If `from_zero`, a scale
    /// without `range` includes 0. If all values are integers, all ticks are integers.
    pub(super) fn linear(values: &[f64], from_zero: bool, range: Option<[f64; 2]>) -> Scale {
        let are_whole = values.len() > 1 && values.iter().all(|value| libm::floor(*value) == *value);
        let (mut low, mut high) = ends(values.iter().copied()).unwrap_or((0.0, 1.0));
        if from_zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if low == high {
            let around = if low == 0.0 { 1.0 } else { libm::fabs(low) / 2.0 };
            (low, high) = (if from_zero && low == 0.0 { 0.0 } else { low - around }, high + around);
        }
        let room = (high - low) * ROOM;
        let (low_room, high_room) = if from_zero {
            (if low < 0.0 { room } else { 0.0 }, if high > 0.0 { room } else { 0.0 })
        } else {
            (room, room)
        };
        let [low, high] = range.filter(|[low, high]| low < high).unwrap_or([low - low_room, high + high_room]);
        Scale { low, high, is_log: false, ticks: round_steps(low, high, if are_whole { 1.0 } else { 0.0 }) }
    }

    /// Returns a logarithmic scale, with equal steps for equal ratios. Values that are not above zero lie at the low
    /// end of the scale.
    pub(super) fn log(values: &[f64], range: Option<[f64; 2]>) -> Scale {
        let positive = values.iter().copied().filter(|value| *value > 0.0);
        let (low, high) = ends(positive).unwrap_or((1.0, 10.0));
        let (low, high) = (libm::log10(low), libm::log10(high));
        let room = ((high - low) * ROOM).max(0.05);
        let range = range.filter(|[low, high]| 0.0 < *low && low < high);
        let [low, high] = range.map_or([low - room, high + room], |[low, high]| [libm::log10(low), libm::log10(high)]);
        Scale { low, high, is_log: true, ticks: decades(low, high) }
    }

    /// Returns a scale on which `names` have the positions 0, 1, 2, ….
    pub(super) fn places(names: &[String]) -> Scale {
        let ticks: Vec<(f64, String)> =
            names.iter().enumerate().map(|(nth, name)| (count(nth), name.clone())).collect();
        Scale { low: -0.5, high: count(names.len().max(1)) - 0.5, is_log: false, ticks }
    }

    /// Leaves out ticks until the ticks are at least `apart` from each other. Unit: length of the axis.
    pub(super) fn thinned(mut self, apart: f64) -> Scale {
        let places: Vec<f64> = self.ticks.iter().map(|(value, _)| self.share(*value)).collect();
        let least = places.windows(2).map(|two| two[1] - two[0]).fold(f64::INFINITY, f64::min);
        let every =
            (1..places.len().max(2)).find(|every| least * count(*every) >= apart).unwrap_or(places.len().max(1));
        // The tick at 0 remains, so that the others are multiples of a round number.
        let zero = self.ticks.iter().position(|(value, _)| *value == 0.0).unwrap_or(0);
        let mut nth = 0_usize;
        self.ticks.retain(|_| {
            nth += 1;
            (nth - 1).abs_diff(zero).is_multiple_of(every)
        });
        self
    }

    /// On a logarithmic scale, places the ticks at `values` if these are few and far enough apart.
    pub(super) fn marked_at(mut self, values: &[f64]) -> Scale {
        let mut values: Vec<f64> = values.iter().copied().filter(|value| self.is_log && *value > 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let places: Vec<f64> = values.iter().map(|value| self.share(*value)).collect();
        let apart = places.windows(2).all(|two| two[1] - two[0] > 0.06);
        if (2..=TICKS_MOST + 2).contains(&values.len()) && apart {
            self.ticks = values.iter().map(|&value| (value, shown(value))).collect();
        }
        self
    }

    /// Returns the position of `value` along the axis, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        let value = match self.is_log {
            true if value > 0.0 => libm::log10(value),
            true => self.low,
            false => value,
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Returns whether `value` lies on the axis. On a logarithmic axis, a value without a position lies at the low end.
    pub(super) fn holds(&self, value: f64) -> bool {
        let slack = (self.high - self.low) * 1e-9;
        let value = match self.is_log {
            true if value <= 0.0 => return true,
            true => libm::log10(value),
            false => value,
        };
        (self.low - slack..=self.high + slack).contains(&value)
    }
}

#[expect(clippy::cast_precision_loss, reason = "lists are short")]
pub(super) fn count(number: usize) -> f64 {
    number as f64
}

/// Returns the minimum and the maximum of `values`.
pub(super) fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

/// Returns ticks at multiples of a step that is 1, 2 or 5 times a power of ten, and at least `smallest`.
fn round_steps(low: f64, high: f64, smallest: f64) -> Vec<(f64, String)> {
    let least = ((high - low) / count(TICKS_MOST)).max(smallest);
    let power = libm::pow(10.0, libm::floor(libm::log10(least)));
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= least);
    let step = step.unwrap_or(power * 10.0);
    let first = libm::ceil(low / step - 1e-9);
    let values = (0..=TICKS_MOST + 1).map(|nth| (first + count(nth)) * step);
    values.take_while(|value| *value <= high + step * 1e-9).map(|value| (value, in_steps(value, step))).collect()
}

/// Formats a value with as many decimals as `step` needs.
fn in_steps(value: f64, step: f64) -> String {
    if libm::fabs(step) >= 1e6 || libm::fabs(step) < 1e-5 {
        return format!("{:.1e}", value + 0.0);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a step has few digits")]
    let places = (-libm::floor(libm::log10(step) + 1e-9)).max(0.0) as usize;
    let text = format!("{value:.places$}");
    if text.trim_start_matches('-').chars().all(|c| "0.".contains(c)) { "0".to_string() } else { text }
}

/// Returns ticks at powers of ten, and between them if the range contains few powers. `low` and `high` are logarithms.
fn decades(low: f64, high: f64) -> Vec<(f64, String)> {
    let every = libm::ceil((high - low) / count(TICKS_MOST)).max(1.0);
    let between: &[f64] = match high - low {
        width if width < 1.2 => &[1.0, 2.0, 3.0, 5.0, 7.0],
        width if width < 2.6 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let first = libm::floor(low / every) * every;
    let powers = (0..2 * TICKS_MOST + 4).map(|nth| first + count(nth) * every).take_while(|power| *power <= high);
    let values = powers.flat_map(|power| between.iter().map(move |times| times * libm::pow(10.0, power)));
    let is_on = |value: &f64| (low - 1e-9..=high + 1e-9).contains(&libm::log10(*value));
    values.filter(is_on).map(|value| (value, shown(value))).collect()
}

/// Formats a value in its shortest form: `0.25`, `1000`, `1016000`, `10⁶`.
pub(super) fn shown(value: f64) -> String {
    let size = libm::fabs(value);
    let text = format!("{value:.1e}");
    let is_short = text.parse::<f64>().is_ok_and(|rounded| libm::fabs(rounded - value) <= size * 1e-9);
    if size == 0.0 || (1e-4..1e6).contains(&size) || !is_short && (1e6..1e9).contains(&size) {
        // The precision is limited, so that rounding errors of decimal fractions are not displayed.
        let text = format!("{value:.6}");
        return text.trim_end_matches('0').trim_end_matches('.').to_string();
    }
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let raised: String = power.chars().map(raised).collect();
    match digits.trim_end_matches('0').trim_end_matches('.') {
        "1" => format!("10{raised}"),
        digits => format!("{digits}·10{raised}"),
    }
}

fn raised(digit: char) -> char {
    match digit {
        '-' => '⁻',
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        _ => '⁹',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(scale: &Scale) -> String {
        let marks: Vec<&str> = scale.ticks.iter().map(|(_, text)| text.as_str()).collect();
        marks.join(" ")
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(marks(&Scale::linear(&[0.0, 934.0], true, None)), "0 200 400 600 800");
        assert_eq!(marks(&Scale::linear(&[1.0, 2.0, 4.0], false, None)), "1 2 3 4", "integers");
        assert_eq!(marks(&Scale::linear(&[1.0, 2.5, 4.0], false, None)), "1.0 1.5 2.0 2.5 3.0 3.5 4.0");
        let thinned = Scale::linear(&[-200.0, 934.0], true, None).thinned(0.25);
        assert_eq!(marks(&thinned), "0 400 800", "0 remains");
        assert_eq!(marks(&Scale::linear(&[0.31, 0.34], false, None)), "0.310 0.315 0.320 0.325 0.330 0.335 0.340");
        assert_eq!(marks(&Scale::linear(&[-5.0, 370.0], true, Some([-100.0, 400.0]))), "-100 0 100 200 300 400");
        assert_eq!(marks(&Scale::log(&[12.0, 90_000.0], None)), "10 100 1000 10000 100000");
        assert_eq!(marks(&Scale::log(&[1e-7, 1e-5], Some([1e-7, 1e-4]))), "10⁻⁷ 10⁻⁶ 10⁻⁵ 0.0001");
        assert_eq!(marks(&Scale::log(&[0.25, 4.0], None).marked_at(&[0.25, 0.5, 1.0, 2.0, 4.0])), "0.25 0.5 1 2 4");
    }

    #[test]
    fn a_short_form_does_not_change_a_value() {
        let all = [0.25, 1000.0, 1_000_000.0, 1_016_000.0, 2.5e7];
        assert_eq!(all.map(shown), ["0.25", "1000", "10⁶", "1016000", "2.5·10⁷"]);
    }

    #[test]
    fn values_lie_where_they_should() {
        let log = Scale::log(&[], Some([1.0, 100.0]));
        for (value, share) in [(1.0, 0.0), (10.0, 0.5), (100.0, 1.0), (1e9, 1.0), (0.0, 0.0), (-3.0, 0.0)] {
            assert!((log.share(value) - share).abs() < 1e-12, "{value}");
        }
        assert!(log.holds(0.0) && log.holds(100.0) && !log.holds(101.0));
        let linear = Scale::linear(&[2.0, 4.0], false, Some([2.0, 4.0]));
        assert!((linear.share(3.0) - 0.5).abs() < 1e-12 && !linear.holds(1.0));
        let places = Scale::places(&["a".to_string(), "b".to_string()]);
        assert!((places.share(0.0) - 0.25).abs() < 1e-12 && (places.share(1.0) - 0.75).abs() < 1e-12);
    }

    #[test]
    fn a_single_value_or_none_has_an_axis_too() {
        for values in [&[][..], &[0.0], &[7.0], &[-7.0]] {
            for scale in
                [Scale::linear(values, true, None), Scale::linear(values, false, None), Scale::log(values, None)]
            {
                assert!(scale.low < scale.high && !scale.ticks.is_empty(), "{values:?}: {scale:?}");
            }
        }
    }
}
