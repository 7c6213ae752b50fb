//! [`Asked`]: the parameters that the scenario requests for an entity or a group.

use crate::description::{EntityDescription, RunDescription};
use crate::short::short;
use sched::{Class, GroupParams, Limit, Params};
use serde::Serialize;

/// Requested parameters of an entity or a group.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Asked {
    /// Weight in Linux's scale, 1024 = normal.
    pub weight_linux: u32,
    /// Requested slice of the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_ns: Option<u64>,
    /// Requested period of the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<u64>,
    /// Requested limit of the reservation: `soft` or `hard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<&'static str>,
    /// Class, unless it is the normal class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Cap, in millionths of a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_ppm: Option<u64>,
    /// CPU time of the quota in every quota period, as in `cpu.max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_ns: Option<u64>,
    /// Period of the quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_period_ns: Option<u64>,
}

impl Asked {
    pub(crate) fn by(entity: &EntityDescription, run: &RunDescription) -> Asked {
        let mut asked = Asked::with(&entity.params);
        // A VM with one vCPU is shown as an entity. The cap and quota of the VM are those of its group.
        let group = entity.group.map(|group| &run.groups[group]).filter(|group| group.name == entity.name);
        if let Some(group) = group {
            asked.limit_by(&group.params);
        }
        asked
    }

    pub(crate) fn with(params: &Params) -> Asked {
        let reservation = params.reservation;
        Asked {
            weight_linux: params.weight.as_linux(),
            slice_ns: reservation.map(|reservation| reservation.slice.as_ns()),
            period_ns: reservation.map(|reservation| reservation.period.as_ns()),
            limit: reservation.map(|reservation| match reservation.limit {
                Limit::Soft => "soft",
                Limit::Hard => "hard",
            }),
            class: class(params.class),
            ..Asked::default()
        }
    }

    pub(crate) fn of(group: &GroupParams) -> Asked {
        let mut asked = Asked { weight_linux: group.weight.as_linux(), ..Asked::default() };
        asked.limit_by(group);
        asked
    }

    fn limit_by(&mut self, group: &GroupParams) {
        self.cap_ppm = group.cap_percent.map(|percent| u64::from(percent) * 10_000);
        self.quota_ns = group.quota.map(|quota| quota.quota.as_ns());
        self.quota_period_ns = group.quota.map(|quota| quota.period.as_ns());
    }
}

fn class(class: Class) -> Option<String> {
    match class {
        Class::Normal => None,
        Class::Batch => Some("batch".to_string()),
        Class::Idle => Some("idle".to_string()),
        Class::Isochronous => Some("iso".to_string()),
        Class::Stop => Some("stop".to_string()),
        Class::Fifo(priority) => Some(format!("fifo {}", priority.number())),
        Class::RoundRobin(priority) => Some(format!("rr {}", priority.number())),
    }
}

/// Formats the requested parameters in short form.
pub(crate) fn shown(asked: &Asked) -> String {
    let mut words = Vec::new();
    if let (Some(slice), Some(period)) = (asked.slice_ns, asked.period_ns) {
        words.push(format!("{}/{}", short(slice), short(period)));
    }
    words.extend(asked.class.clone());
    if asked.limit == Some("hard") {
        words.push("hard".to_string());
    }
    if let Some(cap) = asked.cap_ppm {
        words.push(format!("cap {}%", cap / 10_000));
    }
    if let (Some(quota), Some(period)) = (asked.quota_ns, asked.quota_period_ns) {
        words.push(format!("quota {}/{}", short(quota), short(period)));
    }
    if asked.weight_linux != 1024 || words.is_empty() {
        let weight = sched::Weight::linux(asked.weight_linux).unwrap_or_default();
        words.insert(0, format!("weight {weight}"));
    }
    words.join(", ")
}
