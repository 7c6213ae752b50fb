//! Formatting of durations and percentages for a table.

/// Formats a duration in nanoseconds. Durations below 99.95 s have at most three digits; longer durations are in
/// minutes or hours: `0`, `950ns`, `1.25ms`, `20ms`, `1.5s`, `12m30s`, `3h20m`.
#[must_use]
pub fn short(ns: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1, "ns"), (1_000, "us"), (1_000_000, "ms"), (1_000_000_000, "s")];
    match ns {
        0 => return "0".to_string(),
        _ if ns >= 3_599_500_000_000 => {
            let minutes = (ns / 1_000_000_000 + 30) / 60;
            return format!("{}h{:02}m", minutes / 60, minutes % 60);
        }
        _ if ns >= 99_950_000_000 => {
            let seconds = (ns + 500_000_000) / 1_000_000_000;
            return format!("{}m{:02}s", seconds / 60, seconds % 60);
        }
        _ => {}
    }
    for (i, &(unit, name)) in UNITS.iter().enumerate() {
        for (decimals, most) in [(100, 10), (10, 100), (1, 1_000)] {
            // The value in hundredths, tenths or whole units, rounded.
            let parts = u64::try_from((u128::from(ns) * decimals + u128::from(unit) / 2) / u128::from(unit));
            let parts = parts.unwrap_or(u64::MAX);
            let decimals = decimals as u64;
            if parts < most * decimals && (i == 0 || ns >= unit || parts >= decimals) {
                return decimal(parts, decimals) + name;
            }
        }
    }
    unreachable!("below 100 s, some unit fits")
}

/// Formats `parts / decimals`, without trailing zeros.
fn decimal(parts: u64, decimals: u64) -> String {
    let (whole, rest) = (parts / decimals, parts % decimals);
    match (rest, decimals) {
        (0, _) => whole.to_string(),
        (rest, 10) => format!("{whole}.{rest}"),
        (rest, _) => format!("{whole}.{rest:02}").trim_end_matches('0').to_string(),
    }
}

/// Formats millionths as a percentage with one decimal: `12.5%`.
#[must_use]
pub fn percent(ppm: u64) -> String {
    let tenths = (ppm + 500) / 1_000;
    format!("{}.{}%", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_the_unit_that_fits() {
        for (ns, right) in [
            (0, "0"),
            (1, "1ns"),
            (999, "999ns"),
            (1_000, "1us"),
            (1_254, "1.25us"),
            (12_345, "12.3us"),
            (999_499, "999us"),
            (999_500, "1ms"),
            (20_000_000, "20ms"),
            (999_999_999, "1s"),
            (1_500_000_000, "1.5s"),
            (99_949_999_999, "99.9s"),
            (99_950_000_000, "1m40s"),
            (750_000_000_000, "12m30s"),
            (3_599_499_999_999, "59m59s"),
            (3_599_500_000_000, "1h00m"),
            (12_000_000_000_000, "3h20m"),
            (u64::MAX, "5124095h35m"),
        ] {
            assert_eq!(short(ns), right, "{ns}");
        }
    }

    #[test]
    fn percentages_are_rounded_to_tenths() {
        assert_eq!(
            (percent(125_000), percent(999_499), percent(999_500)),
            ("12.5%".into(), "99.9%".into(), "100.0%".into())
        );
    }
}
