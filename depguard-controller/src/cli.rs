//! Command line of the stock binary.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use clap::{Args, Parser, Subcommand};
use depguard_core::model::Namespace;
use depguard_core::{ControlPlane, LogicalCluster};
use depguard_kcp::PathPeriod;
use depguard_kcp::cli::{AllowanceArgs, Common, ControlPlaneArg, FeatureArgs, asked_to_stop};

use crate::config::{Config, INTERLOCK_WAIT};
use crate::controller::Controller;
use crate::manifests::{self, Identity, ReadThrough, Setup};
use crate::model::names::LEASE;
use crate::model::vital_kind::VitalKind;
use crate::model::webhook_target::{WebhookTarget, WebhookTargetError};
use crate::uninstall::removal::{Uninstall, uninstall};

/// Controller of depguard: installs webhook configurations for DependencyRules and reports their status
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the objects that an API server needs before depguard can run on it
    Manifests(Manifests),
    /// Remove every webhook configuration that depguard installed, and wait until all are gone
    Uninstall(Box<Removal>),
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    common: Common,

    /// URL at which API servers reach the webhook: https://host:9443/validate
    #[arg(long, value_name = "URL", default_value = "")]
    webhook_url: String,

    /// Service at which API servers reach the webhook, instead of a URL; plain Kubernetes only
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]")]
    webhook_service: Option<String>,

    /// PEM file with the CA certificates by which API servers verify the webhook; a changed file is loaded within
    /// seconds [default: the API servers' own roots]
    #[arg(long, value_name = "FILE")]
    webhook_ca_bundle_path: Option<PathBuf>,

    /// HOST:PORT at which the controller asks the webhook for its loaded rules; the host name and the CA certificates
    /// stay those of the installed configuration [default: the address that API servers call]
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    webhook_probe_address: Option<String>,

    /// Folder with tls.crt and tls.key: the controller's client certificate for a webhook with --client-ca
    #[arg(long, value_name = "DIR")]
    webhook_client_cert_dir: Option<PathBuf>,

    /// Let only one of several controllers write at a time
    #[arg(long)]
    leader_elect: bool,

    /// Namespace of depguard itself, in which nothing is protected; plain Kubernetes only [default: the namespace of
    /// --webhook-service, else depguard-system]
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE")]
    namespace: Option<Namespace>,

    #[command(flatten)]
    lease: LeaseArgs,

    /// File with the secret that signs the URLs that the controller installs, the same as the webhook's; the first of
    /// several lines signs; a changed file is loaded within seconds
    #[arg(long, value_name = "FILE")]
    path_key_file: Option<PathBuf>,

    /// Way in which the webhook reads dependents, the same as the webhook's own flag; kcp only
    #[arg(long, value_enum, default_value_t, value_name = "WAY")]
    read_through: ReadThrough,

    #[command(flatten)]
    allowance: AllowanceArgs,

    #[command(flatten)]
    features: FeatureArgs,

    /// Time for which marks in reference registers are kept, in seconds: longer than --request-timeout of each API server
    /// (60 s unless it is set) and 30 s more
    #[arg(long, value_name = "SECONDS", default_value_t = INTERLOCK_WAIT.as_secs(), value_parser = clap::value_parser!(u64).range(35..=3600))]
    interlock_wait: u64,

    /// Take an --interlock-wait below 90 s: only if --request-timeout of each API server is at least 30 s shorter than
    /// the wait; else references may dangle
    #[arg(long)]
    allow_short_interlock_wait: bool,

    /// Kinds that locks may name although a cluster's own controllers need them (comma-separated): of events,
    /// endpoints, endpointslices.discovery.k8s.io, bindings, serviceaccounts/token, and any kind's status or binding, as
    /// in pods/status
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    vital_lock_kinds: Vec<VitalKind>,

    /// Make no ClusterRoles for groups of GlobalOwners; an administrator gives the controller these rights by
    /// ClusterRoles with the label dependencies.opendefense.cloud/aggregate-to-owners: "true"
    #[arg(long)]
    precreated_roles: bool,
}

/// Place of the controllers' Leases.
#[derive(Debug, Args)]
struct LeaseArgs {
    /// Namespace of the controllers' Leases; in kcp, a namespace of depguard's own workspace [default: depguard's own
    /// namespace, in kcp depguard-system]
    #[arg(long, value_name = "NAMESPACE")]
    leader_election_namespace: Option<Namespace>,

    /// Name of the Lease; the Lease by which an uninstall stops controllers has the suffix -uninstall
    #[arg(long, value_name = "NAME", default_value = LEASE)]
    leader_election_id: String,
}

#[derive(Debug, Args)]
struct Removal {
    #[command(flatten)]
    common: Common,

    /// Namespace of depguard itself; plain Kubernetes only [default: the namespace in the installed configuration, else
    /// depguard-system]
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE")]
    namespace: Option<Namespace>,

    #[command(flatten)]
    lease: LeaseArgs,

    /// Time limit of the uninstall, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
}

#[derive(Debug, Args)]
struct Manifests {
    /// Control plane that depguard protects; --home is the same
    #[arg(long, alias = "home", value_enum, default_value_t)]
    control_plane: ControlPlaneArg,

    /// Workspace of depguard's APIExport, to which providers' APIBindings refer
    #[arg(long, value_name = "PATH", default_value = manifests::DEP_CTRL_PATH)]
    dep_ctrl_path: String,

    /// Way in which the webhook reads dependents; kcp only
    #[arg(long, value_enum, default_value_t, value_name = "WAY")]
    read_through: ReadThrough,

    /// Logical cluster of depguard's own workspace; other workspaces know its ServiceAccounts by this id; kcp only
    #[arg(long, value_name = "ID", conflicts_with = "certificates")]
    dep_ctrl_cluster: Option<LogicalCluster>,

    /// Grant the rights to client certificates of the users depguard-controller and depguard-webhook, not to
    /// ServiceAccounts of depguard's own workspace; kcp only
    #[arg(long)]
    certificates: bool,

    #[command(flatten)]
    features: FeatureArgs,

    /// Make no ClusterRoles for groups of GlobalOwners; an administrator gives the controller these rights by
    /// ClusterRoles with the label dependencies.opendefense.cloud/aggregate-to-owners: "true"
    #[arg(long)]
    precreated_roles: bool,

    /// Print ready-made rules instead: about kinds that each kcp or each Kubernetes has, and with Kubernetes also about
    /// openMCP's kinds
    #[arg(long)]
    rules: bool,

    /// Print the strict rules of each pack: they also refuse deletions that the default rules leave to Kubernetes or to a
    /// Deployment
    #[arg(long, requires = "rules")]
    strict: bool,

    /// Folder to write the files into, instead of printing them
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Cli {
    /// Does what the command line says; runs until the process is asked to end.
    pub async fn run(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        match self.command {
            Some(Command::Manifests(arguments)) => return arguments.run(),
            Some(Command::Uninstall(arguments)) => return arguments.run().await,
            None => {}
        }
        self.run.common.log();
        let controller = Controller::start(self.run.into_config()?).await?;
        tracing::info!(probes = ?controller.probe_addr(), "started");
        asked_to_stop().await;
        tracing::info!("stopping; installed webhook configurations stay in place");
        controller.stop().await;
        Ok(())
    }
}

impl Run {
    fn into_config(self) -> Result<Config, Box<dyn Error + Send + Sync>> {
        let (interlock_wait, least) = (Duration::from_secs(self.interlock_wait), INTERLOCK_WAIT.as_secs());
        if interlock_wait < INTERLOCK_WAIT && !self.allow_short_interlock_wait {
            let why = format!(
                "--interlock-wait is below {least} s, which is too short for API servers with the default \
                 --request-timeout of 60 s: if yours is at least 30 s shorter than the wait, give \
                 --allow-short-interlock-wait, too"
            );
            return Err(why.into());
        }
        let webhook = match self.webhook_service {
            Some(_) if !self.webhook_url.is_empty() => return Err(WebhookTargetError::Both.into()),
            Some(service) => service.parse()?,
            None => WebhookTarget::Url(self.webhook_url),
        };
        let config = Config::new(self.common.control_plane.into(), self.common.api_export_name, webhook);
        let namespace = self.namespace.as_ref().map_or(config.namespace.clone(), ToString::to_string);
        Ok(Config {
            leader_elect: self.leader_elect,
            leader_election_namespace: self
                .lease
                .of(config.control_plane, Some(&namespace))
                .unwrap_or(config.leader_election_namespace),
            leader_election_id: self.lease.leader_election_id,
            memory_limit: self.allowance.memory_limit,
            allowance: self.allowance.into_allowance(),
            kubeconfig: self.common.kubeconfig,
            base_host: self.common.kcp_base_host,
            probe_addr: self.common.health_probe_bind_address.0,
            path_key: self.path_key_file,
            path_period: PathPeriod::LENGTH,
            read_through: self.read_through,
            enable: self.features.into_features(),
            interlock_wait,
            vital_lock_kinds: self.vital_lock_kinds.into_iter().collect(),
            precreated_roles: self.precreated_roles,
            namespace,
            webhook_probe_address: self.webhook_probe_address,
            webhook_client_cert_dir: self.webhook_client_cert_dir,
            metrics_addr: self.common.metrics_bind_address.0,
            ca_bundle_path: self.webhook_ca_bundle_path.filter(|path| !path.as_os_str().is_empty()),
            ..config
        })
    }
}

impl Manifests {
    fn into_setup(self) -> Setup {
        let identity = match self.certificates {
            true => Identity::Certificates,
            false => Identity::ServiceAccounts { cluster: self.dep_ctrl_cluster },
        };
        Setup {
            dep_ctrl_path: self.dep_ctrl_path,
            identity,
            enable: self.features.into_features(),
            precreated_roles: self.precreated_roles,
            ..Setup::new(self.control_plane.into(), self.read_through)
        }
    }

    fn run(mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let (out, rules, strict) = (self.out.take(), self.rules, self.strict);
        let setup = self.into_setup();
        setup.read_through.check(setup.control_plane)?;
        setup.enable.check(setup.control_plane)?;
        let files = match rules {
            true => manifests::rule_files(setup.control_plane, strict)?,
            false => manifests::files(&setup)?,
        };
        let Some(folder) = out else {
            let texts: Vec<_> = files.into_iter().map(|file| file.text).collect();
            return Ok(io::stdout().write_all(texts.join("---\n").as_bytes())?);
        };
        fs::create_dir_all(&folder)?;
        for file in files {
            fs::write(folder.join(file.name), file.text)?;
        }
        Ok(())
    }
}

impl LeaseArgs {
    /// Returns the namespace that was given, or the one that follows from depguard's own namespace.
    fn of(&self, control_plane: ControlPlane, own: Option<&str>) -> Option<String> {
        match (&self.leader_election_namespace, control_plane) {
            (Some(given), _) => Some(given.to_string()),
            (None, ControlPlane::Kcp) => None,
            (None, ControlPlane::Kubernetes) => own.map(str::to_owned),
        }
    }
}

impl Removal {
    async fn run(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.common.log();
        let done = uninstall(self.into_uninstall()).await?;
        Ok(write!(io::stdout(), "{done}")?)
    }

    fn into_uninstall(self) -> Uninstall {
        let control_plane = self.common.control_plane.into();
        Uninstall {
            kubeconfig: self.common.kubeconfig,
            base_host: self.common.kcp_base_host,
            leader_election_namespace: self.lease.of(control_plane, self.namespace.as_ref().map(Namespace::as_str)),
            leader_election_id: self.lease.leader_election_id,
            timeout: Duration::from_secs(self.timeout),
            ..Uninstall::new(control_plane, self.common.api_export_name)
        }
    }
}

fn host_and_port(text: &str) -> Result<String, String> {
    let authority = text.parse::<http::uri::Authority>().ok().filter(|authority| authority.port_u16().is_some());
    authority.map(|authority| authority.to_string()).ok_or_else(|| "write it as `host:port`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<Config, String> {
        let cli = Cli::try_parse_from([&["depguard-controller"], flags].concat()).map_err(|why| why.to_string())?;
        cli.run.into_config().map_err(|why| why.to_string())
    }

    #[test]
    fn every_flag_of_the_reference_is_taken() {
        let config = parse(&[
            "--api-export-name=deps.example.com",
            "--health-probe-bind-address=:9000",
            "--metrics-bind-address=0",
            "--kubeconfig=/etc/kubeconfig",
            "--kcp-base-host=https://kcp.example.com",
            "--webhook-url=https://webhook.example.com/validate",
            "--webhook-ca-bundle-path=/tls/ca.crt",
            "--zap-devel",
            "--zap-encoder=json",
            "--zap-log-level",
            "debug",
            "--zap-stacktrace-level=error",
            "--zap-time-encoding=iso8601",
        ])
        .unwrap();
        assert_eq!(config.control_plane, ControlPlane::Kcp);
        assert_eq!(config.export_name.as_str(), "deps.example.com");
        assert_eq!(config.probe_addr.unwrap().to_string(), "[::]:9000");
        assert_eq!(config.metrics_addr, None);
        assert_eq!(config.kubeconfig.unwrap().to_str(), Some("/etc/kubeconfig"));
        assert_eq!(config.base_host.as_deref(), Some("https://kcp.example.com"));
        assert_eq!(config.webhook, WebhookTarget::Url("https://webhook.example.com/validate".to_owned()));
        assert_eq!(config.ca_bundle_path.unwrap().to_str(), Some("/tls/ca.crt"));
    }

    #[test]
    fn without_a_webhook_it_says_what_to_give() {
        for (control_plane, flag) in
            [("kcp", "--webhook-url https"), ("kubernetes", "--webhook-service namespace/name")]
        {
            let config = parse(&[&format!("--control-plane={control_plane}")]).unwrap();
            let error = config.webhook.check(config.control_plane).unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        }
        assert!(parse(&["--webhook-service=a/b", "--webhook-url=https://c"]).unwrap_err().contains("leave one out"));
        assert!(parse(&["--control-plane=kubernetes", "--webhook-service=a/b:9443"]).is_ok());
    }

    #[test]
    fn the_webhook_may_be_asked_elsewhere() {
        let config = parse(&["--webhook-probe-address=127.0.0.1:9443", "--namespace=deps"]).unwrap();
        assert_eq!(config.webhook_probe_address.as_deref(), Some("127.0.0.1:9443"));
        assert_eq!(config.namespace, "deps");
        assert_eq!(parse(&["--control-plane=kubernetes", "--webhook-service=a/b"]).unwrap().namespace, "a");
        assert_eq!(parse(&[]).unwrap().namespace, "depguard-system");
        for bad in ["127.0.0.1", "https://host:1", "host:x", ""] {
            assert!(parse(&[&format!("--webhook-probe-address={bad}")]).unwrap_err().contains("host:port"), "{bad}");
        }
    }

    #[test]
    fn a_wait_below_the_default_needs_a_second_flag() {
        for (flags, taken) in [
            (&["--interlock-wait=90"][..], Some(90)),
            (&["--interlock-wait=89"], None),
            (&["--interlock-wait=89", "--allow-short-interlock-wait"], Some(89)),
            (&["--interlock-wait=35", "--allow-short-interlock-wait"], Some(35)),
            (&["--interlock-wait=34", "--allow-short-interlock-wait"], None),
        ] {
            let wait = parse(flags).map(|config| config.interlock_wait.as_secs());
            assert_eq!(wait.as_ref().ok(), taken.as_ref(), "{flags:?}: {wait:?}");
        }
        assert!(parse(&["--interlock-wait=60"]).unwrap_err().contains("--allow-short-interlock-wait"));
    }

    #[test]
    fn uninstall_takes_the_flags_that_say_where() {
        let taken = [
            "--control-plane=kubernetes",
            "--kubeconfig=/k",
            "--api-export-name=a",
            "--kcp-base-host=https://a",
            "--namespace=b",
            "--leader-election-id=c",
            "--leader-election-namespace=d",
            "--timeout=5",
        ];
        let cli = Cli::try_parse_from([&["depguard-controller", "uninstall"], &taken[..]].concat()).unwrap();
        let Some(Command::Uninstall(removal)) = cli.command else { panic!("{cli:?}") };
        assert_eq!(removal.into_uninstall().leader_election_namespace.as_deref(), Some("d"));
        // Without --leader-election-namespace, the Lease is in the given --namespace; without both, `uninstall` goes by
        // what is installed.
        for (flags, namespace) in [(&["--namespace=b"][..], Some("b")), (&[], None)] {
            let line = [&["depguard-controller", "uninstall", "--control-plane=kubernetes"], flags].concat();
            let Some(Command::Uninstall(removal)) = Cli::try_parse_from(line).unwrap().command else { panic!() };
            assert_eq!(removal.into_uninstall().leader_election_namespace.as_deref(), namespace);
        }
        assert!(Cli::try_parse_from(["depguard-controller", "uninstall", "--webhook-url=https://a"]).is_err());
        let config = parse(&["--leader-elect", "--control-plane=kubernetes", "--namespace=b"]).unwrap();
        assert!(config.leader_elect);
        assert_eq!(
            (config.leader_election_namespace.as_str(), config.leader_election_id.as_str()),
            ("b", "depguard-controller")
        );
        assert_eq!(parse(&["--namespace=b"]).unwrap().leader_election_namespace, "depguard-system");
    }

    #[test]
    fn home_is_an_alias_of_control_plane() {
        assert_eq!(parse(&["--home=kubernetes", "--namespace=b"]).unwrap().control_plane, ControlPlane::Kubernetes);
        assert!(Cli::try_parse_from(["depguard-controller", "manifests", "--home=kubernetes"]).is_ok());
    }

    #[test]
    fn manifests_take_their_own_flags_only() {
        assert!(Cli::try_parse_from(["depguard-controller", "manifests", "--control-plane", "kubernetes"]).is_ok());
        assert!(Cli::try_parse_from(["depguard-controller", "--webhook-url=https://a", "manifests"]).is_err());
    }
}
