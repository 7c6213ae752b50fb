//! The source of an interrupt, by the name of its handler.

use coordination::wire::Source;
use std::collections::HashMap;
use std::path::Path;

/// Identifiers of virtio devices (OASIS, Virtual I/O Device, version 1.3, section 5).
const VIRTIO: [(u32, Source); 6] = [
    (1, Source::Network),
    (2, Source::Disk),
    (3, Source::Console),
    (8, Source::Disk),
    (18, Source::Console),
    (25, Source::Console),
];
/// Begins of the names of other handlers.
const NAMES: [(&str, Source); 15] = [
    ("eth", Source::Network),
    ("en", Source::Network),
    ("iavf", Source::Network),
    ("mlx", Source::Network),
    ("vmxnet", Source::Network),
    ("nvme", Source::Disk),
    ("ahci", Source::Disk),
    ("ata", Source::Disk),
    ("i8042", Source::Console),
    ("ttyS", Source::Console),
    ("xhci", Source::Console),
    ("ehci", Source::Console),
    ("uhci", Source::Console),
    ("snd", Source::Console),
    ("serial", Source::Console),
];

/// The sources of interrupts, as far as they have happened.
#[derive(Debug, Default)]
pub(crate) struct Interrupts(HashMap<u32, Option<Source>>);

impl Interrupts {
    /// Returns the source of interrupt `number`. `None`: it is unknown.
    pub(crate) fn source(&mut self, number: u32) -> Option<Source> {
        *self.0.entry(number).or_insert_with(|| names(number).iter().find_map(|name| of_name(name, virtio_kind)))
    }
}

/// Returns the names of the handlers of an interrupt: its directory in /proc has a directory for each.
fn names(number: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/irq/{number}")).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns the identifier of a virtio device such as `virtio1`.
fn virtio_kind(device: &str) -> Option<u32> {
    let path = Path::new("/sys/bus/virtio/devices").join(device).join("device");
    let text = std::fs::read_to_string(path).ok()?;
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// Returns the source of a handler with this name. `kind`: the identifier of a virtio device.
fn of_name(name: &str, kind: impl Fn(&str) -> Option<u32>) -> Option<Source> {
    if name.starts_with("virtio") {
        // Such as `virtio1-input.0`.
        let kind = kind(name.split('-').next()?)?;
        return VIRTIO.iter().find(|(known, _)| *known == kind).map(|(_, source)| *source);
    }
    NAMES.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, source)| *source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_are_known_by_their_names() {
        let kind = |device: &str| {
            [("virtio0", 1), ("virtio7", 2), ("virtio12", 3), ("virtio3", 5)]
                .into_iter()
                .find(|(name, _)| *name == device)
                .map(|(_, kind)| kind)
        };
        let of = |name| of_name(name, kind);
        assert_eq!(of("virtio0-input.0"), Some(Source::Network));
        assert_eq!(of("virtio7-req.0"), Some(Source::Disk));
        assert_eq!(of("virtio12-virtqueues"), Some(Source::Console));
        assert_eq!(
            (of("virtio3-inflate"), of("virtio9-input.0")),
            (None, None),
            "a balloon, and a device that is gone"
        );
        assert_eq!(
            (of("enp1s0-TxRx-0"), of("nvme0q1"), of("ttyS0")),
            (Some(Source::Network), Some(Source::Disk), Some(Source::Console))
        );
        assert_eq!(of("acpi"), None);
    }
}
