//! Text for a terminal. Text from files must neither move the cursor nor conceal or reorder other text.

use report::is_plain;
use std::borrow::Cow;
use std::fmt::Write;

/// Returns `text` with an escape in place of each character that would control a terminal or change the direction of
/// writing. Line feeds and tabs stay. Colours stay if the text `has_styles`.
pub(crate) fn safe(text: &str, has_styles: bool) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let style = if has_styles { style(rest) } else { 0 };
        if style > 0 {
            shown.push_str(&rest[..style]);
        } else if is_plain(c) {
            shown.push(c);
        } else {
            let _ = write!(shown, "{}", c.escape_unicode());
        }
        rest = &rest[style.max(c.len_utf8())..];
    }
    Cow::Owned(shown)
}

/// Returns the length in bytes of the style at the start of `text`, a colour or weight such as `ESC [ 1 ; 31 m`.
/// Returns 0 if `text` does not start with a style.
fn style(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\x1b[") else { return 0 };
    let numbers = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if rest[numbers..].starts_with('m') { "\x1b[".len() + numbers + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_drives_a_terminal_is_escaped() {
        let text = "\x1b[2J\x1b]0;title\x07\r\u{9b}31m\u{202e}back\x7f";
        let shown = r"\u{1b}[2J\u{1b}]0;title\u{7}\u{d}\u{9b}31m\u{202e}back\u{7f}";
        assert_eq!((safe(text, false), safe(text, true)), (shown.into(), shown.into()));
        assert!(matches!(safe("grün: 5 %\n\tΔ → “x”", false), Cow::Borrowed(_)));
    }

    #[test]
    fn colours_stay_where_there_may_be_some() {
        let text = "\x1b[1;31mred\x1b[0m\x1b[m\x1b[1A";
        assert_eq!(safe(text, true), "\x1b[1;31mred\x1b[0m\x1b[m\\u{1b}[1A");
        assert_eq!(safe(text, false), r"\u{1b}[1;31mred\u{1b}[0m\u{1b}[m\u{1b}[1A");
    }
}
