//! [`Alphabet`]: the meanings of characters.

use super::settings::Glyphs;

/// The characters of a picture, by meaning.
pub(super) struct Alphabet {
    /// The entity ran for the whole cell, on the machine's only CPU or on a CPU without a digit (from CPU 36 on).
    pub(super) full: char,
    /// The entity ran for at least half of the cell, but not for all of it. In a CPU's row: all entities together ran
    /// for at least half of the cell, and none ran for more than half of it.
    pub(super) most: char,
    /// The entity ran for less than half of the cell. In a CPU's row: all entities together ran for less than half of
    /// the cell.
    pub(super) some: char,
    pub(super) waiting: char,
    pub(super) held: char,
    /// The CPU of the entity was frozen. In a CPU's row: the CPU was frozen with a task on it.
    pub(super) stolen: char,
    pub(super) blocked: char,
    pub(super) missed: char,
    /// An entity without a letter: in a CPU's row, and before the entity's label.
    pub(super) other: char,
    pub(super) idle: char,
    pub(super) tick: char,
    pub(super) line: char,
    pub(super) ellipsis: &'static str,
}

impl Glyphs {
    pub(super) fn alphabet(self) -> Alphabet {
        match self {
            Glyphs::Ascii => Alphabet {
                full: '#',
                most: '+',
                some: '-',
                waiting: '.',
                held: ':',
                stolen: '~',
                blocked: '_',
                missed: '!',
                other: '*',
                idle: '_',
                tick: '|',
                line: '-',
                ellipsis: "...",
            },
            Glyphs::Unicode => Alphabet {
                full: '█',
                most: '▓',
                some: '░',
                waiting: '·',
                held: '×',
                stolen: '≈',
                blocked: '─',
                missed: '!',
                other: '*',
                idle: '─',
                tick: '┬',
                line: '─',
                ellipsis: "…",
            },
        }
    }
}

impl Alphabet {
    /// Returns the meanings of the characters, in the order of the legend.
    pub(super) fn meanings(&self, cpus: bool) -> Vec<(char, &'static str)> {
        let mut meanings = vec![
            ('0', "0-9a-z ran on that CPU"),
            (self.full, "ran"),
            (self.most, "ran half of it or more"),
            (self.some, "ran less"),
            (self.waiting, "waited"),
            (self.held, "held"),
            (self.stolen, "stolen (vCPU frozen)"),
            (self.blocked, if cpus { "blocked, idle" } else { "blocked" }),
            (self.missed, "missed a deadline"),
        ];
        if cpus {
            meanings.push(('A', "A-Z entity that ran (a-z: most of it)"));
            meanings.push((self.other, "another ran"));
        }
        meanings
    }
}
