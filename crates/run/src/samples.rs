//! CPU time of every VM in each interval, as sampled by a monitor.
//!
//! Source: Cherkasova, Gupta and Vahdat, "Comparison of the three CPU schedulers in Xen", 2007, section 5.2. The paper
//! evaluates the error of an allocation at a given time scale, from samples of one second.

use scenario::{SampledAt, SamplesSpec, Scenario};
use sched::{Action, EntityId, Instant, Nanos};
use std::collections::BTreeMap;
use std::ops::Range;
use trace::{Event, Sink};

/// The sampled CPU time of a VM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampledVm {
    /// Name of the VM.
    pub name: String,
    /// CPU time of all vCPUs of the VM together in each complete sample since the start of the run. The CPU time of
    /// samples that end with switches is scaled to the length of one interval. Unit: nanoseconds.
    pub cpu_ns: Vec<u64>,
}

/// Returns the samples of a run of `scenario` from one sampler per host. `vcpus` contains the ids of the scenario's
/// entities.
pub(crate) fn of_vms(scenario: &Scenario, vcpus: &[Option<EntityId>], mut samplers: Vec<Sampler>) -> Vec<SampledVm> {
    let end = Instant::ZERO + scenario.length;
    samplers.iter_mut().for_each(|sampler| sampler.end(end));
    let vm = |(name, range): (&str, Range<usize>)| {
        let host = scenario.entities[range.start].host;
        let ids: Vec<EntityId> = vcpus[range].iter().flatten().copied().collect();
        SampledVm { name: name.to_string(), cpu_ns: samplers[host].of(&ids) }
    };
    scenario.vms().map(vm).collect()
}

/// Divides the CPU time of the entities of a host into samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    spec: SamplesSpec,
    running: BTreeMap<EntityId, Instant>,
    /// CPU time of each entity per sample, without the time of a running entity since its instant in `running`. Unit:
    /// nanoseconds.
    got: BTreeMap<EntityId, Vec<u64>>,
    /// With [`SampledAt::Switches`], start of the current sample, and number of earlier samples. With
    /// [`SampledAt::Clock`], only the number of complete samples, known at the end of the run.
    open: (Instant, usize),
}

impl Sampler {
    pub(crate) fn new(spec: SamplesSpec) -> Sampler {
        Sampler { spec, running: BTreeMap::new(), got: BTreeMap::new(), open: (Instant::ZERO, 0) }
    }

    /// Ends the run. Entities that still run receive CPU time until `end`.
    pub(crate) fn end(&mut self, end: Instant) {
        for (entity, since) in std::mem::take(&mut self.running) {
            self.add(entity, since, end);
        }
        if self.spec.at == SampledAt::Clock {
            let whole = end.as_ns() / self.spec.interval.as_ns();
            self.open.1 = usize::try_from(whole).expect("a scenario has few samples");
        }
    }

    /// Returns the CPU time of `vcpus` together in each complete sample.
    pub(crate) fn of(&self, vcpus: &[EntityId]) -> Vec<u64> {
        let mut sums = vec![0; self.open.1];
        for got in vcpus.iter().filter_map(|vcpu| self.got.get(vcpu)) {
            sums.iter_mut().zip(got).for_each(|(sum, got)| *sum += got);
        }
        sums
    }

    fn add(&mut self, entity: EntityId, since: Instant, until: Instant) {
        let (mut from, until) = (since.as_ns(), until.as_ns());
        while from < until {
            let (index, to) = match self.spec.at {
                SampledAt::Switches => (self.open.1, until),
                SampledAt::Clock => {
                    let (interval, index) = (self.spec.interval.as_ns(), from / self.spec.interval.as_ns());
                    let index_usize = usize::try_from(index).expect("a scenario has few samples");
                    (index_usize, until.min((index + 1).saturating_mul(interval)))
                }
            };
            let got = self.got.entry(entity).or_default();
            if got.len() <= index {
                got.resize(index + 1, 0);
            }
            got[index] += to - from;
            from = to;
        }
    }

    /// Processes a dispatch or a stop. With [`SampledAt::Switches`], the switch ends the current sample if the sample
    /// has lasted for at least one interval.
    fn switched(&mut self, at: Instant) {
        let lasted = at.since(self.open.0);
        if self.spec.at == SampledAt::Clock || lasted < self.spec.interval {
            return;
        }
        let running: Vec<(EntityId, Instant)> = self.running.iter().map(|(&entity, &since)| (entity, since)).collect();
        for (entity, since) in running {
            self.add(entity, since, at);
            self.running.insert(entity, at);
        }
        for got in self.got.values_mut().filter_map(|got| got.get_mut(self.open.1)) {
            *got = Nanos::ns(*got).scale(self.spec.interval.as_ns(), lasted.as_ns()).as_ns();
        }
        self.open = (at, self.open.1 + 1);
    }
}

impl Sink for Sampler {
    fn record(&mut self, at: Instant, event: &Event) {
        match *event {
            Event::Action(Action::Run { entity, .. }) => {
                self.running.insert(entity, at);
                self.switched(at);
            }
            Event::Action(Action::Stop { entity, .. }) => {
                if let Some(since) = self.running.remove(&entity) {
                    self.add(entity, since, at);
                    self.switched(at);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(at: SampledAt) -> Sampler {
        Sampler::new(SamplesSpec { interval: Nanos::s(1), at })
    }

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Nanos::ms(n)
    }

    #[test]
    fn a_turn_over_several_intervals_counts_in_each_and_the_last_one_that_is_not_whole_is_left_out() {
        let mut sampler = sampler(SampledAt::Clock);
        let (a, b) = (EntityId::new(0, 0), EntityId::new(1, 0));
        sampler.add(a, ms(500), ms(2_250));
        sampler.add(b, ms(900), ms(1_000));
        sampler.running.insert(b, ms(2_900));
        sampler.end(ms(3_400));
        assert_eq!(sampler.of(&[a, b]), [600_000_000, 1_000_000_000, 350_000_000]);
        assert_eq!(sampler.of(&[b]), [100_000_000, 0, 100_000_000]);
        assert_eq!(sampler.of(&[]), [0, 0, 0]);
    }

    #[test]
    fn a_sample_that_ends_with_a_switch_counts_what_was_got_in_proportion_to_how_long_it_lasted() {
        let mut sampler = sampler(SampledAt::Switches);
        let (a, b, cpu) = (EntityId::new(0, 0), EntityId::new(1, 0), sched::CpuId::new(0));
        let mut turn = |entity, from, to| {
            sampler.record(ms(from), &Event::Action(Action::Run { cpu, entity, until: ms(to) }));
            sampler.record(ms(to), &Event::Action(Action::Stop { cpu, entity }));
        };
        turn(a, 0, 500);
        turn(b, 750, 1_250);
        turn(a, 1_250, 3_250);
        turn(b, 3_250, 3_500);
        sampler.end(ms(4_000));
        assert_eq!(sampler.of(&[a]), [400_000_000, 1_000_000_000]);
        assert_eq!(sampler.of(&[b]), [400_000_000, 0]);
    }
}
