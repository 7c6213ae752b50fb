//! Figures of papers, drawn from what was measured, with the paper's own values beside it.
//!
//! [`Figure::of`] says what a plot shows, [`Figure::svg`] and [`Figure::png`] draw it: the same bytes for the same results, on every
//! machine, since even the font is our own.

mod data;
mod draw;
mod pen;
mod scale;

pub use data::Figure;

use draw::{Layout, WIDTH};
use pen::Pen;
use plotters::prelude::{BitMapBackend, IntoDrawingArea, SVGBackend};

/// How many pixels of a bitmap one of a picture is, in each direction.
const FINE: u32 = 2;

impl Figure {
    /// As an SVG document.
    ///
    /// # Panics
    /// Never: it is drawn into memory.
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

    /// As a PNG file.
    ///
    /// # Panics
    /// Never: it is drawn into memory.
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
