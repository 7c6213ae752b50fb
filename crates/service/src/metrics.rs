//! The metrics of the service, in the text format of OpenMetrics.

use crate::terms::IN_KERNEL;
use api::{BOUNDS_NS, Host, Measured, Phase, Vm};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelValueEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// The VM of a measurement.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfVm {
    id: String,
    name: String,
}

/// The VM of a state.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct InPhase {
    id: String,
    name: String,
    phase: Word,
}

/// A phase as the value of a label.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Word(Phase);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.0.word().encode(encoder)
    }
}

/// A number of seconds that only increases.
type Seconds = Counter<f64, AtomicU64>;

/// The CPU time that was missing at the ends of judged periods, as a histogram.
#[derive(Debug, Default)]
struct Shortfalls(Mutex<Measured>);

impl TypedMetric for Shortfalls {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Shortfalls {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let measured = self.0.lock().expect("no thread panics while it holds the lock");
        let bounds = BOUNDS_NS.into_iter().map(seconds).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(measured.shortfalls.0).collect();
        encoder.encode_histogram::<NoLabelSet>(seconds(measured.short_ns), measured.judged, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Returns the metrics of `host` and its VMs as text.
pub(crate) fn text(host: &Host, vms: &[Vm]) -> String {
    let mut registry = Registry::with_prefix("tactus");
    registry.register("build", "Version of the service", Info::new([("version", host.version.clone())]));
    let connected = Gauge::<i64>::default();
    connected.set(i64::from(host.core.is_some()));
    registry.register("core_connected", "Whether the service has a core", connected);
    let promisable = Gauge::<f64, AtomicU64>::default();
    promisable.set(f64::from(host.promisable_percent.unwrap_or(0)) / 100.0);
    registry.register("promisable_ratio", "Part of each CPU that may be promised", promisable);
    let (slice, period) =
        (Family::<OfVm, Gauge<f64, AtomicU64>>::default(), Family::<OfVm, Gauge<f64, AtomicU64>>::default());
    let (due, delivered) = (Family::<OfVm, Seconds>::default(), Family::<OfVm, Seconds>::default());
    let (judged, missed) = (Family::<OfVm, Counter>::default(), Family::<OfVm, Counter>::default());
    let in_kernel = Family::<OfVm, Gauge>::default();
    let shortfalls = Family::<OfVm, Shortfalls>::default();
    let phases = Family::<InPhase, Gauge>::default();
    for vm in vms {
        let of = OfVm { id: vm.id.clone(), name: vm.name.clone() };
        let phase = InPhase { id: vm.id.clone(), name: vm.name.clone(), phase: Word(vm.state.phase) };
        phases.get_or_create(&phase).set(1);
        let Some(promise) = &vm.desired.promise else { continue };
        slice.get_or_create(&of).set(seconds(promise.slice_ns));
        period.get_or_create(&of).set(seconds(promise.period_ns));
        due.get_or_create(&of).inc_by(seconds(vm.measured.due_ns));
        delivered.get_or_create(&of).inc_by(seconds(vm.measured.delivered_ns));
        in_kernel.get_or_create(&of).set(i64::from(vm.state.mechanism.as_deref() == Some(IN_KERNEL)));
        judged.get_or_create(&of).inc_by(vm.measured.judged);
        missed.get_or_create(&of).inc_by(vm.measured.missed);
        *shortfalls.get_or_create(&of).0.lock().expect("no thread panics while it holds the lock") = vm.measured;
    }
    registry.register("vm_phase", "Whether the desired state of the VM is in force", phases);
    registry.register_with_unit("vm_slice", "Desired CPU time in every period", Unit::Seconds, slice);
    registry.register_with_unit("vm_period", "Desired period", Unit::Seconds, period);
    registry.register_with_unit("vm_due", "CPU time that was due in the ended periods", Unit::Seconds, due);
    registry.register_with_unit(
        "vm_delivered",
        "CPU time that was delivered in these periods",
        Unit::Seconds,
        delivered,
    );
    registry.register("vm_in_kernel", "Whether a scheduler in the kernel dispatches the promise", in_kernel);
    registry.register("vm_periods_judged", "Periods in which the VM was runnable throughout", judged);
    registry.register("vm_periods_missed", "Judged periods in which the VM received less than was due", missed);
    let help = "CPU time that was missing at the end of each judged period";
    registry.register_with_unit("vm_shortfall", help, Unit::Seconds, shortfalls);
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string has room");
    text
}

#[expect(clippy::cast_precision_loss, reason = "metrics are doubles")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
