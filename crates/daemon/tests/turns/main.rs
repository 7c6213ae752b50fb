//! Tests of the turns of an agent, on a simulated host.

mod changes;
mod cpu_timers;
mod gangs;
mod in_kernel;
mod parking;
mod reserved;
mod scene;
mod siblings;
mod suspension;
mod upcoming;
