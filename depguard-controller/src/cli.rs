//! The command line of the stock binary.

use std::path::PathBuf;
use std::{fs, io};

use clap::{Args, Parser, Subcommand, ValueEnum};
use depguard_core::Home;

use crate::manifests;

/// Resolves DependencyRules, installs webhook configurations, reports status.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// What to do, if not to run.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the objects that an API server needs before depguard can run on it.
    Manifests(Manifests),
}

#[derive(Debug, Args)]
struct Manifests {
    /// Where depguard runs.
    #[arg(long, value_enum, default_value_t)]
    home: HomeArg,
    /// The workspace of depguard's APIExport, to which providers' APIBindings refer.
    #[arg(long, value_name = "PATH", default_value = manifests::DEP_CTRL_PATH)]
    dep_ctrl_path: String,
    /// Write a file each into this folder, instead of printing.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// `--home`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum HomeArg {
    /// A kcp.
    #[default]
    Kcp,
    /// A plain Kubernetes cluster.
    Kubernetes,
}

impl Cli {
    /// Does what the command line says.
    pub async fn run(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        match self.command {
            Some(Command::Manifests(arguments)) => arguments.run(),
            None => Ok(()),
        }
    }
}

impl Manifests {
    fn run(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let files = manifests::files(self.home.into(), &self.dep_ctrl_path)?;
        let Some(folder) = self.out else {
            let texts: Vec<_> = files.iter().map(|file| file.text.as_str()).collect();
            return Ok(io::Write::write_all(&mut io::stdout(), texts.join("---\n").as_bytes())?);
        };
        fs::create_dir_all(&folder)?;
        for file in files {
            fs::write(folder.join(file.name), file.text)?;
        }
        Ok(())
    }
}

impl From<HomeArg> for Home {
    fn from(home: HomeArg) -> Self {
        match home {
            HomeArg::Kcp => Self::Kcp,
            HomeArg::Kubernetes => Self::Kubernetes,
        }
    }
}
