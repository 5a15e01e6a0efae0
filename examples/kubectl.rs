//! As much of kubectl as docs/guide.md needs, for who has none: `kubectl() { cargo run -q --example kubectl -- "$@"; }`.
//!
//! `apply -f FILE`, `delete KIND NAME`, both in the namespace `default`, and `depguard …`, which it hands to
//! kubectl-depguard. It says what kubectl says.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Parser;
use depguard_core::Home;
use depguard_kcp::{ApiError, ConnectOptions, Connection, Endpoint, Preconditions};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// As much of kubectl as docs/guide.md needs.
#[derive(Parser)]
#[command(name = "kubectl")]
enum Arguments {
    /// Creates the objects of a file, or makes them what it says.
    Apply {
        #[arg(short, long)]
        filename: PathBuf,
        /// Taken, and left to the API server.
        #[arg(long)]
        validate: Option<bool>,
    },
    /// Deletes an object.
    Delete { kind: String, name: String },
    /// Runs kubectl-depguard.
    #[command(external_subcommand)]
    Plugin(Vec<String>),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse() {
        Arguments::Apply { filename, .. } => apply(&filename).await,
        Arguments::Delete { kind, name } => delete(&kind, &name).await,
        Arguments::Plugin(words) => plugin(&words),
    };
    done.unwrap_or_else(|why| {
        eprintln!("error: {why}");
        ExitCode::FAILURE
    })
}

async fn apply(file: &PathBuf) -> Result<ExitCode> {
    let cluster = cluster().await?;
    for object in serde_saphyr::from_multiple::<Value>(&std::fs::read_to_string(file)?)? {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let served = Served::find(&cluster, text("/apiVersion"), kind).await?;
        let served = served.ok_or_else(|| format!("no `{kind}` of {} is served", text("/apiVersion")))?;
        let path = served.path(name);
        let version = |object: Value| object["metadata"]["resourceVersion"].clone();
        let before = match cluster.get_json(&path).await {
            Ok(object) => Some(version(object)),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        let after = version(cluster.apply(&path, &object, "kubectl", false).await?);
        let done = before.map_or("created", |before| if before == after { "unchanged" } else { "configured" });
        println!("{}/{name} {done}", served.called());
    }
    Ok(ExitCode::SUCCESS)
}

async fn delete(kind: &str, name: &str) -> Result<ExitCode> {
    let cluster = cluster().await?;
    for group in items(&cluster.get_json("/apis").await?["groups"]) {
        let version = group["preferredVersion"]["groupVersion"].as_str().unwrap_or_default();
        let Some(served) = Served::find(&cluster, version, kind).await? else { continue };
        return match cluster.delete(&served.path(name), Preconditions::default()).await {
            Ok(_) => {
                println!("{} \"{name}\" deleted{}", served.called(), served.of_namespace());
                Ok(ExitCode::SUCCESS)
            }
            Err(ApiError::Refused { status, .. }) => {
                eprintln!("Error from server ({}): {}", status.reason, status.message);
                Ok(ExitCode::FAILURE)
            }
            Err(error) => Err(error.into()),
        };
    }
    Err(format!("the server doesn't have a resource type \"{kind}\"").into())
}

fn plugin(words: &[String]) -> Result<ExitCode> {
    let Some((plugin, arguments)) = words.split_first().filter(|(plugin, _)| *plugin == "depguard") else {
        return Err("this is not kubectl, and knows only `apply`, `delete` and `depguard`".into());
    };
    let program = format!("kubectl-{plugin}");
    let status = Command::new(&program).args(arguments).status().map_err(|why| format!("{program}: {why}"))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// The cluster that `KUBECONFIG` names.
async fn cluster() -> Result<Endpoint> {
    let options = ConnectOptions { kubeconfig: None, base_host: None, context: None, home: Home::Kubernetes };
    Ok(Connection::open(&options).await?.home())
}

/// A kind as discovery has it.
struct Served {
    api_version: String,
    resource: Value,
}

impl Served {
    /// The kind of a group and version that is called so in any way.
    async fn find(cluster: &Endpoint, api_version: &str, called: &str) -> Result<Option<Self>> {
        let resources = cluster.get_json(&format!("/apis/{api_version}")).await?;
        let is = |resource: &&Value| {
            ["kind", "name", "singularName"].iter().any(|field| resource[field] == called)
                || items(&resource["shortNames"]).iter().any(|name| name == called)
        };
        let resource = items(&resources["resources"]).iter().find(is).cloned();
        Ok(resource.map(|resource| Self { api_version: api_version.to_owned(), resource }))
    }

    fn path(&self, name: &str) -> String {
        let namespace = if self.is_namespaced() { "/namespaces/default" } else { "" };
        format!("/apis/{}{namespace}/{}/{name}", self.api_version, self.text("name"))
    }

    /// The kind and its group, as kubectl calls them.
    fn called(&self) -> String {
        let group = self.api_version.split('/').next().unwrap_or_default();
        format!("{}.{group}", self.text("kind").to_lowercase())
    }

    fn of_namespace(&self) -> &'static str {
        if self.is_namespaced() { " from default namespace" } else { "" }
    }

    fn is_namespaced(&self) -> bool {
        self.resource["namespaced"] == true
    }

    fn text(&self, field: &str) -> &str {
        self.resource[field].as_str().unwrap_or_default()
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}
