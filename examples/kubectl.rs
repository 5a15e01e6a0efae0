//! Part of kubectl that the documents need, for tests that walk through them and for machines without kubectl:
//! `kubectl() { cargo run -q --example kubectl -- "$@"; }`.
//!
//! It knows `apply -f FILE`, `get KIND`, `patch KIND NAME` and `delete KIND NAME`, all in the namespace `default`, and
//! passes `depguard …` on to kubectl-depguard. Its messages are kubectl's.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use bytes::Bytes;
use clap::Parser;
use depguard_core::ControlPlane;
use depguard_kcp::{ApiError, ConnectOptions, Connection, Endpoint};
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// As much of kubectl as the documents need.
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
    Delete {
        kind: String,
        name: String,
        #[arg(long, default_value = "background")]
        cascade: String,
        /// `server`: as far as it would go without being carried out.
        #[arg(long)]
        dry_run: Option<String>,
        /// Taken; it never waits.
        #[arg(long)]
        wait: Option<bool>,
    },
    /// Prints the objects of a kind.
    Get { kind: String },
    /// Changes an object by a JSON merge patch.
    Patch {
        kind: String,
        name: String,
        #[arg(long = "type")]
        how: Merge,
        #[arg(short, long)]
        patch: String,
    },
    /// Runs kubectl-depguard.
    #[command(external_subcommand)]
    Plugin(Vec<String>),
}

/// The one way of patching that it knows.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Merge {
    Merge,
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse() {
        Arguments::Apply { filename, .. } => apply(&filename).await,
        Arguments::Delete { kind, name, cascade, dry_run, .. } => {
            delete(&kind, &name, &cascade, dry_run.is_some()).await
        }
        Arguments::Get { kind } => get(&kind).await,
        Arguments::Patch { kind, name, how: Merge::Merge, patch } => patched(&kind, &name, patch).await,
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
        let served =
            served.ok_or_else(|| format!("the API server does not serve `{kind}` of {}", text("/apiVersion")))?;
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

async fn delete(kind: &str, name: &str, cascade: &str, dry_run: bool) -> Result<ExitCode> {
    let cluster = cluster().await?;
    let served = Served::called_so(&cluster, kind).await?;
    let (first, rest) = cascade.split_at(cascade.len().min(1));
    let mut options = json!({"propagationPolicy": format!("{}{rest}", first.to_uppercase())});
    if dry_run {
        options["dryRun"] = json!(["All"]);
    }
    match cluster.delete_with(&served.path(name), &options).await {
        Ok(_) => {
            let how = if dry_run { " (server dry run)" } else { "" };
            println!("{} \"{name}\" deleted{how}{}", served.called(), served.of_namespace());
            Ok(ExitCode::SUCCESS)
        }
        Err(ApiError::Refused { status, .. }) => Ok(refused(&status.reason, &status.message)),
        Err(error) => Err(error.into()),
    }
}

async fn get(kind: &str) -> Result<ExitCode> {
    let cluster = cluster().await?;
    let served = Served::called_so(&cluster, kind).await?;
    let request = Request::get(served.collection()).header(ACCEPT, "application/json;as=Table;g=meta.k8s.io;v=v1");
    let table = answer(&cluster.send(request.body(Bytes::new())?).await?)?;
    let shown: Vec<usize> = (0..items(&table["columnDefinitions"]).len())
        .filter(|column| table["columnDefinitions"][column]["priority"].as_i64().unwrap_or_default() == 0)
        .collect();
    let row = |cells: &Value| -> Vec<String> {
        let cell = |column: &usize| match &cells[column] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        shown.iter().map(cell).collect()
    };
    let mut rows: Vec<Vec<String>> = items(&table["rows"]).iter().map(|one| row(&one["cells"])).collect();
    if rows.is_empty() {
        let place = if served.is_namespaced() { " in default namespace." } else { "" };
        eprintln!("No resources found{place}");
        return Ok(ExitCode::SUCCESS);
    }
    let names = shown.iter().map(|column| table["columnDefinitions"][column]["name"].as_str().unwrap_or_default());
    rows.insert(0, names.map(str::to_uppercase).collect());
    let widths: Vec<usize> =
        (0..shown.len()).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        println!("{}", cells.collect::<Vec<_>>().join("   ").trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

async fn patched(kind: &str, name: &str, patch: String) -> Result<ExitCode> {
    let cluster = cluster().await?;
    let served = Served::called_so(&cluster, kind).await?;
    let request = Request::patch(served.path(name)).header(CONTENT_TYPE, "application/merge-patch+json");
    let response = cluster.send(request.body(patch.into())?).await?;
    if !response.status().is_success() {
        let status: Value = serde_json::from_slice(response.body())?;
        return Ok(refused(
            status["reason"].as_str().unwrap_or_default(),
            status["message"].as_str().unwrap_or_default(),
        ));
    }
    println!("{}/{name} patched", served.called());
    Ok(ExitCode::SUCCESS)
}

/// Returns kubectl's message about a refusal of the API server.
fn refused(reason: &str, message: &str) -> ExitCode {
    eprintln!("Error from server ({reason}): {message}");
    ExitCode::FAILURE
}

/// The body of a success.
fn answer(response: &http::Response<Bytes>) -> Result<Value> {
    let body: Value = serde_json::from_slice(response.body())?;
    if response.status().is_success() { Ok(body) } else { Err(body["message"].to_string().into()) }
}

fn plugin(words: &[String]) -> Result<ExitCode> {
    let Some((plugin, arguments)) = words.split_first().filter(|(plugin, _)| *plugin == "depguard") else {
        return Err("this stand-in for kubectl knows only `apply`, `get`, `patch`, `delete` and `depguard`".into());
    };
    let program = format!("kubectl-{plugin}");
    let status = Command::new(&program).args(arguments).status().map_err(|why| format!("{program}: {why}"))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// The cluster that `KUBECONFIG` names.
async fn cluster() -> Result<Endpoint> {
    let options = ConnectOptions::new(ControlPlane::Kubernetes);
    Ok(Connection::open(&options).await?.own_endpoint())
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

    /// The kind that is called so, of whichever group.
    async fn called_so(cluster: &Endpoint, kind: &str) -> Result<Self> {
        for group in items(&cluster.get_json("/apis").await?["groups"]) {
            let version = group["preferredVersion"]["groupVersion"].as_str().unwrap_or_default();
            if let Some(served) = Self::find(cluster, version, kind).await? {
                return Ok(served);
            }
        }
        Err(format!("the server doesn't have a resource type \"{kind}\"").into())
    }

    fn collection(&self) -> String {
        let namespace = if self.is_namespaced() { "/namespaces/default" } else { "" };
        format!("/apis/{}{namespace}/{}", self.api_version, self.text("name"))
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.collection())
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
