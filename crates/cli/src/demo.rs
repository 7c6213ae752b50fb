//! `tactus demo`: three kinds of work on this machine, first under the kernel's scheduler, then under promises.

mod drawing;
mod guest;
mod live;
mod outcome;
mod simulated;
mod switches;
mod vms;

use crate::args::Demo;
use crate::failure::Failure;
use crate::output;
use crate::raising::Raising;
use crate::run::terms::on_this_host;
use daemon::Explanation;

pub(crate) fn run(args: &Demo) -> Result<(), Failure> {
    if args.page {
        return simulated::page();
    }
    if args.simulated {
        return simulated::run(args, &Explanation::new("as requested", ""));
    }
    match on_this_host(Raising::Auto).and_then(|_| live::is_possible()) {
        Ok(()) => live::run(args),
        // A simulation has no VMs of QEMU.
        Err(refused) if args.vm => Err(refused),
        Err(Failure::Usage(report)) => {
            let why =
                Explanation::new(report.to_string(), report.help().map(|help| help.to_string()).unwrap_or_default());
            output::complain(&format!("{}\n{}", why.reason, why.remedy));
            simulated::run(args, &why)
        }
        Err(other) => Err(other),
    }
}
