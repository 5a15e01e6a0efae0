//! Walk from an object to its targets, to their targets, and so on. Each object is read once, by its name.

use std::collections::HashMap;
use std::sync::Arc;

use depguard_core::GroupVersionResource;
use depguard_core::lookup::{ObjectReference, ReferenceReader, ReferenceTarget, ReferencedObject};
use depguard_core::model::{GroupResource, Namespace};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;

use super::readiness::Readiness;
use crate::cluster::api_server::Lookup;
use crate::cluster::kinds::KindInfo;
use crate::cluster::rules::ReadFailure;
use crate::cluster::source::Source;
use crate::engine::reference_scan::{AppliedEdge, MadeObjects, ObjectIdentity};
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

/// Objects that the walk reached, and the links between them.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) edges: Vec<AppliedEdge>,
    /// Objects; the first is the one that the user named.
    pub(super) nodes: Vec<Node>,
    /// Selectors that select no object.
    pub(super) empty: Vec<EmptySelector>,
    pub(super) unread: Vec<ReadFailure>,
}

/// Object, with its links to its targets.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) identity: ObjectIdentity,
    pub(super) state: NodeState,
    pub(super) links: Vec<Link>,
    /// True if the object's references were not followed, because it lies at the greatest depth.
    pub(super) is_cut: bool,
    kind: Arc<KindInfo>,
    uid: Option<String>,
}

/// Knowledge about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeState {
    There(Readiness),
    /// The object is in no file, and will be there: this object of the files makes it.
    Made(ObjectIdentity),
    Missing,
    /// The object could not be read, for this reason.
    Unread(String),
}

/// Reference of an object to a target.
#[derive(Debug)]
pub(super) struct Link {
    /// Edge: an index in the trace's edges.
    pub(super) edge: usize,
    /// Target: an index in the trace's nodes.
    pub(super) to: usize,
    /// UID that the target must have.
    uid: Option<String>,
}

/// Selector that selects no object.
#[derive(Debug)]
pub(super) struct EmptySelector {
    /// Dependent: an index in the trace's nodes.
    pub(super) from: usize,
    /// Edge: an index in the trace's edges.
    pub(super) edge: usize,
    pub(super) kind: String,
}

/// Kind, namespace and name of an object.
type NodeKey = (GroupResource, Option<String>, String);

/// Walk in progress.
struct Walk<'a> {
    source: &'a Source,
    made: &'a MadeObjects,
    terminal: &'a Terminal,
    readers: Vec<VersionReader>,
    known: HashMap<NodeKey, usize>,
    trace: Trace,
    /// Nodes to read next.
    next: Vec<usize>,
}

/// Reader of the references of objects in one version of their kind.
struct VersionReader {
    gvr: GroupVersionResource,
    reader: ReferenceReader,
    /// Edges in the order of the reader: indexes in the trace's edges.
    edges: Vec<usize>,
}

/// Object as it was read, once for each version in which rules describe its references.
struct ReadNode {
    state: NodeState,
    object: Option<Arc<Value>>,
    /// Each reader of the object's references, with the object in the reader's version.
    versions: Vec<(usize, Arc<Value>)>,
    unread: Vec<ReadFailure>,
}

/// Limit on the objects of a walk.
const MAX_NODES: usize = 10_000;
/// Limit on concurrent requests.
const MAX_CONCURRENT_READS: usize = 8;

impl Trace {
    /// Follows the references of an object down to `depth`; `None`: to the end. What is missing and is among `made` will be
    /// there.
    pub(super) async fn walk(
        source: &Source,
        made: &MadeObjects,
        edges: Vec<AppliedEdge>,
        root: (&KindInfo, Option<&str>, &str),
        depth: Option<usize>,
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        let readers = VersionReader::all(&edges);
        let trace = Self { edges, ..Self::default() };
        let mut walk = Walk { source, made, terminal, readers, known: HashMap::new(), trace, next: Vec::new() };
        let (kind, namespace, name) = root;
        walk.reach(&Arc::new(kind.clone()), namespace.map(str::to_owned), name);
        let mut level = 0_usize;
        while !walk.next.is_empty() {
            let is_last = depth.is_some_and(|depth| level >= depth);
            walk.follow(is_last).await?;
            level = level.saturating_add(1);
        }
        Ok(walk.trace)
    }

    /// Returns the state of the object that a link means; a new object of the same name is another one.
    pub(super) fn state(&self, link: &Link) -> NodeState {
        let Some(node) = self.nodes.get(link.to) else { return NodeState::Missing };
        let is_misnamed = || self.edges.get(link.edge).is_some_and(|applied| applied.is_misnamed(Some(&*node.kind)));
        match (&link.uid, &node.uid) {
            (Some(meant), Some(own)) if meant != own => NodeState::Missing,
            (Some(_), _) if matches!(node.state, NodeState::Made(_)) => NodeState::Missing,
            _ if node.state == NodeState::Missing && is_misnamed() => {
                NodeState::Unread("the rule may misspell its kind".to_owned())
            }
            _ => node.state.clone(),
        }
    }
}

impl VersionReader {
    fn all(edges: &[AppliedEdge]) -> Vec<Self> {
        let mut versions: Vec<(GroupVersionResource, Vec<usize>)> = Vec::new();
        for (index, applied) in edges.iter().enumerate() {
            let gvr = &applied.rule.dependent().gvr;
            match versions.iter_mut().find(|(known, _)| known == gvr) {
                Some((_, edges)) => edges.push(index),
                None => versions.push((gvr.clone(), vec![index])),
            }
        }
        let readers = versions.into_iter().map(|(gvr, own)| {
            let applied = own.iter().filter_map(|index| edges.get(*index));
            Self { gvr, reader: ReferenceReader::new(applied.map(|one| (&*one.rule, &one.edge))), edges: own }
        });
        readers.collect()
    }
}

impl Walk<'_> {
    /// Reads the next objects, and reaches their targets unless this is the last level.
    async fn follow(&mut self, is_last: bool) -> Result<(), Failure> {
        let level = std::mem::take(&mut self.next);
        let walk = &*self;
        let read: Vec<_> = stream::iter(level)
            .map(|index| async move { Ok::<_, Failure>((index, walk.read(index).await?)) })
            .buffered(MAX_CONCURRENT_READS)
            .try_collect()
            .await?;
        for (index, read) in read {
            let ReadNode { state, object, versions, unread } = read;
            for unread in unread {
                self.miss(unread);
            }
            if let Some(node) = self.trace.nodes.get_mut(index) {
                let metadata = object.as_deref().map(ReferencedObject::read);
                node.uid = metadata.as_ref().and_then(|metadata| metadata.uid.clone());
                if let Some(metadata) = metadata {
                    node.identity.namespace = metadata.namespace;
                }
                node.state = state;
            }
            for (reader, object) in versions {
                let references = self.references(reader, index, &object)?;
                if let Some(node) = self.trace.nodes.get_mut(index).filter(|_| is_last) {
                    node.is_cut |= !references.is_empty();
                    continue;
                }
                for (edge, reference) in references {
                    self.link(index, edge, &reference).await?;
                }
            }
        }
        Ok(())
    }

    /// Reads an object in each version in which rules describe its references, or else in the preferred one.
    async fn read(&self, index: usize) -> Result<ReadNode, Failure> {
        let mut read = ReadNode { state: NodeState::Missing, object: None, versions: vec![], unread: vec![] };
        let Some(node) = self.trace.nodes.get(index) else { return Ok(read) };
        let own = node.kind.gvr.group_resource();
        let readers = self.readers.iter().enumerate().filter(|(_, reader)| reader.gvr.group_resource() == own);
        let mut versions: Vec<_> = readers.map(|(index, reader)| (Some(index), reader.gvr.clone())).collect();
        if versions.is_empty() {
            versions.push((None, node.kind.gvr.clone()));
        }
        let ObjectIdentity { namespace, name, .. } = &node.identity;
        for (reader, gvr) in versions {
            let kind = KindInfo { gvr, ..KindInfo::clone(&node.kind) };
            match self.source.look_up(&kind, namespace.as_deref(), name).await? {
                Lookup::Missing => {}
                Lookup::Unread(unread) => {
                    if read.object.is_none() {
                        read.state = NodeState::Unread(unread.why.clone());
                    }
                    read.unread.push(unread);
                }
                Lookup::Found(object) => {
                    read.state = NodeState::There(Readiness::from_object(&object));
                    read.object.get_or_insert_with(|| Arc::clone(&object));
                    read.versions.extend(reader.map(|reader| (reader, object)));
                }
            }
        }
        if read.state == NodeState::Missing {
            if let Some(maker) = self.made.maker(&own, namespace.as_deref(), name) {
                read.state = NodeState::Made(maker.clone());
            } else if self.source.every_cluster_has(&own, namespace.as_deref(), name) {
                read.state = NodeState::There(Readiness::Unstated);
            }
        }
        Ok(read)
    }

    /// Returns an object's references, each with its edge. References that can't be resolved are recorded as unread.
    fn references(
        &mut self,
        reader: usize,
        index: usize,
        object: &Value,
    ) -> Result<Vec<(usize, ObjectReference<'static>)>, Failure> {
        let (Some(reader), Some(node)) = (self.readers.get(reader), self.trace.nodes.get(index)) else {
            return Ok(Vec::new());
        };
        let mut references: Vec<(usize, ObjectReference<'static>)> = Vec::new();
        let mut unread = Vec::new();
        let read = reader.reader.read(object, |reference| {
            let Some(edge) = reader.edges.get(reference.edge) else { return };
            if let ReferenceTarget::Unclear { why, .. } = &reference.means {
                let field = self.trace.edges.get(*edge).map(|applied| applied.edge.field()).unwrap_or_default();
                let what = format!("the references of {} by {field}", node.identity);
                unread.push(ReadFailure::new(what, format!("it {why}")));
            } else {
                references.push((*edge, reference.into_owned()));
            }
        });
        if let Err(why) = read {
            return Err(Failure::new(format!("could not read the references of {}: {why}", node.identity)));
        }
        for unread in unread {
            self.miss(unread);
        }
        Ok(references)
    }

    /// Links an object to the targets of one of its references.
    async fn link(&mut self, from: usize, edge: usize, reference: &ObjectReference<'_>) -> Result<(), Failure> {
        let Some(applied) = self.trace.edges.get(edge) else { return Ok(()) };
        let target = &applied.edge.target;
        let named = target.kind.as_ref().map_or(target.gvr.resource.as_str(), |kind| kind.as_str());
        let bare = KindInfo::bare(target.gvr.clone(), named, None);
        let kind = Arc::new(self.source.kind_of(&target.gvr.group_resource()).await?.unwrap_or(bare));
        match &reference.means {
            ReferenceTarget::Named { name, namespace, uid } => {
                let namespace = namespace.as_deref().filter(|_| kind.namespaced != Some(false));
                let uid = uid.as_deref().map(str::to_owned);
                if namespace.is_some() || kind.namespaced == Some(false) {
                    let to = self.reach(&kind, namespace.map(str::to_owned), name);
                    self.connect(from, edge, to, uid.as_ref());
                    return Ok(());
                }
                let Some(found) = self.list(&kind, None, &reference.means).await? else { return Ok(()) };
                if found.is_empty() {
                    let to = self.add(&kind, None, name).map(|(to, _)| to);
                    self.connect(from, edge, to, None);
                }
                for object in found {
                    let to = self.reach(&kind, object.namespace, &object.name);
                    self.connect(from, edge, to, uid.as_ref());
                }
            }
            ReferenceTarget::Selected { namespace, .. } => {
                let Some(found) = self.list(&kind, namespace.as_deref(), &reference.means).await? else {
                    return Ok(());
                };
                if found.is_empty() {
                    self.trace.empty.push(EmptySelector { from, edge, kind: kind.kind.clone() });
                }
                for object in found {
                    let to = self.reach(&kind, object.namespace, &object.name);
                    self.connect(from, edge, to, None);
                }
            }
            ReferenceTarget::Unclear { .. } => {}
        }
        Ok(())
    }

    /// Returns the objects of a kind that a reference means; `None` if the kind can't be listed, which is recorded.
    async fn list(
        &mut self,
        kind: &KindInfo,
        namespace: Option<&str>,
        means: &ReferenceTarget<'_>,
    ) -> Result<Option<Vec<ReferencedObject>>, Failure> {
        let within = match namespace.map(Namespace::parse) {
            None => None,
            Some(Ok(namespace)) => Some(namespace),
            // A name that no namespace can have holds nothing.
            Some(Err(_)) => return Ok(Some(Vec::new())),
        };
        let mut found = Vec::new();
        let each = |object: Value| {
            let object = ReferencedObject::read(&object);
            if found.len() <= MAX_NODES && means.includes(&object) {
                found.push(object);
            }
        };
        match self.source.objects(kind, within.as_ref(), self.terminal, each).await? {
            None => Ok(Some(found)),
            Some(unread) => {
                self.miss(unread);
                Ok(None)
            }
        }
    }

    /// Returns the node of an object, which is read at the next level if it is new; `None` beyond the limit.
    fn reach(&mut self, kind: &Arc<KindInfo>, namespace: Option<String>, name: &str) -> Option<usize> {
        let (index, is_new) = self.add(kind, namespace, name)?;
        self.next.extend(is_new.then_some(index));
        Some(index)
    }

    /// Returns the node of an object, and true if it is new; `None` beyond the limit.
    fn add(&mut self, kind: &Arc<KindInfo>, namespace: Option<String>, name: &str) -> Option<(usize, bool)> {
        let key = (kind.gvr.group_resource(), namespace.clone(), name.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Some((*known, false));
        }
        let index = self.trace.nodes.len();
        if index >= MAX_NODES {
            let what = format!("more than {MAX_NODES} objects");
            self.miss(ReadFailure::new(what, "the walk is cut off; limit it with --depth"));
            return None;
        }
        let identity = ObjectIdentity::new(kind, namespace, name);
        let (state, kind) = (NodeState::Missing, Arc::clone(kind));
        self.trace.nodes.push(Node { identity, state, links: Vec::new(), is_cut: false, kind, uid: None });
        self.known.insert(key, index);
        Some((index, true))
    }

    fn connect(&mut self, from: usize, edge: usize, to: Option<usize>, uid: Option<&String>) {
        if let (Some(node), Some(to)) = (self.trace.nodes.get_mut(from), to) {
            node.links.push(Link { edge, to, uid: uid.cloned() });
        }
    }

    fn miss(&mut self, unread: ReadFailure) {
        if !self.trace.unread.contains(&unread) {
            self.trace.unread.push(unread);
        }
    }
}
