//! `tactus`, the command.

mod args;
mod certs;
mod certs_args;
mod claims;
mod compare;
mod core_args;
mod core_process;
mod costs;
mod demo;
mod doctor;
mod experiments;
mod failure;
mod ftrace;
mod guest;
mod guest_args;
mod lab_args;
mod live_load;
mod man_pages;
mod measurement;
mod output;
mod picture;
mod pictures;
mod policies_list;
mod process;
mod progress;
mod raising;
mod record;
mod recording;
mod release;
mod run;
mod scx;
mod seeds;
mod service;
mod service_args;
mod serving_args;
mod sim;
mod sweep;
mod terminal;
mod user_id;
mod why;
mod window;
mod world;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let text = error.render().to_string();
            if terminal::safe(&text, false) == text {
                // Prints in colours on a terminal.
                error.exit();
            }
            output::complain(&text);
            return ExitCode::from(2);
        }
    };
    if let Some(Command::Guardian { directory, mount }) = &cli.command {
        // The guardian must survive SIGINT and SIGTERM, so it runs before the handler for these signals is installed.
        let end = daemon::guardian::run(directory, *mount);
        output::complain(&end.report);
        let code = if end.is_settled { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        end.remove_groups();
        return code;
    }
    if let Some(Command::LoanGuardian(args)) = &cli.command {
        // It survives the signals, too.
        return match daemon::boosts::guard(args.priority, &args.booster, &args.donors) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                output::complain(&format!("tactus loan-guardian: {error}"));
                ExitCode::FAILURE
            }
        };
    }
    if let Some(Command::Core(args)) = &cli.command {
        return core_process::run(args);
    }
    match run(cli) {
        Ok(code) => code,
        Err(Failure::Input(problems)) => {
            output::complain(&format!("{:?}", problems.report()));
            ExitCode::from(2)
        }
        Err(Failure::Usage(report)) => {
            output::complain(&format!("{report:?}"));
            ExitCode::from(2)
        }
        Err(Failure::Failed(error)) => {
            output::complain(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
        Err(Failure::Interrupted) => ExitCode::from(130),
    }
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    // A worker or launcher of a live run has nothing to clean up, so no handler is installed.
    if !matches!(cli.command, Some(Command::Work(_) | Command::Launch(_) | Command::ReadCd(_) | Command::LiveLoad(_))) {
        output::clean_up_when_interrupted()?;
    }
    match cli.command {
        None => output::print(&Cli::command().render_help().to_string())?,
        Some(Command::Sim(args)) => sim::run(&args)?,
        Some(Command::Run(args)) => return run::run(&args),
        Some(Command::Compare(args)) => compare::run(&args)?,
        Some(Command::Policies(args)) => policies_list::run(&args)?,
        Some(Command::Costs(args)) => costs::run(&args)?,
        Some(Command::Lab(args)) => return experiments::run(&args),
        Some(Command::Demo(args)) => demo::run(&args)?,
        Some(Command::Doctor(args)) => doctor::run(&args)?,
        Some(Command::Scx(args)) => return Err(scx::run(&args)),
        Some(Command::Serve(args)) => service::serve(&args)?,
        Some(Command::List(args)) => service::list(&args)?,
        Some(Command::Show(args)) => service::show(&args)?,
        Some(Command::Observe(args)) => service::observe(&args)?,
        Some(Command::Set(args)) => service::set(&args)?,
        Some(Command::Unset(args)) => service::unset(&args)?,
        Some(Command::Pause(args)) => service::pause(&args)?,
        Some(Command::Resume(args)) => service::resume(&args)?,
        Some(Command::Events(args)) => service::events(&args)?,
        Some(Command::Schedinfo(args)) => service::schedinfo(&args)?,
        Some(Command::Top(args)) => service::top(&args)?,
        Some(Command::Page(args)) => service::page(&args)?,
        Some(Command::Certs(args)) => certs::run(&args)?,
        Some(Command::Guest(args)) => return guest::run(&args),
        Some(Command::Why(args)) => return why::run(&args),
        Some(Command::Release(args)) => release::run(&args)?,
        Some(Command::Guardian { .. } | Command::LoanGuardian(_) | Command::Core(_)) => {
            unreachable!("it was run before anything was arranged")
        }
        Some(Command::Work(args)) => process::work(&args)?,
        Some(Command::Launch(args)) => process::launch(&args)?,
        Some(Command::ReadCd(args)) => process::read_cd(&args)?,
        Some(Command::LiveLoad(args)) => live_load::run(&args)?,
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "tactus", &mut script);
            output::print(&String::from_utf8_lossy(&script))?;
        }
        Some(Command::ManPages { directory }) => man_pages::write(&directory)?,
    }
    Ok(ExitCode::SUCCESS)
}
