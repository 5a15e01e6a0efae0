//! Objects of every kind in a namespace, or in the whole cluster or workspace.

use depguard_core::model::{GroupResource, Namespace};
use futures::stream::{self, StreamExt};
use serde_json::Value;

use super::{Subject, why_command};
use crate::cluster::kinds::{KindInfo, resource_name};
use crate::cluster::source::Source;
use crate::commands::why::own::TargetState;
use crate::commands::why::text;
use crate::io::exit::Failure;

/// Objects that a scan was asked for.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) hits: Vec<Hit>,
    /// Kinds that could not be read, each with the reason.
    pub(super) unread: Vec<String>,
}

/// Object that a scan was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    /// Name as in a refusal: `VirtualMachine/ns/m1`.
    pub(super) shown: String,
    /// Kind as kubectl takes it: `virtualmachines.compute.example.com`.
    resource: String,
    namespace: Option<String>,
    name: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) finalizers: Vec<String>,
}

/// Limit on the objects that a scan keeps.
const MAX_HITS: usize = 10_000;
/// Limit on concurrent lists.
const MAX_CONCURRENT_LISTS: usize = 8;

/// Reads every kind in a namespace, or all kinds, and keeps the objects that `is_wanted` chooses. It sees only their
/// metadata.
pub(super) async fn scan(
    subject: &Subject<'_>,
    namespace: Option<&str>,
    is_wanted: &(dyn Fn(&Value) -> bool + Sync),
) -> Result<Content, Failure> {
    let kinds = subject.source.kinds().await?;
    let mut content = Content { unread: kinds.unread().map(ToString::to_string).collect(), ..Content::default() };
    let parsed = namespace.and_then(|namespace| Namespace::parse(namespace).ok());
    let mut seen: Vec<GroupResource> = Vec::new();
    let mut to_list: Vec<&KindInfo> = Vec::new();
    for kind in kinds.iter().filter(|kind| kind.is_listed && (namespace.is_none() || kind.namespaced != Some(false))) {
        let resource = kind.gvr.group_resource();
        if !seen.contains(&resource) {
            seen.push(resource);
            to_list.push(kind);
        }
    }
    let lists = stream::iter(to_list).map(|kind| list(subject, kind, parsed.as_ref(), is_wanted));
    let mut lists = std::pin::pin!(lists.buffered(MAX_CONCURRENT_LISTS));
    while let Some((hits, unread)) = lists.next().await {
        content.hits.extend(hits);
        content.unread.extend(unread);
    }
    if content.hits.len() > MAX_HITS {
        content.hits.truncate(MAX_HITS);
        content.unread.push(format!("all objects (there are more than {MAX_HITS} that count)"));
    }
    Ok(content)
}

async fn list(
    subject: &Subject<'_>,
    kind: &KindInfo,
    namespace: Option<&Namespace>,
    is_wanted: &(dyn Fn(&Value) -> bool + Sync),
) -> (Vec<Hit>, Option<String>) {
    let mut hits = Vec::new();
    let each = |object: Value| {
        let own = text(&object, "/metadata/namespace");
        let is_inside = namespace.is_none_or(|namespace| own == Some(namespace.as_str()));
        if is_inside && hits.len() <= MAX_HITS && is_wanted(&object) {
            hits.push(Hit::new(kind, &object));
        }
    };
    let read = match subject.source {
        Source::Manifests(_) => subject.source.objects(kind, namespace, subject.terminal, each).await,
        Source::ApiServer(live) => live.metadata(kind, namespace, each).await,
    };
    let unread = match read {
        Ok(unread) => unread.filter(|unread| !unread.is_no_collection()).map(|unread| unread.to_string()),
        Err(failure) => Some(format!("{} ({})", kind.gvr.group_resource(), failure.message())),
    };
    (hits, unread)
}

impl Hit {
    fn new(kind: &KindInfo, object: &Value) -> Self {
        let state = TargetState::from_object(object);
        let namespace = text(object, "/metadata/namespace").map(str::to_owned);
        let name = text(object, "/metadata/name").unwrap_or_default().to_owned();
        let within = namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        Self {
            shown: format!("{}/{within}{name}", kind.kind),
            resource: resource_name(kind.gvr.resource.as_str(), kind.gvr.group.as_str()),
            namespace,
            name,
            deletion_timestamp: state.deletion_timestamp,
            finalizers: state.finalizers,
        }
    }

    /// Returns the command that explains this object in turn.
    pub(super) fn ask_why(&self) -> String {
        format!("`{}` says what holds it", why_command(&self.resource, &self.name, self.namespace.as_deref()))
    }
}
