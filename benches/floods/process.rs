//! Stock program in a process and a cgroup of its own.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};

use clap::{Parser, Subcommand};
use depguard_kcp::cli::asked_to_stop;
use depguard_webhook::Webhook;

use crate::Result;
use crate::cgroup::Cgroup;
use crate::usage::Usage;

/// Memory limit of the chart, in bytes.
pub(crate) const LIMIT: u64 = 256 << 20;

/// Role in which this program starts itself.
#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// Run a stock program in its own process.
    #[command(hide = true)]
    Role {
        program: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<String>,
    },
}

/// Process that ends with its owner, and then its cgroup.
pub(crate) struct Process {
    child: Child,
    _cgroup: Option<Cgroup>,
}

impl Process {
    /// Starts a program with these flags, which logs to a file, within this limit of memory in bytes.
    pub(crate) fn start(program: &str, flags: &[String], log: &Path, limit: u64) -> Result<Self> {
        let cgroup = match Cgroup::make(program, limit) {
            Ok(cgroup) => Some(cgroup),
            Err(why) => {
                println!("{why}: the {program} runs without a limit, and its peak is measured");
                None
            }
        };
        let entrance = cgroup.as_ref().map_or("/dev/null".into(), Cgroup::entrance);
        let child = Command::new("sh")
            .args(["-c", r#"echo $$ >"$0" && exec "$@""#])
            .arg(entrance)
            .arg(std::env::current_exe()?)
            .args(["role", program, "--"])
            .args(flags)
            .env_remove("RUST_LOG")
            // As the chart does.
            .env("MIMALLOC_PURGE_DELAY", "0")
            .stderr(File::create(log)?)
            .spawn()?;
        Ok(Self { child, _cgroup: cgroup })
    }

    /// Returns an error if the process has ended.
    pub(crate) fn lives(&mut self) -> Result {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("the process ended: {status}").into()),
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::from_pid(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a stock program as its own binary does.
pub(crate) async fn play(program: &str, flags: &[String]) -> Result {
    let named = std::iter::once(program).chain(flags.iter().map(String::as_str));
    if program == "controller" {
        return Ok(depguard_controller::cli::Cli::parse_from(named).run().await.map_err(|why| why.to_string())?);
    }
    let cli = depguard_webhook::cli::Cli::parse_from(named);
    cli.log();
    let webhook = Webhook::start(cli.into_config()).await?;
    asked_to_stop().await;
    webhook.stop().await;
    Ok(())
}
