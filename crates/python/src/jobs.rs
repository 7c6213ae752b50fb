//! [`jobs_table`]: the jobs of a run as an Arrow table.

use crate::table::names;
use arrow_array::{Array, ArrayRef, DictionaryArray, types::Int32Type};
use arrow_array::{Int64Array, RecordBatch, UInt64Array};
use arrow_schema::{Field, Schema};
use measure::jobs::Job;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns a row per job: its entity, the instants of its release, deadline, start and completion, and its response
/// time. All times are in nanoseconds. A job that did not execute has no start. A job that did not complete has neither
/// completion nor response time.
pub(crate) fn jobs_table(jobs: &[Job]) -> RecordBatch {
    let mut numbers: BTreeMap<&str, i32> = BTreeMap::new();
    let mut entities: Vec<&str> = Vec::new();
    let keys: Vec<Option<i32>> = jobs
        .iter()
        .map(|job| {
            let number = numbers.entry(&job.entity).or_insert_with(|| {
                entities.push(&job.entity);
                i32::try_from(entities.len() - 1).expect("there are fewer entities")
            });
            Some(*number)
        })
        .collect();
    let entities: DictionaryArray<Int32Type> = names(keys, entities);
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("entity", Arc::new(entities)),
        ("release_ns", Arc::new(UInt64Array::from_iter_values(jobs.iter().map(|job| job.release_ns)))),
        ("deadline_ns", Arc::new(UInt64Array::from_iter_values(jobs.iter().map(|job| job.deadline_ns)))),
        ("start_ns", Arc::new(jobs.iter().map(|job| job.start_ns).collect::<UInt64Array>())),
        ("completion_ns", Arc::new(jobs.iter().map(|job| job.completion_ns).collect::<UInt64Array>())),
        (
            "response_ns",
            Arc::new(
                jobs.iter()
                    .map(|job| job.completion_ns.map(|done| signed(done.saturating_sub(job.release_ns))))
                    .collect::<Int64Array>(),
            ),
        ),
    ];
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(schema, columns).expect("the columns have one length")
}
