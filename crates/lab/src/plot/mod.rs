//! Figures of papers, drawn from the measurements and the values that the paper prints.
//!
//! [`Figure::of`] collects the data of a plot; [`Figure::svg`] and [`Figure::png`] draw it. Equal results give equal
//! bytes on every machine, because the font is embedded in the program.

mod bins;
mod data;
mod draw;
mod layout;
mod making;
mod pen;
mod scale;

pub use data::Figure;

use layout::{Layout, WIDTH};
use pen::Pen;
use plotters::prelude::{BitMapBackend, IntoDrawingArea, SVGBackend};

/// Number of bitmap pixels per picture pixel, horizontally and vertically.
const FINE: u32 = 2;

impl Figure {
    /// Returns the figure as an SVG document.
    ///
    /// # Panics
    /// Never panics, because the figure is drawn into memory.
    #[must_use]
    pub fn svg(&self) -> String {
        let layout = Layout::of(self);
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, size(&layout, 1)).into_drawing_area();
            layout.draw(&Pen::new(&area, 1)).expect("memory takes what is drawn");
            area.present().expect("memory takes what is drawn");
        }
        let title = minijinja::HtmlEscape(&self.title);
        text.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1)
    }

    /// Returns the figure as a PNG file.
    ///
    /// # Panics
    /// Never panics, because the figure is drawn into memory.
    #[must_use]
    pub fn png(&self) -> Vec<u8> {
        let layout = Layout::of(self);
        let (width, height) = size(&layout, FINE);
        let mut pixels = vec![0; width as usize * height as usize * 3];
        {
            let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
            layout.draw(&Pen::new(&area, FINE)).expect("memory takes what is drawn");
            area.present().expect("memory takes what is drawn");
        }
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let written = encoder.write_header().and_then(|mut writer| {
            writer.write_image_data(&pixels)?;
            writer.finish()
        });
        written.expect("memory takes what is drawn");
        file
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a picture is small")]
fn size(layout: &Layout<'_>, scale: u32) -> (u32, u32) {
    (WIDTH as u32 * scale, layout.height as u32 * scale)
}
