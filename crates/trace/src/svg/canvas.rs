//! [`Canvas`]: SVG elements as text, with coordinates in whole hundredths of a pixel.

use std::fmt::{self, Display, Formatter, Write as _};
use std::ops::{Add, AddAssign, Sub};

/// A length or a coordinate, in hundredths of a pixel. With integers, a picture is byte-identical on all machines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Px(i64);

impl Px {
    pub(super) const ZERO: Px = Px(0);

    /// Returns `n` pixels.
    pub(super) const fn of(n: i64) -> Px {
        Px(n * 100)
    }

    /// Returns `n` hundredths of a pixel.
    pub(super) const fn hundredths(n: i64) -> Px {
        Px(n)
    }

    pub(super) const fn as_hundredths(self) -> i64 {
        self.0
    }

    /// Returns the whole pixels of the length, rounded down.
    pub(super) const fn whole(self) -> Px {
        Px(self.0.div_euclid(100) * 100)
    }

    /// Returns half of the length, rounded down.
    pub(super) const fn half(self) -> Px {
        Px(self.0.div_euclid(2))
    }
}

impl Add for Px {
    type Output = Px;
    fn add(self, other: Px) -> Px {
        Px(self.0 + other.0)
    }
}

impl AddAssign for Px {
    fn add_assign(&mut self, other: Px) {
        self.0 += other.0;
    }
}

impl Sub for Px {
    type Output = Px;
    fn sub(self, other: Px) -> Px {
        Px(self.0 - other.0)
    }
}

impl Display for Px {
    /// Writes the shortest decimal: `12`, `-0.5`, `3.14`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, rest) = (self.0.unsigned_abs() / 100, self.0.unsigned_abs() % 100);
        match rest {
            0 => write!(f, "{sign}{whole}"),
            rest if rest % 10 == 0 => write!(f, "{sign}{whole}.{}", rest / 10),
            rest => write!(f, "{sign}{whole}.{rest:02}"),
        }
    }
}

/// A string, escaped for an element or an attribute. A space replaces each line feed, tab and carriage return. U+FFFD
/// replaces other control characters, characters that XML cannot represent, and characters that reorder text.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' | '\r' => f.write_char(' ')?,
                '\u{fffe}' | '\u{ffff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    f.write_char('\u{fffd}')?
                }
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The data of one SVG path element, which may contain several lines and boxes.
#[derive(Clone, Default, Debug)]
pub(super) struct Path(String);

impl Path {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a box.
    pub(super) fn block(&mut self, x: Px, y: Px, width: Px, height: Px) {
        self.add(format_args!("M{x} {y}h{width}v{height}h{}z", Px::ZERO - width));
    }

    /// Adds a line through all of `points`.
    pub(super) fn line(&mut self, points: &[(Px, Px)]) {
        let mut verb = 'M';
        for (x, y) in points {
            self.add(format_args!("{verb}{x} {y}"));
            verb = 'L';
        }
    }

    fn add(&mut self, what: fmt::Arguments<'_>) {
        self.0.write_fmt(what).expect("a string takes what is written to it");
    }
}

/// Alignment of text relative to its position.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Style of text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) size: u32,
    pub(super) weight: u32,
    pub(super) fill: &'static str,
    pub(super) anchor: Anchor,
}

/// A picture under construction.
#[derive(Default, Debug)]
pub(super) struct Canvas {
    out: String,
}

impl Canvas {
    pub(super) fn into_text(self) -> String {
        self.out
    }

    fn add(&mut self, what: fmt::Arguments<'_>) {
        self.out.write_fmt(what).expect("a string takes what is written to it");
        self.out.push('\n');
    }

    /// Adds all elements of another canvas.
    pub(super) fn append(&mut self, other: &Canvas) {
        self.out += &other.out;
    }

    /// Begins an SVG group with these attributes.
    pub(super) fn open(&mut self, attributes: &str) {
        self.add(format_args!("<g {attributes}>"));
    }

    /// Begins an SVG group at an offset.
    pub(super) fn open_at(&mut self, x: Px, y: Px) {
        self.add(format_args!("<g transform=\"translate({x} {y})\">"));
    }

    pub(super) fn close(&mut self) {
        self.add(format_args!("</g>"));
    }

    /// Adds a box with a tooltip. `data` contains further attributes.
    pub(super) fn labelled_block(&mut self, (x, y): (Px, Px), (width, height): (Px, Px), data: &str, label: &str) {
        let label = Escaped(label);
        self.add(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {data}><title>{label}</title></rect>"
        ));
    }

    /// Adds a box.
    pub(super) fn block(&mut self, (x, y): (Px, Px), (width, height): (Px, Px), attributes: &str) {
        self.add(format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {attributes}/>"));
    }

    /// Adds a path, unless it is empty.
    pub(super) fn path(&mut self, path: &Path, attributes: &str) {
        if !path.is_empty() {
            self.add(format_args!("<path d=\"{}\" {attributes}/>", path.0));
        }
    }

    pub(super) fn text(&mut self, (x, y): (Px, Px), how: Type, text: &str) {
        let Type { size, weight, fill, anchor } = how;
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if weight == 400 { String::new() } else { format!(" font-weight=\"{weight}\"") };
        let text = Escaped(text);
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{weight} fill=\"{fill}\"{anchor}>{text}</text>"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_print_short_and_exact() {
        for (hundredths, text) in
            [(0, "0"), (1200, "12"), (1250, "12.5"), (1205, "12.05"), (-50, "-0.5"), (-7, "-0.07")]
        {
            assert_eq!(Px::hundredths(hundredths).to_string(), text);
        }
    }

    #[test]
    fn nothing_escapes_from_a_text() {
        let text = Escaped("</text><script>\"'&\0\u{1b}\u{ffff}\n").to_string();
        assert_eq!(text, "&lt;/text&gt;&lt;script&gt;&quot;&#39;&amp;\u{fffd}\u{fffd}\u{fffd} ");
    }
}
