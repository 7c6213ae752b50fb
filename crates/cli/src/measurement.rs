//! The file with the [`Measurement`] of `tactus doctor --measure`, which `--mechanism auto` uses until the next boot.

use crate::failure::Failure;
use crate::output;
use daemon::Explanation;
use daemon::directory::Directory;
use daemon::doctor::Measurement;
use std::fs;
use std::io::ErrorKind;

/// Writes the measurement.
///
/// # Errors
/// The directory cannot be written.
pub(crate) fn keep(directory: &Directory, measurement: &Measurement) -> Result<(), Failure> {
    let text = serde_json::to_vec_pretty(measurement).map_err(anyhow::Error::from)?;
    Ok(output::keep(&directory.measurement(), &text)?)
}

/// Returns the measurement of this boot; `None` if there is none.
///
/// # Errors
/// The file cannot be read, or is damaged or of another version.
pub(crate) fn of_this_boot(directory: &Directory) -> Result<Option<Measurement>, Explanation> {
    let path = directory.measurement();
    let remedy = "run `tactus doctor --measure`, which replaces the file";
    let ignored = |why: String| Explanation::new(format!("{} is ignored: {why}", path.display()), remedy);
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| ignored(error.to_string()))?,
    };
    let measurement: Measurement = serde_json::from_slice(&bytes).map_err(|error| ignored(error.to_string()))?;
    Ok(Some(measurement).filter(|it| sys::kernel::boot_id().is_ok_and(|boot| boot == it.boot)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use daemon::doctor::{Delivered, Mechanism};
    use sched::Nanos;

    #[test]
    fn a_measurement_is_kept_until_the_next_boot() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::at(place.path());
        assert_eq!(of_this_boot(&directory).unwrap(), None);
        let delivered = Delivered { ppm: 199_000, error_ppm: -1_000, periods_judged: 100, periods_missed: 1 };
        let each = vec![
            (Mechanism::Inheritance, Ok(delivered)),
            (Mechanism::Deadline, Err(daemon::Explanation::new("it does not work", "try again"))),
        ];
        let ours = Measurement { boot: sys::kernel::boot_id().unwrap(), length: Nanos::s(1), each };
        keep(&directory, &ours).unwrap();
        assert_eq!(of_this_boot(&directory).unwrap(), Some(ours.clone()));
        keep(&directory, &Measurement { boot: "another".into(), ..ours }).unwrap();
        assert_eq!(of_this_boot(&directory).unwrap(), None);
        fs::write(directory.measurement(), "{").unwrap();
        let ignored = of_this_boot(&directory).unwrap_err();
        assert!(
            ignored.reason.contains("mechanisms.json is ignored") && ignored.remedy.contains("--measure"),
            "{ignored}"
        );
        assert!(
            keep(&Directory::at("/dev/null"), &Measurement { boot: String::new(), length: Nanos::ZERO, each: vec![] })
                .is_err()
        );
    }
}
