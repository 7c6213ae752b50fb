//! [`Settings`]: the parameters of the service, from the command line and the configuration file.

use crate::failure::Failure;
use crate::service_args::{QUOTA_MAX, Serve};
use input::form;
use input::problem::{Findings, Problem, Problems, Wrong};
use input::source::{Source, Span};
use input::syntax;
use input::table::Table;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use sys::privileges;
use toml::de::DeValue;

/// The configuration file of a service of root, if the file exists.
const USUAL: &str = "/etc/tactus/config.toml";
/// Keys of the file: the long options of `tactus serve`.
const KEYS: &[&str] = &[
    "certs",
    "core",
    "directory",
    "labels",
    "libvirt",
    "listen",
    "observe",
    "sched-ext",
    "socket",
    "state",
    "user-quota",
];

/// The parameters of the service. `None`: the default.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Settings {
    pub(super) certs: Option<PathBuf>,
    pub(super) core: Option<PathBuf>,
    pub(super) directory: Option<PathBuf>,
    pub(super) labels: Option<PathBuf>,
    pub(super) libvirt: Option<PathBuf>,
    pub(super) listen: Option<SocketAddr>,
    /// Whether the service only observes. There is no core then.
    pub(super) observe: bool,
    /// Whether a scheduler in the kernel dispatches the promises of a core of its own.
    pub(super) sched_ext: bool,
    pub(super) socket: Option<PathBuf>,
    pub(super) state: Option<PathBuf>,
    pub(super) user_quota: Option<u32>,
}

impl Settings {
    /// Returns the parameters of the command line, and for all others those of the configuration file.
    ///
    /// # Errors
    /// The errors in the file, each with its line and its remedy.
    pub(super) fn of(args: &Serve) -> Result<Settings, Failure> {
        let usual = || Some(PathBuf::from(USUAL)).filter(|path| privileges::user() == 0 && path.exists());
        let file = match args.config.clone().or_else(usual) {
            Some(path) => {
                let source = input::text::decode(&path.to_string_lossy(), lab::disk::read(&path)?)?;
                Settings::read(&source)?
            }
            None => Settings::default(),
        };
        Ok(file.overridden_by(args))
    }

    /// Reads the text of a configuration file.
    fn read(source: &Source) -> Result<Settings, Problems> {
        let mut findings = Findings::new(source);
        let document = syntax::parse(source.text()).map_err(|problem| problem.within(source))?;
        let top = Table::new(&document, Span::default(), ("the configuration", KEYS), &mut findings);
        let mut path = |key: &str| top.read(key, |value| absolute(key, value), &mut findings).right();
        let (core, directory, socket, state) = (path("core"), path("directory"), path("socket"), path("state"));
        let (certs, labels, libvirt) = (path("certs"), path("labels"), path("libvirt"));
        if let (Some(core), Some(directory)) = (&core, &directory) {
            let (first, second) = (core.at, directory.at);
            let problem = Problem::new("`core` and `directory` exclude each other: `directory` is for a started core");
            findings.add(problem.at(second, "directory").at(first, "core").help("remove one of them"));
        }
        let listen = top.read("listen", address, &mut findings).value();
        let mut switch =
            |key: &str| top.read(key, |value| form::switch(key, value), &mut findings).value().unwrap_or(false);
        let (observe, sched_ext) = (switch("observe"), switch("sched-ext"));
        let quota = |value: &DeValue<'_>| form::integer_in("user-quota", value, 0..=QUOTA_MAX, ", in percent of a CPU");
        let user_quota = top.read("user-quota", quota, &mut findings).value();
        findings.finish()?;
        let paths = [certs, core, directory, labels, libvirt, socket, state].map(|it| it.map(|it| it.value));
        let [certs, core, directory, labels, libvirt, socket, state] = paths;
        Ok(Settings { certs, core, directory, labels, libvirt, listen, observe, sched_ext, socket, state, user_quota })
    }

    /// Returns these parameters, with those of the command line in their place.
    fn overridden_by(self, args: &Serve) -> Settings {
        let observe = args.observe || self.observe;
        Settings {
            certs: args.certs.clone().or(self.certs),
            // The two exclude each other, so each also replaces the other.
            core: args.core.clone().or(self.core.filter(|_| args.directory.is_none())).filter(|_| !observe),
            directory: args.directory.clone().or(self.directory.filter(|_| args.core.is_none())),
            labels: args.labels.clone().or(self.labels),
            libvirt: args.libvirt.clone().or(self.libvirt),
            listen: args.listen.or(self.listen),
            observe,
            sched_ext: args.sched_ext || self.sched_ext,
            socket: args.socket.clone().or(self.socket),
            state: args.state.clone().or(self.state),
            user_quota: args.user_quota.or(self.user_quota),
        }
    }
}

/// Reads an absolute path. A relative path would depend on the directory in which the service starts.
fn absolute(key: &str, value: &DeValue<'_>) -> Result<PathBuf, Wrong> {
    const RIGHT: &str = "an absolute path in quotes, such as \"/run/tactus.sock\"";
    let path = Path::new(form::text(key, value, RIGHT)?);
    match path.is_absolute() {
        true => Ok(path.to_path_buf()),
        false => Err(Wrong::new(format!("`{key}` is no absolute path"), "relative", format!("use {RIGHT}"))),
    }
}

/// Reads an IP address with a port.
fn address(value: &DeValue<'_>) -> Result<SocketAddr, Wrong> {
    const RIGHT: &str = "an IP address with a port in quotes, such as \"192.0.2.1:7430\"";
    let text = form::text("listen", value, RIGHT)?;
    text.parse().map_err(|_| Wrong::new("`listen` is no address", "no address", format!("use {RIGHT}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn read(text: &str) -> Result<Settings, String> {
        Settings::read(&Source::new("config.toml", text)).map_err(|problems| problems.to_string())
    }

    #[test]
    fn every_option_of_the_service_is_a_key() {
        use clap::CommandFactory;
        let command = crate::args::Cli::command();
        let serve = command.get_subcommands().find(|it| it.get_name() == "serve").unwrap();
        let mut options: Vec<&str> = serve.get_arguments().filter_map(clap::Arg::get_long).collect();
        options.retain(|option| !["config", "help"].contains(option));
        options.sort_unstable();
        assert_eq!(options, KEYS);
    }

    #[test]
    fn the_command_line_replaces_single_values_of_the_file() {
        let file = "core = \"/run/core.sock\"\nsocket = \"/run/a.sock\"\nstate = \"/a\"\nuser-quota = 20\n\
            listen = \"192.0.2.1:7430\"\n";
        let settings = |line: &[&str]| {
            let cli = crate::args::Cli::parse_from([&["tactus", "serve"], line].concat());
            let Some(crate::args::Command::Serve(args)) = cli.command else { panic!("it is `serve`") };
            read(file).unwrap().overridden_by(&args)
        };
        let some = |path: &str| Some(PathBuf::from(path));
        let all = Settings {
            certs: None,
            listen: Some("192.0.2.1:7430".parse().unwrap()),
            core: some("/run/core.sock"),
            directory: None,
            labels: None,
            libvirt: None,
            observe: false,
            sched_ext: false,
            socket: some("/run/a.sock"),
            state: some("/a"),
            user_quota: Some(20),
        };
        assert_eq!(settings(&[]), all);
        let other = settings(&["--state", "b", "--user-quota", "0"]);
        assert_eq!(other, Settings { state: some("b"), user_quota: Some(0), ..all });
        let own = settings(&["--directory", "live"]);
        assert_eq!((own.core, own.directory), (None, some("live")));
        let observing = settings(&["--observe"]);
        assert_eq!((observing.core, observing.observe), (None, true));
    }

    #[test]
    fn unknown_keys_and_wrong_values_are_refused_with_place_reason_and_remedy() {
        for (text, said) in [
            (
                "# quota\nuser-qouta = 20\n",
                "config.toml:2:1: the configuration has no key `user-qouta`; did you mean `user-quota`?",
            ),
            (
                "user-quota = 102_401\n",
                "config.toml:1:14: `user-quota` is out of range; use a whole number from 0 to 102400, in percent",
            ),
            ("user-quota = \"20\"\n", "config.toml:1:14: `user-quota` is a text; use a whole number"),
            ("state = \"tactus\"\n", "config.toml:1:9: `state` is no absolute path; use an absolute path in quotes"),
            ("listen = \"7430\"\n", "config.toml:1:10: `listen` is no address; use an IP address with a port"),
            ("socket = 5\n", "config.toml:1:10: `socket` is a whole number; use an absolute path"),
            ("core = \"/a\"\ndirectory = \"/b\"\n", "config.toml:2:13: `core` and `directory` exclude each other"),
            ("state = /var/lib/tactus\n", "config.toml:1:9: this is no value; use a text in quotes"),
            ("state = \"/a\"\nstate = \"/b\"\n", "config.toml:2:1: this key occurs twice"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.starts_with(said), "{text}: {found}");
        }
        assert_eq!(read("# nothing\n"), Ok(Settings::default()));
        let both = read("sokcet = \"/a\"\nuser-quota = -1\n").unwrap_err();
        assert_eq!(both.lines().count(), 2, "{both}");
    }
}
