//! Comparisons of policies with oracles, kernels, exact shares and recorded runs.

mod book;
mod eevdf_kernel;
mod eevdf_wake_ups;
mod golden;
mod meter;
mod oracle;
mod schedulability;
mod shares;
