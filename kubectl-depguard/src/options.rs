//! Options that commands share.

mod server;

use std::io::Write;
use std::sync::Mutex;

use clap::{Args, ValueEnum};
use depguard_core::ControlPlane;
use depguard_core::model::Namespace;
use depguard_kcp::cli::ControlPlaneArg;
use depguard_kcp::{ConnectOptions, RequestLog};

use self::server::{ServerArgs, Verbosity};
use crate::io::exit::Failure;

/// Options that every command has.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Namespace to read [default: the namespace of the kubeconfig's context]
    #[arg(short, long, global = true, value_name = "NAMESPACE", help_heading = "Global options")]
    pub(crate) namespace: Option<Namespace>,

    /// Read all namespaces
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace", help_heading = "Global options")]
    pub(crate) all_namespaces: bool,

    #[command(flatten)]
    server: ServerArgs,

    /// Kind of the API server; alias: --home [default: kcp if the server's URL names a workspace]
    #[arg(
        long,
        alias = "home",
        global = true,
        value_enum,
        value_name = "CONTROL_PLANE",
        help_heading = "Global options"
    )]
    control_plane: Option<ControlPlaneArg>,

    /// Use of colours; NO_COLOR turns them off, too
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t, help_heading = "Global options")]
    color: Colour,

    /// Leave the headings out of tables
    #[arg(long, global = true, help_heading = "Global options")]
    no_headers: bool,

    /// Requests to print on standard error, by kubectl's numbers: 1 those that fail, 6 all, 8 with headers
    #[arg(
        short,
        long = "v",
        global = true,
        value_name = "LEVEL",
        default_value_t,
        hide_default_value = true,
        hide_short_help = true,
        help_heading = "Global options"
    )]
    verbosity: Verbosity,

    #[arg(skip)]
    request_log: Option<RequestLog>,
}

/// The value of `--dry-run`: nothing is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Print the changes, and send none
    Client,
    /// Let the API server check the changes, and store none
    Server,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Colour {
    #[default]
    Auto,
    Always,
    Never,
}

impl Global {
    /// Prints the requests from now on to `err`, as far as the user wants to see them.
    pub(crate) fn log_requests(&mut self, err: impl Write + Send + 'static) {
        let (verbosity, err) = (self.verbosity, Mutex::new(err));
        self.request_log = verbosity.prints_any().then(|| RequestLog::new(move |sent| verbosity.print(sent, &err)));
    }

    /// Returns the options of a connection to the API server that the user named.
    pub(crate) fn connect_options(&self, control_plane: ControlPlane) -> Result<ConnectOptions, Failure> {
        self.server.connect_options(self.further_options(control_plane))
    }

    /// Returns the options of a connection to an API server of a further kubeconfig.
    pub(crate) fn further_options(&self, control_plane: ControlPlane) -> ConnectOptions {
        ConnectOptions::new(control_plane)
            .request_timeout(self.server.request_timeout())
            .request_log(self.request_log.clone())
    }

    /// Returns the name of the kubeconfig's context that the user named, if any.
    pub(crate) fn context(&self) -> Option<&str> {
        self.server.context()
    }

    /// Returns the given flags about the API server, each with its value, for a command that somebody copies. The token
    /// is left out, as it is a secret.
    pub(crate) fn server_words(&self) -> Vec<(&'static str, Option<String>)> {
        self.server.words()
    }

    /// Refuses flags about an API server, for a command that reads none. `why` says why, as a sentence.
    pub(crate) fn refuse_server_flags(&self, why: &str) -> Result<(), Failure> {
        match self.server.given().as_slice() {
            [] => Ok(()),
            given => Err(Failure::new(format!("{} would have no effect: {why}", given.join(" and ")))
                .hint("leave out the flags about an API server")),
        }
    }

    /// Returns the control plane that the user named, if any.
    pub(crate) fn control_plane(&self) -> Option<ControlPlane> {
        self.control_plane.map(ControlPlane::from)
    }

    /// Returns true if tables have headings.
    pub(crate) fn has_headings(&self) -> bool {
        !self.no_headers
    }

    /// Returns true to use colours, false to use none; `None` to follow the terminal.
    pub(crate) fn colour(&self) -> Option<bool> {
        match self.color {
            Colour::Auto => None,
            Colour::Always => Some(true),
            Colour::Never => Some(false),
        }
    }
}
