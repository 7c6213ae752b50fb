//! `tactus certs`: certificates of the service and its clients.

use crate::certs_args::{Certs, CertsCommand, CertsList, ForService, Issue, Revoke};
use crate::failure::{Failure, usage};
use crate::output;
use anyhow::anyhow;
use certs::{Authority, Error, Issued};
use report::Grid;
use serde::Serialize;
use std::path::Path;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error.remedy() {
            "" => Failure::Failed(anyhow!(error)),
            remedy => usage(error.to_string(), remedy),
        }
    }
}

pub(crate) fn run(args: &Certs) -> Result<(), Failure> {
    match &args.command {
        CertsCommand::Init(args) => init(args),
        CertsCommand::Renew(args) => {
            Authority::open(&args.at.certs)?.issue_to_service(&args.names, args.days)?;
            Ok(output::print(&format!("{} is valid for {} days\n", in_directory(args, "server.pem"), args.days))?)
        }
        CertsCommand::Issue(args) => issue(args),
        CertsCommand::Revoke(args) => revoke(args),
        CertsCommand::List(args) => list(args),
    }
}

fn in_directory(args: &ForService, file: &str) -> String {
    args.at.certs.join(file).display().to_string()
}

fn init(args: &ForService) -> Result<(), Failure> {
    Authority::init(&args.at.certs, &args.names, args.days)?;
    let text = format!(
        "an authority, and a certificate for {}, valid for {} days, are in {}\n\
         keep {} secret; the service does not need it\n",
        args.names.join(", "),
        args.days,
        args.at.certs.display(),
        in_directory(args, "authority.key"),
    );
    Ok(output::print(&text)?)
}

fn issue(args: &Issue) -> Result<(), Failure> {
    let to = args.out.as_deref().unwrap_or(Path::new(&args.name));
    let (issued, password) = Authority::open(&args.at.certs)?.issue(&args.name, args.role, args.days, to)?;
    let (name, role, until) = (&issued.holder.name, issued.holder.role, issued.until);
    let text = format!(
        "a certificate for {name} with the role {role}, valid until {until}, is in {}\n\
         copy this directory to the client, and use it with --certs\n\
         browsers import client.p12, with the password {password}\n",
        to.display()
    );
    Ok(output::print(&text)?)
}

fn revoke(args: &Revoke) -> Result<(), Failure> {
    let count = Authority::open(&args.at.certs)?.revoke(&args.name)?;
    let text = match count {
        0 => format!("all certificates of {} were revoked before\n", args.name),
        1 => format!("a certificate of {} is revoked\n", args.name),
        _ => format!("{count} certificates of {} are revoked\n", args.name),
    };
    Ok(output::print(&text)?)
}

/// A certificate in JSON.
#[derive(Serialize)]
struct Line<'i> {
    name: &'i str,
    role: &'static str,
    serial: String,
    until: String,
    state: &'static str,
}

fn list(args: &CertsList) -> Result<(), Failure> {
    let all = Authority::open(&args.at.certs)?.issued()?;
    let lines: Vec<Line<'_>> = all.iter().map(line).collect();
    if args.json {
        return Ok(output::print(&output::json(&lines)?)?);
    }
    let mut grid = Grid::new(["name", "role", "state", "until"].map(str::to_string).to_vec(), 4);
    for Line { name, role, until, state, .. } in lines {
        grid.add([name, role, state, &until].map(str::to_string).to_vec());
    }
    Ok(output::print(&grid.to_string())?)
}

fn line(issued: &Issued) -> Line<'_> {
    let state = match issued {
        _ if issued.is_revoked => "revoked",
        _ if issued.is_valid() => "valid",
        _ => "expired",
    };
    Line {
        name: &issued.holder.name,
        role: issued.holder.role.word(),
        serial: issued.serial.iter().map(|byte| format!("{byte:02x}")).collect(),
        until: issued.until.to_string(),
        state,
    }
}
