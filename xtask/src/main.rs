//! Commands for the development of this workspace: `cargo xtask --help`.

mod artifact;
mod check;
mod chores;
mod citation;
mod component;
mod deb;
mod downloads;
mod environment;
mod fuzz;
mod guest;
mod lab;
mod mirror;
mod new_policy;
mod oracle;
mod page;
mod portable;
mod program;
mod python;
mod root;
mod seed;
mod site;
mod step;
mod stream;
mod test;
#[cfg(test)]
mod tidy;
mod wasm;
mod wheel;

use clap::Parser;
use std::process::ExitCode;

/// Commands for the development of this workspace.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Run all checks: formatting, lints, tidiness, all tests, a minute of fuzzing, a few points of the papers'
    /// experiments, WebAssembly, documentation, the site, comparisons with other programs, the Python package, guest kernels, and a
    /// new policy. The
    /// last line is `N passed, N failed, N skipped`.
    Test,
    /// Check the crates that the changes on this branch affect: formatting, lints, tidiness and tests.
    Check(check::Check),
    /// Search for inputs that break a law of a policy or a promise of the daemon, in a release build.
    Fuzz(fuzz::Fuzz),
    /// Measure the speed of Tactus, and the speed of a bare event loop in the same run.
    Bench(chores::Bench),
    /// Compare the golden outputs, or update them.
    Golden(chores::Golden),
    /// Run the experiments of all papers in a release build, record their measurements, and draw the figures.
    Lab(lab::Lab),
    /// Make the artifact of the papers: a table of the costs of each claim, or a root file system in which one command
    /// regenerates all results.
    Artifact(artifact::Artifact),
    /// Create a new policy: a file from a working template, and two lines in the registry.
    NewPolicy {
        /// Name of the policy in kebab case, such as `lottery` or `stride-two`.
        name: String,
    },
    /// Run tests that are too risky for this machine in a guest kernel, in QEMU.
    VmTest(guest::VmTest),
    /// Build the Python package for x86-64 and ARM64 in target/wheels, and check that it imports and runs.
    Wheel,
    /// Make the Debian package of the service in target/debian: the program, its units, man pages and completions.
    Deb(deb::Deb),
    /// Build the files of the page of the service in crates/page/assets, with the simulator for its preview.
    Page(page::Page),
    /// Build the simulator for WebAssembly, and compare its results with those of the native program.
    Wasm,
    /// Build the site in target/site: the documentation as a book, and the playground. The site works from the folder.
    Site(site::Site),
    /// Make the virtual machine of the live experiments with guests (`tactus lab run D9 --live`), in
    /// target/guest/fork-join.
    GuestImage,
}

fn main() -> ExitCode {
    let done = match Chore::parse() {
        Chore::Test => test::run(),
        Chore::Check(check) => check::run(&check),
        Chore::Fuzz(fuzz) => fuzz::run(&fuzz),
        Chore::Bench(bench) => chores::bench(&bench),
        Chore::Golden(golden) => chores::golden(&golden),
        Chore::Lab(lab) => lab::lab(&lab),
        Chore::Artifact(artifact) => artifact::run(&artifact),
        Chore::NewPolicy { name } => new_policy::run(&name),
        Chore::GuestImage => guest::image::run(),
        Chore::Page(page) => page::run(&page),
        Chore::Wasm => step::run_all(&[step::Step::new("the simulator in WebAssembly", wasm::check)]),
        Chore::Site(site) => site::run(&site),
        Chore::Wheel => wheel::run(),
        Chore::Deb(deb) => deb::run(&deb),
        Chore::VmTest(vm_test) => guest::run(&vm_test),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
