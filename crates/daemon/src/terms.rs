//! [`Terms`]: the conditions under which Tactus makes promises on a host.

use crate::Explanation;
use crate::directory::Directory;
use crate::dispatch::{KeptBy, RaiseBy};
use crate::doctor::{Measurement, Mechanism};
use crate::guardian::this_program;
use crate::host_profile::HostProfile;
use crate::live::{AdmissionPolicy, Setup};
use sched::{Descriptor, Knobs};
use sys::realtime::Bandwidth;

/// Minimum share of each CPU that is never promised. Unit: percent.
pub const RESERVE: u64 = 10;

/// Name of the policy on a real host.
pub const POLICY: &str = "gang-edf";

/// The knobs of [`POLICY`] on a real host. The machine allocates promised time only, and an overrun is subtracted from
/// the next slice. Periods follow the wake-ups of the client (docs/decisions/0012). A changed promise takes nothing from
/// the other promises (docs/decisions/0023).
pub const WORDS: [(&str, &str); 4] = [("enforce", "hard"), ("late", "carry"), ("rest", "renew"), ("change", "due")];

/// Returns the knobs of [`POLICY`] on a real host, with its default reserve.
///
/// # Panics
/// `policy` describes another policy, which lacks these knobs.
#[must_use]
pub fn knobs(policy: &Descriptor) -> Knobs {
    let mut knobs = policy.defaults();
    for (knob, word) in WORDS {
        knobs.set_word(knob, word).expect("the policy has this knob");
    }
    knobs
}

/// Name of the policy that admits promises which the kernel keeps, and its knobs. The kernel runs a reserved thread on
/// any CPU, so the policy places no client.
pub const DEADLINE_POLICY: &str = "edf";
const DEADLINE_WORDS: [(&str, &str); 2] = [("placement", "global"), ("enforce", "hard")];

/// How the promises are kept.
#[derive(Clone, Debug)]
enum How {
    /// By turns of threads that inherit their priority. The value is what was measured on this host.
    Inheritance(Option<String>),
    /// By turns of threads whose attributes are set, for this reason.
    Attributes(Explanation),
    /// By SCHED_DEADLINE.
    Deadline,
}

/// The conditions of promises on a host.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The policy of the daemon.
    pub policy: &'static Descriptor,
    /// Knobs of the policy, with the share of each CPU that is kept in reserve.
    pub knobs: Knobs,
    /// Share of each CPU that may be promised. Unit: percent.
    promised: u64,
    throttling: Bandwidth,
    fair_server: Option<Bandwidth>,
    how: How,
}

impl Terms {
    /// Returns the terms on `host` under `policy`. Promises may use the time that the kernel leaves to real-time threads,
    /// but not the [`RESERVE`]. If `inheritance` fails, or if it has missed far more periods in `measured`, the daemon raises
    /// threads by their attributes.
    ///
    /// # Errors
    /// Real-time threads receive no CPU time on `host`, so no promise is possible.
    ///
    /// # Panics
    /// As for [`knobs`].
    pub fn on(
        host: &HostProfile,
        policy: &'static Descriptor,
        inheritance: Result<(), Explanation>,
        measured: Option<&Measurement>,
    ) -> Result<Terms, Explanation> {
        let against = measured.and_then(Measurement::against_inheritance);
        let how = match inheritance.and_then(|()| against.map_or(Ok(()), Err)) {
            Ok(()) => How::Inheritance(measured.and_then(|measured| measured.about(Mechanism::Inheritance))),
            Err(why) => How::Attributes(why),
        };
        Terms::of(host, policy, knobs(policy), how)
    }

    /// Returns the terms on `host` for promises that the kernel keeps, by SCHED_DEADLINE. `policy` is
    /// [`DEADLINE_POLICY`].
    ///
    /// # Errors
    /// The kernel grants no reservations on `host`, so no promise is possible.
    ///
    /// # Panics
    /// `policy` describes another policy, which lacks the knobs.
    pub fn by_deadline(host: &HostProfile, policy: &'static Descriptor) -> Result<Terms, Explanation> {
        let mut knobs = policy.defaults();
        for (knob, word) in DEADLINE_WORDS {
            knobs.set_word(knob, word).expect("the policy has this knob");
        }
        Terms::of(host, policy, knobs, How::Deadline)
    }

    fn of(host: &HostProfile, policy: &'static Descriptor, mut knobs: Knobs, how: How) -> Result<Terms, Explanation> {
        let mechanism = match how {
            How::Inheritance(_) => Mechanism::Inheritance,
            How::Attributes(_) => Mechanism::Fifo,
            How::Deadline => Mechanism::Deadline,
        };
        let promisable = host.promisable_ppm(mechanism).unwrap_or(0);
        if promisable == 0 {
            let remedy = "use a control group with real-time runtime; `tactus doctor` shows the details";
            return Err(Explanation::new("no promise is possible here: real-time threads receive no CPU time", remedy));
        }
        let reserve = RESERVE.max(100 - promisable.min(1_000_000) / 10_000);
        knobs.set("reserve", reserve.cast_signed()).expect("the reserve is a percentage");
        let (throttling, fair_server) = (host.realtime.throttling, host.fair_server());
        Ok(Terms { policy, knobs, promised: 100 - reserve, throttling, fair_server, how })
    }

    /// Returns what keeps promises on these terms.
    #[must_use]
    pub fn by(&self) -> KeptBy {
        match self.how {
            How::Inheritance(_) => KeptBy::Dispatcher(RaiseBy::Inheritance),
            How::Attributes(_) => KeptBy::Dispatcher(RaiseBy::Attributes),
            How::Deadline => KeptBy::Kernel,
        }
    }

    /// Returns the parameters of a daemon that makes promises on all these terms, with its table in `directory`. Promises by
    /// turns share the largest reserve. The first terms are those of a request without a mechanism.
    #[must_use]
    pub fn setup<'t>(all: impl IntoIterator<Item = &'t Terms>, directory: Directory) -> Setup {
        let executable = this_program().to_path_buf();
        let mut all = all.into_iter().peekable();
        let usual = all.peek().map_or(KeptBy::Kernel, |terms| terms.by());
        let mut setup =
            Setup { directory, executable, turns: None, reservations: None, usual, scheduler: None, fault: None };
        for terms in all {
            let admission = AdmissionPolicy { policy: terms.policy, knobs: terms.knobs.clone() };
            let reserve = |admission: &AdmissionPolicy| admission.knobs.get("reserve");
            match terms.by() {
                KeptBy::Kernel => setup.reservations = Some(admission),
                KeptBy::Dispatcher(_) if setup.turns.as_ref().is_some_and(|it| reserve(it) > reserve(&admission)) => {}
                KeptBy::Dispatcher(_) => setup.turns = Some(admission),
            }
        }
        setup
    }

    /// Returns the knobs for a simulation of a live run. In the simulation, a client with a soft limit that has used up
    /// its slice competes for the remaining time, as on a real host.
    ///
    /// # Panics
    /// As for [`knobs`].
    #[must_use]
    pub fn predicting(&self) -> Knobs {
        let mut knobs = self.knobs.clone();
        // Under SCHED_DEADLINE, the slice is the limit.
        if self.by() != KeptBy::Kernel {
            knobs.set_word("enforce", "soft").expect("the policy has this knob");
        }
        knobs
    }

    /// Returns the mechanism of the promises, and the reason for it without a full stop.
    #[must_use]
    pub fn mechanism(&self) -> (Mechanism, String) {
        match &self.how {
            How::Inheritance(measured) => {
                let mut why = "it works on this host, and changes no attributes of clients".to_string();
                measured.iter().for_each(|words| why += &format!("; {words}"));
                (Mechanism::Inheritance, why)
            }
            How::Attributes(why) => (Mechanism::Fifo, why.reason.to_string()),
            How::Deadline => (Mechanism::Deadline, "as requested".to_string()),
        }
    }

    /// Returns the terms of a run as sentences for users. With several mechanisms, the report has the mechanism of each
    /// client, so these sentences only have the common limit.
    #[must_use]
    pub fn in_words(all: &[&Terms]) -> String {
        match all {
            [only] => format!("{} {}", only.limits(), only.raising()),
            all => all.iter().min_by_key(|terms| terms.promised).map_or(String::new(), |terms| terms.limits()),
        }
    }

    /// Returns a sentence about the share of the CPUs that may be promised.
    fn limits(&self) -> String {
        let of = |bandwidth: &Bandwidth| {
            let Bandwidth { runtime, period } = bandwidth;
            runtime.map_or("all".to_string(), |runtime| format!("{runtime} in every {period}"))
        };
        let mut text = format!("Tactus reserves at most {} % of each CPU", self.promised);
        text += &format!(
            "; {} % stays free for everything else. The kernel leaves real-time threads {}",
            100 - self.promised,
            of(&self.throttling)
        );
        if let Some(server) = &self.fair_server {
            text += &format!(" and keeps {} for ordinary threads", of(server));
        }
        text + "."
    }

    /// Returns a sentence about the attributes of clients.
    fn raising(&self) -> String {
        match &self.how {
            How::Inheritance(_) => "Clients inherit their priority from Tactus, and keep their own scheduling attributes unless a warning says \
                     otherwise."
                .to_string(),
            How::Attributes(why) => format!("Tactus sets the scheduling attributes of clients: {}.", why.reason),
            How::Deadline => "The kernel keeps the promises, by SCHED_DEADLINE: the slice of a thread is also its limit.".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_profile::fixture::{bandwidth, plain};
    use sched::Nanos;
    use sys::realtime::GroupRuntime;

    fn in_words(terms: &Terms) -> String {
        Terms::in_words(&[terms])
    }

    fn terms(host: &HostProfile) -> Result<Terms, Explanation> {
        Terms::on(host, policies::find(POLICY).expect("it is registered"), Ok(()), None)
    }

    #[test]
    fn a_tenth_of_each_cpu_stays_free_and_more_where_the_kernel_takes_more() {
        let mut host = plain();
        for (throttling_ms, fair_ms, reserve) in [(950, 50, 10), (1_000, 50, 10), (850, 50, 15), (950, 205, 21)] {
            host.realtime.throttling = bandwidth(throttling_ms);
            host.realtime.fair_servers.as_mut().unwrap()[0].bandwidth = bandwidth(fair_ms);
            let terms = terms(&host).unwrap();
            assert_eq!(terms.knobs.get("reserve"), reserve, "{throttling_ms} ms, {fair_ms} ms");
            let said = format!("at most {} % of each CPU; {reserve} % stays free", 100 - reserve);
            assert!(in_words(&terms).contains(&said), "{}", in_words(&terms));
        }
    }

    #[test]
    fn the_terms_name_what_the_kernel_leaves_and_keeps() {
        let mut host = plain();
        let said = in_words(&terms(&host).unwrap());
        assert!(said.contains("threads 950ms in every 1s and keeps 50ms in every 1s for ordinary threads. "), "{said}");
        host.realtime.throttling.runtime = None;
        host.realtime.fair_servers = Ok(Vec::new());
        let said = in_words(&terms(&host).unwrap());
        assert!(said.contains("The kernel leaves real-time threads all. "), "{said}");
    }

    #[test]
    fn the_terms_say_how_clients_are_raised_and_why() {
        let host = plain();
        let of = |inheritance| {
            Terms::on(&host, policies::find(POLICY).expect("it is registered"), inheritance, None).unwrap()
        };
        let inherits = of(Ok(()));
        assert_eq!(inherits.by(), KeptBy::Dispatcher(RaiseBy::Inheritance));
        assert!(
            in_words(&inherits).ends_with("attributes unless a warning says otherwise."),
            "{}",
            in_words(&inherits)
        );
        let sets = of(Err(Explanation::new("this kernel has no PI futexes", "")));
        assert_eq!(sets.by(), KeptBy::Dispatcher(RaiseBy::Attributes));
        assert_eq!(inherits.mechanism().0, Mechanism::Inheritance);
        assert_eq!(sets.mechanism(), (Mechanism::Fifo, "this kernel has no PI futexes".to_string()));
        assert!(
            in_words(&sets).ends_with("attributes of clients: this kernel has no PI futexes."),
            "{}",
            in_words(&sets)
        );
    }

    #[test]
    fn the_kernel_keeps_promises_with_the_same_reserve_on_all_cpus_together() {
        let terms = Terms::by_deadline(&plain(), policies::find(DEADLINE_POLICY).expect("it is registered")).unwrap();
        assert_eq!(terms.by(), KeptBy::Kernel);
        assert_eq!(terms.knobs.get("reserve"), 10);
        let placement = terms.knobs.iter().find(|(knob, _)| knob.name == "placement");
        assert_eq!(placement.map(|(knob, value)| knob.show(value)).as_deref(), Some("global"));
        assert!(in_words(&terms).contains("at most 90 % of each CPU"), "{}", in_words(&terms));
        assert!(in_words(&terms).ends_with("by SCHED_DEADLINE: the slice of a thread is also its limit."));
    }

    #[test]
    fn a_host_without_time_for_real_time_threads_makes_no_promise() {
        let mut host = plain();
        host.realtime.group = Some(GroupRuntime { group: "/g".into(), bandwidth: bandwidth(0) });
        assert!(terms(&host).is_ok(), "the core uses another group");
        host.realtime.core_group.clone_from(&host.realtime.group);
        let refused = terms(&host).unwrap_err();
        assert!(refused.reason.contains("no promise is possible here"), "{refused}");
        assert!(refused.remedy.starts_with("use a control group with real-time runtime"), "{refused}");
        (host.realtime.group, host.realtime.core_group) = (None, None);
        host.realtime.throttling.runtime = Some(Nanos::ZERO);
        assert!(terms(&host).is_err());
    }

    #[test]
    fn clients_are_limited_to_their_slices_and_predicted_without_that_limit() {
        let terms = terms(&plain()).unwrap();
        let word = |knobs: &Knobs, name: &str| {
            knobs.iter().find(|(knob, _)| knob.name == name).map(|(knob, value)| knob.show(value)).unwrap()
        };
        assert!(WORDS.iter().all(|(name, expected)| word(&terms.knobs, name) == *expected));
        let predicting = terms.predicting();
        let differ: Vec<&str> = terms
            .knobs
            .iter()
            .filter(|(knob, value)| predicting.get(knob.name) != *value)
            .map(|(knob, _)| knob.name)
            .collect();
        assert_eq!((differ.as_slice(), word(&predicting, "enforce")), (["enforce"].as_slice(), "soft".to_string()));
    }
}
