//! `tactus-scx`: runs a policy of Tactus as the scheduler of this kernel.

mod options;
mod replaying;
#[cfg(feature = "bpf")]
mod server;
#[cfg(feature = "bpf")]
mod session;

use clap::Parser;
use options::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(file) = &options.replay {
        return replaying::run(file, options.json);
    }
    #[cfg(feature = "bpf")]
    return if options.serve { server::run() } else { session::run(&options) };
    #[cfg(not(feature = "bpf"))]
    {
        let _ = options;
        eprintln!(
            "error: this build has no programs in BPF\n  help: build it with `cargo build --release -p scx --features bpf`, with clang 17 or later and libelf-dev"
        );
        ExitCode::from(3)
    }
}
