//! Options that commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use depguard_core::ControlPlane;
use depguard_core::model::Namespace;
use depguard_kcp::cli::ControlPlaneArg;

/// Options that every command has.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Namespace to read [default: the namespace of the kubeconfig's context]
    #[arg(short, long, global = true, value_name = "NAMESPACE", help_heading = "Global options")]
    pub(crate) namespace: Option<Namespace>,

    /// Read all namespaces
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace", help_heading = "Global options")]
    pub(crate) all_namespaces: bool,

    /// Kubeconfig file [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub(crate) context: Option<String>,

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
    /// Returns the control plane that the user named, if any.
    pub(crate) fn control_plane(&self) -> Option<ControlPlane> {
        self.control_plane.map(ControlPlane::from)
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
