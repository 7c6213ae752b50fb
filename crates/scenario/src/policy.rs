//! Reads `policy`: a name, or a table with knobs.

use super::form;
use super::spec::PolicyChoice;
use input::knobs::{KnobPlace, KnobSetting, KnobValue};
use input::problem::{Findings, Problem};
use input::source::Placed;
use input::table::{Given, Table};
use toml::de::DeValue;

/// Keys of `[policy]`.
pub(crate) const POLICY_KEYS: &[&str] = &["name", "knobs"];

/// `[policy]`, before the policy is looked up.
#[derive(Debug)]
pub(super) struct PolicyTable {
    pub(super) name: Given<String>,
    pub(super) knobs: Vec<KnobSetting>,
}

/// Reads `policy = "edf"`, or a table with knobs.
pub(super) fn policy(top: &Table<'_, '_>, findings: &mut Findings) -> Given<PolicyTable> {
    let Some((value, at)) = top.get("policy") else { return Given::Absent };
    if value.is_str() {
        let name = top.read("policy", |value| form::reference("policy", value), findings);
        return Given::Right(Placed { value: PolicyTable { name, knobs: Vec::new() }, at });
    }
    let Some(table) = top.table("policy", ("[policy]", POLICY_KEYS), findings) else { return Given::Wrong(at) };
    let name = table.read("name", |value| form::reference("name", value), findings);
    if name.is_absent() {
        let help = "use the name of a policy, such as name = \"edf\"";
        findings.add(Problem::new("the policy has no name").at(table.at, "no name").help(help));
    }
    let knobs = knobs(&table, findings);
    Given::Right(Placed { value: PolicyTable { name, knobs }, at })
}

/// Reads the knobs as written. Knobs that the policy lacks are rejected later.
fn knobs(policy: &Table<'_, '_>, findings: &mut Findings) -> Vec<KnobSetting> {
    let Some((value, at)) = policy.get("knobs") else { return Vec::new() };
    let Some(entries) = value.as_table() else {
        let right = "a table, such as { quantum = \"10ms\" }";
        findings.add(form::mistyped("knobs", value, right).at(at));
        return Vec::new();
    };
    let mut settings = Vec::new();
    for (name, value) in Table::all(entries, at).iter() {
        let written = match value.value {
            DeValue::String(text) => Ok(KnobValue::Text(text.to_string())),
            DeValue::Boolean(on) => Ok(KnobValue::Switch(*on)),
            other => {
                let right = "a text in quotes, a whole number, true or false";
                form::integer(name.value, other, right).map(KnobValue::Integer)
            }
        };
        match written {
            Ok(written) => settings.push(KnobSetting {
                name: name.value.to_string(),
                value: written,
                place: Some(KnobPlace { source: findings.source().clone(), name: name.at, value: value.at }),
            }),
            Err(wrong) => findings.add(wrong.at(value.at)),
        }
    }
    settings.sort_by_key(|setting| setting.place.as_ref().map(|place| place.name));
    settings
}

/// Returns the policy that the table names. `None`: the name is missing or wrong.
pub(super) fn chosen(policy: PolicyTable) -> Option<PolicyChoice> {
    let Placed { value: name, at: place } = policy.name.right()?;
    Some(PolicyChoice { name, place, knobs: policy.knobs })
}
