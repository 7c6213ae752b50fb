//! [`Output`]: a buffered writer that keeps its first error until the end, because a [`Sink`](crate::Sink) cannot
//! report errors.

use std::io::{self, BufWriter, Write};

/// A buffered writer that keeps its first error, and then writes nothing more.
#[derive(Debug)]
pub(crate) struct Output<W: Write> {
    inner: BufWriter<W>,
    error: Option<io::Error>,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(inner: W) -> Output<W> {
        Output { inner: BufWriter::with_capacity(1 << 16, inner), error: None }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none()
            && let Err(error) = self.inner.write_all(bytes)
        {
            self.error = Some(error);
        }
    }

    /// Stores `error`, unless the writer already has an error.
    pub(crate) fn fail(&mut self, error: io::Error) {
        self.error.get_or_insert(error);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Flushes, and returns the inner writer or the first error.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut inner = self.inner.into_inner().map_err(io::IntoInnerError::into_error)?;
        inner.flush()?;
        Ok(inner)
    }
}
