//! Tests of task sets.

use crate::rendered;
use expect_test::expect_file;
use scenario::taskset::{Task, from_bytes};
use sched::Nanos;
use std::path::Path;

fn oracle(name: &str) -> Vec<Task> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/tests/oracle").join(name);
    from_bytes(name, std::fs::read(path).unwrap()).unwrap()
}

/// Returns the utilisation of `tasks` in thousandths of a CPU.
fn utilisation(tasks: &[Task]) -> u64 {
    tasks.iter().map(|task| task.wcet.as_ns() * 1_000_000 / task.period.as_ns()).sum::<u64>() / 1_000
}

#[test]
fn the_oracle_sets_are_what_their_names_say() {
    let (a, b) = (oracle("ts_A_n10_u3.0.csv"), oracle("ts_B_n100_u3.6.csv"));
    assert_eq!((a.len(), utilisation(&a)), (10, 2_999));
    assert_eq!((b.len(), utilisation(&b)), (100, 3_600));
    assert_eq!(a[0], Task { id: 0, period: Nanos::us(5443), wcet: Nanos::us(3264) });
}

#[test]
fn columns_come_in_any_order_and_fields_with_spaces_and_quotes() {
    let right = [
        Task { id: 7, period: Nanos::us(100), wcet: Nanos::us(100) },
        Task { id: 3, period: Nanos::us(50), wcet: Nanos::us(1) },
    ];
    for text in [
        "id,period_us,wcet_us\n7,100,100\n3,50,1\n",
        "wcet_us,id,period_us\r\n100,7,100\r\n\r\n1,3,50",
        "\u{feff} id , period_us,\"wcet_us\"\n\n\"7\",100 , \t100\n3,\"50\",1\n\n",
    ] {
        assert_eq!(from_bytes("x", text.into()).unwrap(), right, "{text:?}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let files: &[&[u8]] = &[
        b"",
        b"\n\n",
        b"id,period_us,wcet_us\n",
        b"id,period,wcet_us\n1,1,1\n",
        b"id,wcet_us\n1,1\n",
        b"id,id,period_us,wcet_us\n1,1,1,1\n",
        b"id,period_us,wcet_us\n1,100,10\n2,100,10\n1,50,5\n",
        b"id,period_us,wcet_us\n1,0,0\n2,10,11\n",
        b"id,period_us,wcet_us\n1,ten,1.5\n-2,,10\n3,99999999999999999999999,1\n4,1152921504606847,1\n",
        b"id,period_us,wcet_us\n1,100\n2,100,10,5\n\n  3, \"x\"\"y\" ,\xc2\xb5s\n",
        b"id,period_us,wcet_us\n1,\"100,10\n2,100,10\n",
        b"id,period_us,wcet_us\n1,100,10\n2,\xff,10\n",
    ];
    let said = |file: &&[u8]| {
        format!(
            "{}\n----\n{}",
            String::from_utf8_lossy(file),
            rendered(&from_bytes("x.csv", file.to_vec()).unwrap_err())
        )
    };
    let said: Vec<String> = files.iter().map(said).collect();
    expect_file!["errors/tasksets.txt"].assert_eq(&said.join("\n====================================\n"));
}
