//! The record of instructions with which `cargo xtask bench` compares its counts.

#[path = "../../benches/speed/record.rs"]
mod checked;

use checked::{Counts, Record};

const TWO: &str = r#"
[[recorded]]
state = "first"
rustc = "1.95.0"
counts = { bare_loop = 1_000, core = 2_000, command = 3_000, two_levels = 10_000 }

[[recorded]]
state = "second"
rustc = "1.95.0"
counts = { bare_loop = 1_000, core = 1_500, command = 2_000, two_levels = 6_000 }
"#;

#[test]
fn more_instructions_than_recorded_are_found_and_named() {
    let record = Record::parse(TWO).expect("it is sound");
    let same = Counts { bare_loop: 1_000, core: 1_500, command: 2_000, two_levels: 6_000 };
    assert!(record.exceeded(&same).is_empty());
    let little = Counts { core: 1_545, command: 1_000, ..same };
    assert!(record.exceeded(&little).is_empty(), "3 % more and any less are allowed");
    let much = Counts { core: 1_546, two_levels: 9_000, ..same };
    assert_eq!(record.exceeded(&much), ["core", "two_levels"]);
    let table = record.compare(&much);
    assert_eq!(table.matches("MORE than recorded").count(), 2, "{table}");
    assert!(table.contains("command at most 2.0 bare loops: met"), "{table}");
    assert!(table.contains("two levels at most 60 % of the first record: NOT met"), "{table}");
}

#[test]
fn a_record_without_a_column_or_with_an_unknown_program_is_refused() {
    assert!(Record::parse("recorded = []").is_err());
    assert!(Record::parse(&TWO.replace("core", "heart")).is_err());
    let committed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/instructions.toml"));
    Record::parse(&committed.expect("it is there")).expect("the committed record is sound");
}
