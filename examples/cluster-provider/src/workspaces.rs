//! kcp workspaces, one for each Cluster, under the workspace of the provider's kcp kubeconfig.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_client::core::params::{DeleteParams, ListParams, PostParams};
use kube_client::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube_client::{Api, Client, Config};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::api::{Cluster, OWN_GROUP, ObjectRef};
use crate::platform::{Platform, connect, says_gone};
use crate::{Error, Result};

/// Maximum of characters of a Cluster's name that its workspace's name shows.
const SHOWN: usize = 40;

/// Parent of the workspaces, and the credentials to create them.
#[derive(Clone)]
pub struct Workspaces {
    parent: Api<DynamicObject>,
    config: Config,
    /// URL of the server up to `/clusters`.
    base: String,
}

/// Workspace that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Name of the workspace under its parent.
    pub name: String,
    /// Logical cluster of the workspace.
    pub logical_cluster: String,
    /// URL of the API server that kcp tells everybody.
    pub url: String,
    /// URL of the API server by which this provider reaches it.
    pub internal_url: String,
}

/// Progress of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The workspace can be used.
    Ready(Workspace),
    /// The workspace is being created, and waits for this.
    Making(String),
}

/// Progress of a workspace's removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// The workspace is gone.
    Gone,
    /// The workspace is being deleted, and waits for this.
    Going(String),
}

impl Workspaces {
    /// Opens the workspace that the configuration's server names: `https://…/clusters/<workspace>`.
    pub fn open(config: Config) -> Result<Self> {
        let url = config.cluster_url.to_string();
        let Some((base, _)) = url.split_once("/clusters/") else {
            return Err(Error::Refused(format!(
                "the server `{url}` of the kubeconfig for kcp is not a workspace: it must end in `/clusters/<path of \
                 the workspace that is to hold the clusters' workspaces>`"
            )));
        };
        let base = base.to_owned();
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("tenancy.kcp.io", "v1alpha1", "Workspace"));
        Ok(Self { parent: Api::all_with(connect(config.clone())?, &kind), config, base })
    }

    /// Returns the name of a Cluster's workspace: readable, and unique for each Cluster that ever existed.
    pub fn name_of(cluster: &Cluster) -> String {
        let readable: String = cluster.name().chars().map(|c| if c == '.' { '-' } else { c }).take(SHOWN).collect();
        let digest: String = Sha256::digest(cluster.uid()).iter().take(5).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{digest}", readable.trim_end_matches('-'))
    }

    /// Creates a Cluster's workspace, if it is missing.
    pub async fn ensure(&self, platform: &Platform, cluster: &Cluster) -> Result<Progress> {
        let name = Self::name_of(cluster);
        let found = match self.read(&name).await? {
            Some(found) => found,
            None => self.create(platform, cluster, &name).await?,
        };
        refuse_unless_of(&found, cluster)?;
        let phase = text(&found, "/status/phase").unwrap_or("none yet");
        Ok(match self.ready(&name, &found) {
            Some(workspace) => Progress::Ready(workspace),
            None if found.metadata.deletion_timestamp.is_some() => Progress::Making(format!(
                "somebody deleted workspace `{name}`; the provider creates it again once it is gone"
            )),
            None => Progress::Making(format!("kcp is creating workspace `{name}`, phase {phase}")),
        })
    }

    /// Returns a Cluster's workspace, if it exists and is ready.
    pub async fn find(&self, cluster: &Cluster) -> Result<Option<Workspace>> {
        let name = Self::name_of(cluster);
        let Some(found) = self.read(&name).await? else { return Ok(None) };
        refuse_unless_of(&found, cluster)?;
        Ok(self.ready(&name, &found))
    }

    /// Returns all workspaces that were made for Clusters of that name, even if the Cluster is gone. Leaves out
    /// workspaces that are gone, and those in which nothing can have been done yet.
    pub async fn of(&self, cluster: &ObjectRef) -> Result<Vec<Workspace>> {
        let of = format!("{}/{}", cluster.namespace, cluster.name);
        let all = self.parent.list(&ListParams::default()).await.map_err(Error::api("list workspaces"))?;
        let theirs = all.into_iter().filter(|found| annotation(found, &cluster_key()) == Some(of.as_str()));
        let made = theirs.filter(|found| !matches!(text(found, "/status/phase"), Some("Scheduling" | "Initializing")));
        Ok(made.filter_map(|found| self.place(found.metadata.name.as_deref()?, &found)).collect())
    }

    /// Deletes a Cluster's workspace with all its content.
    pub async fn remove(&self, cluster: &Cluster) -> Result<Removal> {
        let name = Self::name_of(cluster);
        let Some(found) = self.read(&name).await? else { return Ok(Removal::Gone) };
        refuse_unless_of(&found, cluster)?;
        if found.metadata.deletion_timestamp.is_none() {
            match self.parent.delete(&name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(error) if says_gone(&error, &name) => return Ok(Removal::Gone),
                Err(error) => return Err(Error::api(format!("delete workspace `{name}`"))(error)),
            }
        }
        let why = held_up(&found).map_or(String::new(), |why| format!(": {why}"));
        Ok(Removal::Going(format!("kcp is deleting workspace `{name}`{why}")))
    }

    /// Returns a client for a workspace, as the user of the kcp kubeconfig.
    pub fn client(&self, workspace: &Workspace) -> Result<Client> {
        let url = &workspace.internal_url;
        let mut config = self.config.clone();
        config.cluster_url = url
            .parse()
            .map_err(|_| Error::Refused(format!("kcp reports `{url}` for a workspace, which is not a URL")))?;
        connect(config)
    }

    /// Returns the certificate authority of kcp's server as PEM; `None` for one that every machine knows.
    pub fn ca_pem(&self) -> Option<String> {
        let pem = |der: &Vec<u8>| {
            let lines: Vec<_> =
                STANDARD.encode(der).as_bytes().chunks(64).map(String::from_utf8_lossy).map(String::from).collect();
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
        };
        self.config.root_cert.as_ref().map(|certificates| certificates.iter().map(pem).collect())
    }

    async fn read(&self, name: &str) -> Result<Option<DynamicObject>> {
        match self.parent.get(name).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if says_gone(&error, name) => Ok(None),
            Err(error) => Err(Error::api(format!("read workspace `{name}`"))(error)),
        }
    }

    async fn create(&self, platform: &Platform, cluster: &Cluster, name: &str) -> Result<DynamicObject> {
        let workspace = json!({
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {
                "name": name,
                "labels": platform.labels(),
                "annotations": {
                    uid_key(): cluster.uid(),
                    cluster_key(): format!("{}/{}", cluster.namespace(), cluster.name()),
                },
            },
            "spec": {},
        });
        let failed = || Error::api(format!("make workspace `{name}`"));
        let workspace =
            serde_json::from_value(workspace).map_err(|error| failed()(kube_client::Error::SerdeError(error)))?;
        self.parent.create(&PostParams::default(), &workspace).await.map_err(failed())
    }

    fn ready(&self, name: &str, found: &DynamicObject) -> Option<Workspace> {
        let is_ready = text(found, "/status/phase") == Some("Ready") && found.metadata.deletion_timestamp.is_none();
        self.place(name, found).filter(|_| is_ready)
    }

    fn place(&self, name: &str, found: &DynamicObject) -> Option<Workspace> {
        let (logical_cluster, url) = (text(found, "/spec/cluster")?, text(found, "/spec/URL")?);
        Some(Workspace {
            name: name.to_owned(),
            logical_cluster: logical_cluster.to_owned(),
            url: url.to_owned(),
            internal_url: format!("{}/clusters/{logical_cluster}", self.base),
        })
    }
}

fn uid_key() -> String {
    format!("{OWN_GROUP}/cluster-uid")
}

fn cluster_key() -> String {
    format!("{OWN_GROUP}/cluster")
}

fn annotation<'a>(found: &'a DynamicObject, key: &str) -> Option<&'a str> {
    found.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Refuses a workspace of that name that another party made. This provider may neither use nor delete it.
fn refuse_unless_of(found: &DynamicObject, cluster: &Cluster) -> Result<()> {
    if annotation(found, &uid_key()) == Some(cluster.uid()) {
        return Ok(());
    }
    let name = found.metadata.name.as_deref().unwrap_or_default();
    Err(Error::Refused(format!(
        "workspace `{name}` in kcp was not made for this Cluster: delete the workspace if nobody needs it"
    )))
}

/// Returns kcp's message about a workspace whose deletion is held up.
fn held_up(found: &DynamicObject) -> Option<&str> {
    let conditions = found.data.pointer("/status/conditions").and_then(Value::as_array)?;
    let content = conditions.iter().find(|condition| condition["type"] == "WorkspaceContentDeleted")?;
    content["message"].as_str().filter(|message| !message.is_empty())
}

fn text<'a>(object: &'a DynamicObject, pointer: &str) -> Option<&'a str> {
    object.data.pointer(pointer).and_then(Value::as_str)
}
