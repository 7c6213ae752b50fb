//! [`json`]: JSON as Tactus prints it. Text from files must neither move the cursor nor conceal or reorder other text.

use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write;

/// Formats `value` as indented JSON, with a line feed at the end.
///
/// # Errors
/// `value` has a map whose keys are not texts, or reports an error itself.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string_pretty(value)?;
    Ok(safe_json(&json).into_owned() + "\n")
}

/// Returns JSON with JSON escapes for characters that would control a terminal. In JSON, these characters can occur
/// only in strings.
fn safe_json(json: &str) -> Cow<'_, str> {
    if json.chars().all(is_plain) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_plain(c) {
            shown.push(c);
        } else {
            // All these characters are in the Basic Multilingual Plane, so four digits suffice.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        }
    }
    Cow::Owned(shown)
}

/// Returns whether a terminal only prints this character, without another effect.
#[must_use]
pub fn is_plain(c: char) -> bool {
    matches!(c, '\n' | '\t')
        || !c.is_control()
            && !matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_json() {
        let name = "a\x1b\u{7f}\u{9b}\u{202e}b";
        let json = serde_json::to_string(name).unwrap();
        let shown = safe_json(&json);
        assert!(shown.is_ascii() && !shown.contains('\x7f'), "{shown:?}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), name);
    }
}
