//! The operator's page: its commands with their outputs, and its files.
//!
//! In a block `console`, a line that begins with `$` is a command, `\` continues it, and the lines up to the next command
//! are its output. A service in the foreground runs until the end of its block. In a block `toml` or `ini`, the first line is a comment with the path of the file. A block `text` is an example.

use crate::host;
use anyhow::{Context, Result, bail, ensure};
use sched::Nanos;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use sys::clock;

/// Commands that the page describes for another machine or time, and that the host cannot execute.
const ELSEWHERE: [&str; 1] = ["cargo xtask deb"];
/// A service that is started by hand. The units of the package must not run beside it.
const BY_HAND: &str = "sudo tactus serve";
/// Commands that serve clients until they are interrupted.
const SERVICES: [&str; 3] = [BY_HAND, "tactus page", "tactus sim"];
/// Exit code of a command that was interrupted. `tactus serve` ends in order instead, with the exit code 0.
const INTERRUPTED: i32 = 130;
/// Commands that only read. They are repeated until their output is that of the page, at most for this time.
const READS: [&str; 2] = ["tactus list", "tactus show"];
const PATIENCE: Nanos = Nanos::s(15);

/// A part of the page.
#[derive(PartialEq, Eq, Debug)]
enum Part {
    Block(Vec<Typed>),
    File { path: String, text: String },
}

/// A command of the page.
#[derive(PartialEq, Eq, Debug)]
struct Typed {
    line: usize,
    command: String,
    output: Vec<String>,
}

/// Executes the page.
///
/// # Errors
/// A command failed, or its output differs from that of the page.
pub(crate) fn execute(text: &str) -> Result<()> {
    let parts = parse(text)?;
    ensure!(parts.len() > 10, "the page has only {} commands and files", parts.len());
    for part in parts {
        match part {
            Part::File { path, text } => {
                println!("operate.md: {path}");
                fs::create_dir_all(Path::new(&path).parent().context("a file is in a directory")?)?;
                fs::write(&path, text)?;
            }
            Part::Block(commands) => block(&commands)?,
        }
    }
    Ok(())
}

/// Executes the commands of a block, and ends the services that they started.
fn block(commands: &[Typed]) -> Result<()> {
    let mut services = Vec::new();
    for Typed { line, command, output } in commands {
        println!("operate.md:{line}: {command}");
        let begin = clock::now();
        let done = if SERVICES.iter().any(|service| command.starts_with(service)) {
            Service::start(command, output).map(|service| services.push(service))
        } else {
            perform(command, output)
        };
        done.with_context(|| format!("operate.md:{line}: `{command}`"))?;
        println!("    {}", clock::now().since(begin));
    }
    services.into_iter().try_for_each(Service::end)
}

fn perform(command: &str, output: &[String]) -> Result<()> {
    if ELSEWHERE.contains(&command) {
        return Ok(());
    }
    let begin = clock::now();
    loop {
        let said = host::run(command);
        let lacks = match &said {
            Ok(said) => {
                missing(output, said).map(|line| format!("the output lacks the line\n{line}\nof the page:\n{said}"))
            }
            Err(error) => Some(format!("{error:#}")),
        };
        let Some(lacks) = lacks else { return Ok(()) };
        let is_read = READS.iter().any(|read| command.starts_with(read));
        if !is_read || clock::now().since(begin) > PATIENCE {
            bail!("{lacks}");
        }
        clock::sleep(Nanos::ms(200));
    }
}

/// A service in the foreground.
struct Service {
    command: String,
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Service {
    /// Starts a service, and waits until it has printed `output`.
    fn start(command: &str, output: &[String]) -> Result<Service> {
        if command == BY_HAND {
            host::run("systemctl stop tactus.socket tactus.service tactus-core.service")?;
        }
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("exec {command} 2>&1")]).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut process = bash.spawn()?;
        let mut lines = BufReader::new(process.stdout.take().context("it is piped")?).lines();
        let mut said = String::new();
        while missing(output, &said).is_some() {
            let line = lines.next().with_context(|| format!("it ended with the output\n{said}"))??;
            said += &(line + "\n");
        }
        Ok(Service { command: command.to_string(), process, lines })
    }

    /// Interrupts the service.
    fn end(mut self) -> Result<()> {
        // sudo passes the signal on.
        host::run(&format!("kill -INT {}", self.process.id()))?;
        // The service prints its end.
        self.lines.for_each(drop);
        let status = self.process.wait()?;
        ensure!(matches!(status.code(), Some(0 | INTERRUPTED)), "`{}` ended with {status}", self.command);
        if self.command == BY_HAND {
            host::run("systemctl start tactus.socket tactus.service")?;
        }
        Ok(())
    }
}

/// Returns the first line of the page that `said` lacks. Pids, counts, percentages and addresses of pages may differ.
fn missing<'p>(page: &'p [String], said: &str) -> Option<&'p String> {
    let mut said = said.lines().map(shape);
    page.iter().find(|line| !said.any(|found| found == shape(line)))
}

/// Returns the words of a line, with `#` for each number, each percentage and each address of a page. `2ms` and `vm1` are
/// no numbers.
fn shape(line: &str) -> Vec<String> {
    let is_page = |word: &str| word.starts_with("http://127.0.0.1:") && word.contains("/?token=");
    let is_number = |word: &str| word.trim_end_matches('%').parse::<f64>().is_ok() || is_page(word);
    line.split_whitespace().map(|word| if is_number(word) { "#" } else { word }.to_string()).collect()
}

fn parse(text: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut lines = text.lines().enumerate().map(|(nth, line)| (nth + 1, line));
    while let Some((nth, line)) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, line)| !line.starts_with("```")).collect();
        match language {
            "console" => parts.push(Part::Block(commands(&block)?)),
            "toml" | "ini" => {
                let path = block.first().and_then(|(_, first)| first.strip_prefix("# /"));
                let path =
                    path.with_context(|| format!("operate.md:{nth}: the first line is no comment with a path"))?;
                let text = block.iter().map(|(_, line)| format!("{line}\n")).collect();
                parts.push(Part::File { path: format!("/{path}"), text });
            }
            // An example of an output.
            "text" => {}
            other => bail!("operate.md:{nth}: a block in `{other}` cannot be executed"),
        }
    }
    Ok(parts)
}

fn commands(block: &[(usize, &str)]) -> Result<Vec<Typed>> {
    let mut commands: Vec<Typed> = Vec::new();
    let mut is_continued = false;
    for &(line, text) in block {
        let (part, continues) = match text.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (text, false),
        };
        match (commands.last_mut(), part.strip_prefix("$ ")) {
            (Some(before), _) if is_continued => before.command += part.trim_start(),
            (_, Some(command)) => commands.push(Typed { line, command: command.to_string(), output: Vec::new() }),
            (Some(before), None) => before.output.push(text.to_string()),
            _ => bail!("operate.md:{line}: the block begins without a command"),
        }
        is_continued = continues;
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_commands_with_their_outputs_and_files_with_their_paths() {
        let page =
            "text\n```console\n$ one \\\n    --more\nsays 12 3\n$ two\n```\n```toml\n# /etc/x.toml\na = 1\n```\n";
        let command = |line, command: &str, output: &[&str]| Typed {
            line,
            command: command.to_string(),
            output: output.iter().map(ToString::to_string).collect(),
        };
        let file = Part::File { path: "/etc/x.toml".to_string(), text: "# /etc/x.toml\na = 1\n".to_string() };
        assert_eq!(
            parse(page).unwrap(),
            [Part::Block(vec![command(3, "one --more", &["says 12 3"]), command(6, "two", &[])]), file]
        );
        assert!(parse("```toml\na = 1\n```\n").unwrap_err().to_string().contains("operate.md:1"));
    }

    #[test]
    fn lines_of_the_page_may_differ_in_counts_and_not_in_names_and_times() {
        let page = ["vm1  kept  2ms in 10ms   2133   840   0   100.0%".to_string()];
        assert_eq!(missing(&page, "name\nvm1 kept 2ms in 10ms 4 17 3 98.2%\n"), None);
        assert_eq!(missing(&page, "vm1 refused 2ms in 10ms 4 17 3 98.2%\n"), Some(&page[0]));
        assert_eq!(missing(&page, "vm2 kept 2ms in 10ms 4 17 3 98.2%\n"), Some(&page[0]));
        assert_eq!(missing(&page, "vm1 kept 3ms in 10ms 4 17 3 98.2%\n"), Some(&page[0]));
        assert_eq!(missing(&page, ""), Some(&page[0]));
        let page = ["http://127.0.0.1:40123/?token=5f2c…".to_string()];
        assert_eq!(missing(&page, "http://127.0.0.1:33517/?token=00\n"), None);
        assert_eq!(missing(&page, "http://192.0.2.1:33517/?token=00\n"), Some(&page[0]));
    }
}
