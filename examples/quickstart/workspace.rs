//! Workspace, used as kubectl would use it. Every action is printed.

use std::time::{Duration, Instant};

use depguard_core::WorkspacePath;
use depguard_kcp::{Connection, Endpoint, Preconditions};
use serde_json::{Value, json};

use crate::Result;

/// Time limit for the server and the controller to get ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Workspace, and the credentials for it.
pub(crate) struct Workspace {
    parent: Option<(Endpoint, String)>,
    endpoint: Endpoint,
    path: String,
}

impl Workspace {
    pub(crate) fn new(connection: &Connection, path: &str) -> Result<Self> {
        let parent = match path.rsplit_once(':') {
            Some((parent, name)) => Some((connection.workspace(&WorkspacePath::parse(parent)?), name.to_owned())),
            None => None,
        };
        Ok(Self { parent, endpoint: connection.workspace(&WorkspacePath::parse(path)?), path: path.to_owned() })
    }

    /// Creates the workspace itself, in its parent.
    pub(crate) async fn make(&self) -> Result<()> {
        const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
        let Some((parent, name)) = &self.parent else { return Ok(()) };
        let workspace =
            json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
        parent.post_json(WORKSPACES, &workspace).await?;
        let path = format!("{WORKSPACES}/{name}");
        eventually(async || match &parent.get_json(&path).await?["status"]["phase"] {
            phase if phase == "Ready" => Ok(Ok(())),
            phase => Ok(Err(format!("workspace {} has the phase {phase}", self.path))),
        })
        .await?;
        println!("workspace {}", self.path);
        Ok(())
    }

    pub(crate) async fn create_all(&self, objects: &[Value]) -> Result<()> {
        for object in objects {
            self.create(object).await?;
        }
        Ok(())
    }

    /// Creates an object as soon as its kind is served.
    pub(crate) async fn create(&self, object: &Value) -> Result<()> {
        let (collection, name) = place(object);
        eventually(async || match self.endpoint.post_json(&collection, object).await {
            Ok(_) => Ok(Ok(())),
            Err(error) if error.is_not_found() => Ok(Err(error.to_string())),
            Err(error) => Err(error.into()),
        })
        .await?;
        println!("{}: created {}/{name}", self.path, object["kind"].as_str().unwrap_or("?"));
        Ok(())
    }

    pub(crate) async fn read(&self, path: &str) -> Result<Value> {
        Ok(self.endpoint.get_json(path).await?)
    }

    pub(crate) async fn delete(&self, collection: &str, name: &str) -> Result<()> {
        self.endpoint.delete(&format!("{collection}/{name}"), Preconditions::default()).await?;
        println!("{}: deleted {}/{name}", self.path, resource(collection));
        Ok(())
    }

    /// Deletes an object. The deletion must be refused with these words.
    pub(crate) async fn delete_refused(&self, collection: &str, name: &str, words: &str) -> Result<()> {
        let path = format!("{collection}/{name}");
        match self.endpoint.delete(&path, Preconditions::default()).await {
            Ok(_) => Err(format!("{}: {}/{name} was deleted", self.path, resource(collection)).into()),
            Err(error) if error.status() == Some(403) && error.to_string().contains(words) => {
                println!("{}: Error from server (Forbidden): {words}", self.path);
                self.endpoint.get_json(&path).await?;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the documents of a YAML stream.
pub(crate) fn documents(yaml: &str) -> Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple(yaml)?)
}

/// Tries until an attempt has a result, for at most [`PATIENCE`]. An attempt without one says what is missing.
pub(crate) async fn eventually<T>(
    mut attempt: impl AsyncFnMut() -> Result<std::result::Result<T, String>>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        match attempt().await? {
            Ok(found) => return Ok(found),
            Err(missing) if begun.elapsed() > PATIENCE => {
                return Err(format!("not within {} s: {missing}", PATIENCE.as_secs()).into());
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Returns the URL path of an object's collection, and the object's name.
fn place(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]).to_lowercase();
    let plural = if kind.ends_with('y') { format!("{}ies", kind.trim_end_matches('y')) } else { format!("{kind}s") };
    let namespace = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/namespaces/{namespace}"),
        None => String::new(),
    };
    (format!("/apis/{}{namespace}/{plural}", text(&object["apiVersion"])), text(&object["metadata"]["name"]))
}

fn resource(collection: &str) -> &str {
    collection.rsplit('/').next().unwrap_or(collection)
}
