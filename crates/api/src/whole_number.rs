//! Whole numbers of JSON: `1360` and `1360.0` are the same number (JSON Schema 2020-12, section 6.1.1), so both are read.

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Numbers from this one on are no exact integers as doubles.
const INEXACT: f64 = 9_007_199_254_740_992.0;

/// Reads a whole number.
pub(crate) fn required<'de, D: Deserializer<'de>, T: TryFrom<u64>>(source: D) -> Result<T, D::Error> {
    source.deserialize_any(Number(PhantomData))
}

/// Reads a whole number, or `null`.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: TryFrom<u64>>(source: D) -> Result<Option<T>, D::Error> {
    source.deserialize_option(Optional(PhantomData))
}

struct Number<T>(PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for Number<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number of up to {} bits", 8 * size_of::<T>())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole, and in the range")]
    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        if number.fract() == 0.0 && (0.0..INEXACT).contains(&number) {
            return self.visit_u64(number as u64);
        }
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }
}

struct Optional<T>(PhantomData<T>);

impl<'de, T: TryFrom<u64>> Visitor<'de> for Optional<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Number::<T>(PhantomData).expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, source: D) -> Result<Option<T>, D::Error> {
        required(source).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use crate::Desired;

    #[test]
    fn a_number_with_a_point_is_whole_if_it_has_no_fraction() {
        let read = |text: &str| serde_json::from_str::<Desired>(text).map_err(|error| error.to_string());
        let promise = r#"{"promise": {"slice_ns": 2e6, "period_ns": 10000000.0, "cpus": 2.0}, "weight": 60.0}"#;
        let found = read(promise).unwrap();
        let promise = found.promise.unwrap();
        assert_eq!((promise.slice_ns, promise.period_ns, promise.cpus), (2_000_000, 10_000_000, 2));
        assert_eq!((found.weight, read(r#"{"weight": null}"#).unwrap().weight), (Some(60), None));
        for (text, said) in [
            (r#"{"weight": 1.5}"#, "invalid value: floating point `1.5`, expected a whole number of up to 32 bits"),
            (r#"{"weight": -1}"#, "invalid type: integer `-1`"),
            (r#"{"weight": 4294967296}"#, "invalid value: integer `4294967296`"),
            (r#"{"weight": 1e300}"#, "invalid value: floating point"),
            (r#"{"weight": "5"}"#, "invalid type: string"),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.starts_with(said), "{text}: {refused}");
        }
    }
}
