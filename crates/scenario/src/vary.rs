//! [`set`]: changes one value in the text of a scenario. A path names the value: `vm.batch.count`, `policy`,
//! `costs.machine`.
//!
//! The existing lines and comments stay in place. A new key may add a line.

use input::problem::{Wrong, nearest, quoted};
use toml_edit::{DocumentMut, InlineTable, Item, TableLike, Value};

/// Keys whose value is a table or, in the short form, a string. The second element is the key of this string in the
/// table.
const SHORT: [(&str, &str); 3] = [("policy", "name"), ("guest", "policy"), ("costs", "machine")];

/// Returns `text` with `value` at `path`, in place of the old value, if any. A value that is not valid TOML, such as
/// `credit` or `3ms`, becomes a string.
///
/// A path selects tables by key, and elements of `[[vm]]`, `[[task]]` and `[[group]]` by name:
/// `vm.web.task.editor.weight`. The name of copies may be written with or without `{i}`: `vm.web{i}.count`,
/// `vm.web.count`.
///
/// # Errors
/// The text is not valid TOML, or it is a file of SimSo, or a table on the path does not exist. A missing `policy`,
/// `guest` or `costs` is created instead.
pub fn set(text: &str, path: &str, value: &str) -> Result<String, Wrong> {
    if crate::simso::is_simso(text) {
        let help = "change the file of SimSo, or write the scenario in TOML";
        return Err(Wrong::new("a scenario of SimSo has no keys", "XML", help));
    }
    let mut document: DocumentMut = text.parse().map_err(|why: toml_edit::TomlError| {
        Wrong::new(
            format!("the scenario is not TOML: {}", why.message()),
            "not TOML",
            "write TOML, see https://toml.io",
        )
    })?;
    let typed = value.parse::<Value>().unwrap_or_else(|_| Value::from(value));
    put(document.as_table_mut(), path, path, typed)?;
    Ok(document.to_string())
}

/// Sets `value` at `rest`, the part of `path` below `table`.
fn put(table: &mut dyn TableLike, rest: &str, path: &str, value: Value) -> Result<(), Wrong> {
    let Some((key, below)) = rest.split_once('.') else {
        if rest.is_empty() {
            return Err(unknown(path, "", &[]));
        }
        match table.get_mut(rest) {
            Some(item) if is_long(rest, item) => rename(rest, item, value),
            // The comment and the spaces around a value are kept.
            Some(Item::Value(old)) => {
                let decor = old.decor().clone();
                *old = value;
                *old.decor_mut() = decor;
            }
            _ => drop(table.insert(rest, Item::Value(value))),
        }
        return Ok(());
    };
    if let Some((_, long)) = SHORT.iter().find(|(short, _)| *short == key) {
        lengthen(table, key, long);
    }
    let known: Vec<String> = table.iter().map(|(key, _)| key.to_string()).collect();
    match table.get_mut(key) {
        Some(Item::ArrayOfTables(tables)) => {
            let named = tables.iter_mut().map(|table| table as &mut dyn TableLike).collect();
            in_named(named, below, path, value)
        }
        Some(Item::Value(Value::Array(tables))) => {
            let inline = tables.iter_mut().filter_map(Value::as_inline_table_mut).map(|it| it as &mut dyn TableLike);
            in_named(inline.collect(), below, path, value)
        }
        Some(item) => match item.as_table_like_mut() {
            Some(inner) => put(inner, below, path, value),
            None => Err(unknown(path, key, &known)),
        },
        None => Err(unknown(path, key, &known)),
    }
}

/// Returns whether `item`, the value of `key`, is the long form: a table.
fn is_long(key: &str, item: &Item) -> bool {
    item.is_table_like() && SHORT.iter().any(|(short, _)| *short == key)
}

/// Sets the name in the table `item` of `key` to `value`. If the name changes, removes the knobs, because they belong
/// to the old policy.
fn rename(key: &str, item: &mut Item, value: Value) {
    let Some((_, long)) = SHORT.iter().find(|(short, _)| *short == key) else { return };
    let Some(table) = item.as_table_like_mut() else { return };
    if table.get(long).and_then(Item::as_str) != value.as_str() {
        table.remove("knobs");
    }
    table.insert(long, Item::Value(value));
}

/// Sets `value` in one of `tables`: `rest` begins with the name of this table. Names may contain dots; the longest
/// matching name applies. The name of copies also matches without `{i}` and without the separator before `{i}`.
fn in_named(tables: Vec<&mut dyn TableLike>, rest: &str, path: &str, value: Value) -> Result<(), Wrong> {
    let name = |table: &dyn TableLike| table.get("name").and_then(Item::as_str).unwrap_or_default().to_string();
    let names: Vec<String> = tables.iter().map(|table| name(&**table)).collect();
    let below = |name: &str| rest.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')).map(str::to_string);
    let copied = |name: &str| below(name.strip_suffix("{i}")?.trim_end_matches(['-', '_', '.', ' ']));
    let found = tables.into_iter().zip(&names).filter_map(|(table, name)| {
        let exact = below(name);
        Some((table, exact.is_none(), exact.or_else(|| copied(name))?))
    });
    match found.min_by_key(|(_, copies, below)| (below.len(), *copies)) {
        Some((table, _, below)) => put(table, &below, path, value),
        None => Err(unknown(path, rest.split('.').next().unwrap_or(rest), &names)),
    }
}

/// Converts `key = "text"` to the table `{ long = "text" }`, and a missing key to an empty table. The table of a policy
/// also receives an empty table `knobs`, if it has none.
fn lengthen(table: &mut dyn TableLike, key: &str, long: &str) {
    let short = table.get(key).and_then(Item::as_str).map(str::to_string);
    if short.is_some() || table.get(key).is_none() {
        let mut inline = InlineTable::new();
        if let Some(text) = short {
            inline.insert(long, text.into());
        }
        table.insert(key, Item::Value(Value::InlineTable(inline)));
    }
    if key == "policy"
        && let Some(policy) = table.get_mut(key).and_then(Item::as_table_like_mut)
        && policy.get("knobs").is_none()
    {
        policy.insert("knobs", Item::Value(Value::InlineTable(InlineTable::new())));
    }
}

fn unknown(path: &str, key: &str, known: &[String]) -> Wrong {
    let help = match nearest(key, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? write a path such as vm.NAME.weight or policy"),
        None => "write a path such as vm.NAME.weight, task.NAME.workload.periodic.period or policy".to_string(),
    };
    Wrong::new(format!("there is no {} at {}", quoted(key), quoted(path)), "unknown", help)
}

#[cfg(test)]
mod tests {
    use super::set;

    const TEXT: &str = r#"# two machines
policy = "credit" # the default

[[vm]]
name = "web"
weight = 256   # normal
task = [{ name = "editor", workload = { periodic = { period = "10ms", work = "1ms" } } }]

[[vm]]
name = "web.1"
"#;

    #[test]
    fn one_value_changes_and_lines_and_comments_stay() {
        assert_eq!(set(TEXT, "vm.web.weight", "512").unwrap(), TEXT.replace("256", "512"));
        assert_eq!(set(TEXT, "policy", "edf").unwrap(), TEXT.replace("credit", "edf"));
        let deep = set(TEXT, "vm.web.task.editor.workload.periodic.period", "3ms").unwrap();
        assert_eq!(deep, TEXT.replace("10ms", "3ms"));
        assert_eq!(set(TEXT, "vm.web.1.weight", "7").unwrap(), format!("{TEXT}weight = 7\n"));
    }

    #[test]
    fn copies_are_found_with_and_without_the_place_of_their_number() {
        let text = "[[vm]]\nname = \"batch-{i}\"\ncount = 1\n\n[[vm]]\nname = \"web{i}\"\ncount = 1\n";
        for path in ["vm.batch.count", "vm.batch-{i}.count"] {
            assert_eq!(set(text, path, "4").unwrap(), text.replacen("count = 1", "count = 4", 1), "{path}");
        }
        assert!(set(text, "vm.web.count", "3").unwrap().ends_with("count = 3\n"));
        // A VM with exactly this name takes precedence.
        let both = format!("{text}\n[[vm]]\nname = \"web\"\ncount = 1\n");
        assert!(set(&both, "vm.web.count", "3").unwrap().ends_with("\"web\"\ncount = 3\n"));
    }

    #[test]
    fn a_short_form_becomes_a_table() {
        let knob = set(TEXT, "policy.knobs.timeslice", "5ms").unwrap();
        assert!(knob.contains("policy = { name = \"credit\", knobs = { timeslice = \"5ms\" } }"), "{knob}");
        let costs = set(TEXT, "costs.tick", "1us").unwrap();
        assert!(costs.contains("costs = { tick = \"1us\" }"), "{costs}");
    }

    #[test]
    fn a_table_keeps_its_other_keys_and_a_policy_the_knobs_that_are_its_own() {
        let text =
            "[policy]\nname = \"edf\"\nknobs = { enforce = \"hard\" }\n[costs]\nmachine = \"m1\"\ntick = \"1us\"\n";
        assert_eq!(set(text, "policy", "edf").unwrap(), text);
        let other = set(text, "policy", "credit").unwrap();
        assert_eq!(other, text.replace("edf", "credit").replace("knobs = { enforce = \"hard\" }\n", ""));
        assert_eq!(set(text, "costs", "epyc").unwrap(), text.replace("m1", "epyc"));
    }

    #[test]
    fn a_path_that_leads_nowhere_is_refused() {
        for path in ["vm.wep.weight", "disk.model", "vm.web.", "", "policy.name.x.y", "vm.web.weight.x"] {
            assert!(set(TEXT, path, "1").is_err(), "{path}");
        }
        assert!(set("x = [", "x", "1").is_err());
    }
}
