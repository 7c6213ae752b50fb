//! Comparisons of policies with oracles, kernels, exact shares and recorded runs.

mod analytic;
mod book;
mod eevdf_kernel;
mod eevdf_wake_ups;
mod golden;
mod hogs;
mod linux_balance;
mod meter;
mod oracle;
mod schedulability;
mod shares;
