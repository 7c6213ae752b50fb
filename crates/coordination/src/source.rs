//! [`Source`]: what interrupts that wake tasks of a guest come from.

/// A source of interrupts that wake urgent tasks of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Timers of the guest.
    Timer,
    /// A network device.
    Network,
    /// A disk.
    Disk,
    /// A console, keyboard, pointer or sound device.
    Console,
    /// Another vCPU of the guest.
    Vcpu,
}

/// A set of sources.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sources(u8);

impl Source {
    /// All sources, in the order of their numbers.
    pub const ALL: [Source; 5] = [Source::Timer, Source::Network, Source::Disk, Source::Console, Source::Vcpu];

    /// Returns the name of the source in the output of programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Source::Timer => "timer",
            Source::Network => "network",
            Source::Disk => "disk",
            Source::Console => "console",
            Source::Vcpu => "vcpu",
        }
    }
}

impl Sources {
    const ALL: u8 = 0b1_1111;

    /// Returns the set with these bits, each of which is the number of a source. `None`: a bit is no source.
    pub(crate) fn of_bits(bits: u8) -> Option<Sources> {
        (bits & !Sources::ALL == 0).then_some(Sources(bits))
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// Returns the set with `source`.
    #[must_use]
    pub const fn with(self, source: Source) -> Sources {
        Sources(self.0 | 1 << source as u8)
    }

    /// Returns the sources of either set.
    #[must_use]
    pub const fn or(self, other: Sources) -> Sources {
        Sources(self.0 | other.0)
    }

    /// Returns whether the set contains a device.
    #[must_use]
    pub const fn has_devices(self) -> bool {
        self.has(Source::Network) || self.has(Source::Disk) || self.has(Source::Console)
    }

    /// Returns whether the set contains `source`.
    #[must_use]
    pub const fn has(self, source: Source) -> bool {
        self.0 & 1 << source as u8 != 0
    }
}
