//! Runs and reports of whole scenarios. The tests calculate the expected results.

mod alone;
mod applications;
mod change;
mod disks;
mod gangs;
mod guests;
mod hosts;
mod live;
mod made;
mod manager;
mod network;
mod run;
mod samples;
mod simso;
mod split_driver;
mod stepped;
mod warm_up;
mod workloads;
