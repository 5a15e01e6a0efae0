//! Objects of a request in its cluster: creates the desired ones, and deletes those that are no longer desired.

use kube_client::core::params::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube_client::core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, Status};
use kube_client::{Api, Client};
use serde_json::{Value, json};

use super::desired_objects::{DesiredObjects, Identity, Kind, Object};
use super::refusal::Refusal;
use super::status::Halt;
use crate::platform::{Platform, says_gone};
use crate::{Error, Result};

/// Label of all objects that are made for a request in its cluster. Its value is the request's identity.
const ACCESS: &str = "workspaces.example.com/access";

/// Client of one cluster for one request.
pub(super) struct Objects<'a> {
    client: Client,
    platform: &'a Platform,
    identity: &'a Identity,
}

impl<'a> Objects<'a> {
    pub(super) fn new(client: Client, platform: &'a Platform, identity: &'a Identity) -> Self {
        Self { client, platform, identity }
    }

    /// Deletes the objects that are no longer desired, and then creates the desired ones. So no revoked right waits for a new right that can't
    /// be granted yet. Returns the UID of the ServiceAccount.
    pub(super) async fn bring(&self, desired: &DesiredObjects) -> Result<String, Halt> {
        self.keep(Some(desired)).await?;
        for namespace in &desired.namespaces {
            self.bring_namespace(namespace).await?;
        }
        let mut account = None;
        for object in &desired.objects {
            let found = self.bring_object(object).await?;
            account = account.or(found.metadata.uid.filter(|_| object.kind == Kind::ServiceAccount));
        }
        account.ok_or_else(|| Error::Refused("the cluster gave the ServiceAccount no UID".to_owned()).into())
    }

    /// Deletes everything that was made for the request. Namespaces stay, because others may have put objects there.
    pub(super) async fn clear(&self) -> Result<()> {
        self.keep(None).await
    }

    async fn bring_namespace(&self, name: &str) -> Result<()> {
        let namespaces: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Namespace")));
        let doing = |verb: &str| format!("{verb} namespace `{name}` in the cluster");
        if namespaces.get_opt(name).await.map_err(Error::api(doing("read")))?.is_some() {
            return Ok(());
        }
        let labels = Some(self.platform.labels());
        let metadata = ObjectMeta { name: Some(name.to_owned()), labels, ..ObjectMeta::default() };
        let namespace = DynamicObject { types: None, metadata, data: json!({"apiVersion": "v1", "kind": "Namespace"}) };
        match namespaces.create(&PostParams::default(), &namespace).await {
            Err(error) if status_of(&error).is_none_or(|status| status.code != 409) => {
                Err(Error::api(doing("make"))(error))
            }
            // Another client, or an earlier attempt, created it first.
            _ => Ok(()),
        }
    }

    async fn bring_object(&self, desired: &Object) -> Result<DynamicObject, Halt> {
        let api = self.api(desired.kind, desired.namespace.as_deref());
        let doing = |verb: &str| format!("{verb} {} in the cluster", shown(desired));
        let Some(found) = api.get_opt(&desired.name).await.map_err(Error::api(doing("read")))? else {
            let created = api.create(&PostParams::default(), &self.manifest(desired)).await;
            return created.map_err(|error| self.not_written(desired, doing("make"), error));
        };
        if label(&found) != Some(self.identity.as_str()) {
            return Err(Refusal::Taken { kind: desired.kind.name(), name: full_name(desired) }.into());
        }
        if found.metadata.deletion_timestamp.is_some() {
            let message = format!("{} is being deleted in the cluster; the provider creates it again", shown(desired));
            return Err(Halt::Waits { reason: "BeingDeleted", message });
        }
        let fields = desired.content.as_object().into_iter().flatten();
        if fields.into_iter().all(|(field, value)| found.data.get(field) == Some(value)) {
            return Ok(found);
        }
        let mut patch = desired.content.clone();
        patch["metadata"] = json!({"resourceVersion": found.metadata.resource_version});
        let patched = api.patch(&desired.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map_err(|error| self.not_written(desired, doing("write"), error))
    }

    /// Returns the reason to halt after the cluster did not accept an object.
    fn not_written(&self, desired: &Object, doing: String, error: kube_client::Error) -> Halt {
        match (status_of(&error), &desired.namespace) {
            (Some(Status { code: 404, .. }), Some(namespace)) => Halt::Waits {
                reason: "NamespaceMissing",
                message: format!(
                    "the cluster has no namespace `{namespace}`: create it, or leave \
                     `disableAutomaticNamespaceCreation` out"
                ),
            },
            (Some(Status { code: 400 | 422, message, .. }), _) => {
                let (kind, name) = (desired.kind.name(), full_name(desired));
                Refusal::Rejected { kind, name, message: message.clone() }.into()
            }
            _ => Error::api(doing)(error).into(),
        }
    }

    /// Deletes the objects that were made for the request, except the desired ones.
    async fn keep(&self, desired: Option<&DesiredObjects>) -> Result<()> {
        let ours = ListParams::default().labels(&format!("{ACCESS}={}", self.identity.as_str()));
        for kind in Kind::ALL {
            let doing = format!("list {}s in the cluster", kind.name());
            for found in self.api(kind, None).list(&ours).await.map_err(Error::api(doing))? {
                let ObjectMeta { name: Some(name), namespace, uid, .. } = found.metadata else { continue };
                if desired.is_some_and(|desired| desired.has(kind, namespace.as_deref(), &name)) {
                    continue;
                }
                let only_it = Preconditions { uid, resource_version: None };
                let parameters = DeleteParams { preconditions: Some(only_it), ..DeleteParams::default() };
                match self.api(kind, namespace.as_deref()).delete(&name, &parameters).await {
                    Err(error) if !says_gone(&error, &name) => {
                        return Err(Error::api(format!("delete {} `{name}` in the cluster", kind.name()))(error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn manifest(&self, desired: &Object) -> DynamicObject {
        let mut labels = self.platform.labels();
        labels.insert(ACCESS.to_owned(), self.identity.as_str().to_owned());
        let metadata = ObjectMeta {
            name: Some(desired.name.clone()),
            namespace: desired.namespace.clone(),
            labels: Some(labels),
            ..ObjectMeta::default()
        };
        let mut data = desired.content.clone();
        let group = desired.kind.group();
        let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        data["apiVersion"] = Value::from(version);
        data["kind"] = Value::from(desired.kind.name());
        DynamicObject { types: None, metadata, data }
    }

    /// Returns the API of a kind: in one namespace, or in all.
    fn api(&self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.group(), "v1", kind.name()));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

fn status_of(error: &kube_client::Error) -> Option<&Status> {
    match error {
        kube_client::Error::Api(status) => Some(status),
        _ => None,
    }
}

fn label(found: &DynamicObject) -> Option<&str> {
    found.metadata.labels.as_ref()?.get(ACCESS).map(String::as_str)
}

fn full_name(object: &Object) -> String {
    object.namespace.as_ref().map_or(object.name.clone(), |namespace| format!("{namespace}/{}", object.name))
}

fn shown(object: &Object) -> String {
    format!("{} `{}`", object.kind.name(), full_name(object))
}
