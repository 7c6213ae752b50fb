//! Credit2 against its rules.
