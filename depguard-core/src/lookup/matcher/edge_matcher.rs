//! Matching of an object against one edge: the references that the object holds, and the targets that they mean.

use std::borrow::Cow;
use std::sync::Arc;

use crate::lookup::matcher::Targets;
use crate::lookup::reference::{Match, ObjectReference, ReferenceTarget};
use crate::model::api::{OwnedDependents, Scalar};
use crate::model::field_path::FieldPath;
use crate::model::label_selector::Selector;
use crate::model::name_pattern::{Cutter, Pattern};
use crate::model::names::{Kind, Separator};
use crate::model::ownership::{Collected, OwnerReference};
use crate::protocol::deletion_target::DeletionTarget;
use crate::rule::compiled_edge::{CompiledEdge, EdgeState};
use crate::rule::{Dependent, Edge, FieldReference, FixedReference, Place, Reference, ValueSource};
use crate::scan::extract::{Extractor, Indices, Item, Take};

/// An edge, and the slots of its paths' values in an [`Item`].
#[derive(Debug)]
pub(super) struct EdgeMatcher {
    pub(super) edge: Arc<CompiledEdge>,
    /// Slot of the names, or of the selectors.
    subject: usize,
    namespace: Option<SourceReader>,
    group: Option<SourceReader>,
    kind: Option<SourceReader>,
    /// JSON of the value at the kind's path, if the edge has a default kind.
    kind_json: Option<CorrelatedPath>,
    api_version: Option<CorrelatedPath>,
    uid: Option<CorrelatedPath>,
    /// One for each condition of the edge.
    when: Vec<CorrelatedPath>,
    /// Slot of the ownerReferences, if owners matter.
    owners: Option<usize>,
    /// Labels that the dependents' selector mentions, with their slots.
    labels: Vec<(String, usize)>,
    /// Extractor of the name from a value at the edge's path.
    cuts_name: Option<Cutter>,
}

/// Reader of a value that describes a target.
#[derive(Debug)]
struct SourceReader {
    /// The field; `None`: the text that holds the name.
    beside: Option<CorrelatedPath>,
    cutter: Option<Cutter>,
}

/// Path beside a reference's path: its slot, and the number of its wildcards, whose indices the reference must share.
#[derive(Debug, Clone, Copy)]
struct CorrelatedPath {
    slot: usize,
    wildcards: usize,
}

/// A text that may name a target, and its place among the values of the edge's path.
#[derive(Debug, Clone, Copy)]
struct Value<'i> {
    at: Indices,
    text: &'i str,
}

impl EdgeMatcher {
    pub(super) fn new(edge: &Arc<CompiledEdge>, paths: &mut Vec<(FieldPath, Take)>) -> Option<Self> {
        let EdgeState::Usable { dependent, edge: followed } = &edge.state else { return None };
        let Dependent { export: _, gvr: _, kind: _, selector } = &**dependent;
        let Edge {
            index: _,
            target: _,
            reference,
            when,
            optional: _,
            // `means` passes them over, and so does each target that is selected or unclear.
            exclude_names: _,
            on_delete: _,
            owned_dependents,
            on_missing: _,
            message: _,
        } = &**followed;
        let mut slot = |path: &FieldPath, take| {
            paths.push((path.clone(), take));
            paths.len() - 1
        };
        let take = match reference {
            Reference::Field(field) if field.keys => Take::Keys,
            Reference::Field(_) | Reference::Fixed(_) | Reference::Selected(_) => Take::Texts,
            Reference::Selector(_) => Take::Json,
        };
        let subject = slot(reference.path(), take);
        let mut correlated =
            |path: &FieldPath, take| CorrelatedPath { slot: slot(path, take), wildcards: path.wildcards() };
        let when = when.iter().map(|condition| correlated(&condition.path, Take::Json)).collect();
        let kind_json = match reference {
            Reference::Field(field) if field.default_kind.is_some() => {
                let path = field.kind.as_ref().and_then(|kind| kind.path.as_ref());
                path.map(|path| correlated(path, Take::Json))
            }
            Reference::Field(_) | Reference::Fixed(_) | Reference::Selected(_) | Reference::Selector(_) => None,
        };
        let mut beside = |path: &FieldPath| correlated(path, Take::Text);
        let mut matcher = Self {
            edge: Arc::clone(edge),
            subject,
            namespace: None,
            group: None,
            kind: None,
            kind_json,
            api_version: None,
            uid: None,
            when,
            owners: None,
            labels: Vec::new(),
            cuts_name: None,
        };
        let mut source = |ValueSource { path, pattern }: &ValueSource| SourceReader {
            beside: path.as_ref().map(&mut beside),
            cutter: pattern.as_ref().map(Pattern::cutter),
        };
        matcher.namespace = match reference.place() {
            Place::Own | Place::Fixed(_) => None,
            Place::Said(said) => Some(source(said)),
        };
        if let Reference::Field(field) = reference {
            let FieldReference {
                path: _,
                keys: _,
                split: _,
                pattern,
                place: _,
                group,
                kind,
                default_kind: _,
                api_version,
                uid,
            } = &**field;
            matcher.cuts_name = pattern.as_ref().map(Pattern::cutter);
            matcher.group = group.as_ref().map(&mut source);
            matcher.kind = kind.as_ref().map(&mut source);
            matcher.api_version = api_version.as_ref().map(&mut beside);
            matcher.uid = uid.as_ref().map(&mut beside);
        }
        if *owned_dependents == OwnedDependents::Ignore {
            matcher.owners = Some(slot(&FieldPath::owners(), Take::Json));
        }
        let labels = selector.iter().flat_map(Selector::keys);
        matcher.labels = labels.map(|key| (key.to_owned(), slot(&FieldPath::label(key), Take::Text))).collect();
        Some(matcher)
    }

    /// Hands each target to which the object refers, or may refer, to `each`, with the target's index.
    pub(super) fn match_item<'t>(
        &self,
        item: &Item<'_, '_>,
        targets: &'t Targets,
        mut each: impl FnMut(usize, &'t DeletionTarget, Match),
    ) {
        let EdgeState::Usable { dependent, edge } = &self.edge.state else { return };
        let all = || targets.all.iter().map(|target| &**target).enumerate();
        if !self.is_selected(dependent, item) {
            return;
        }
        if let Some(means) = self.unclear_if_unread(edge, item) {
            return all().for_each(|(index, target)| match means.matches(target) {
                Match::No => {}
                refers => each(index, target, refers),
            });
        }
        match &edge.reference {
            Reference::Field(field) => {
                let mut last = None;
                let mut consider = |index: usize, value: Value<'_>, name: Cow<'_, str>| {
                    let Some(target) = targets.all.get(index).filter(|_| last != Some(index)) else { return };
                    if self
                        .means(edge, field, item, value, name)
                        .is_some_and(|means| means.matches(target) == Match::Yes)
                        && let Some(refers) = self.despite_owner(item, target, Match::Yes)
                    {
                        last = Some(index);
                        each(index, target, refers);
                    }
                };
                if let [only] = targets.all.as_slice() {
                    for (value, name) in self.names(field, item) {
                        if name == only.name.as_str() {
                            consider(0, value, name);
                        }
                    }
                    return;
                }
                // All names of one target stand together, so that each target is handed out once.
                let mut named: Vec<_> = (self.names(field, item))
                    .flat_map(|(value, name)| {
                        let indices = targets.by_name.get(name.as_ref()).into_iter().flatten();
                        indices.map(move |index| (*index, value, name.clone()))
                    })
                    .collect();
                named.sort_by_key(|(index, ..)| *index);
                named.into_iter().for_each(|(index, value, name)| consider(index, value, name));
            }
            Reference::Fixed(fixed) => {
                let Some(means) = self.fixed(edge, fixed, item) else { return };
                let named = targets.by_name.get(fixed.name.as_str()).into_iter().flatten();
                for (index, target) in named.filter_map(|index| Some((*index, targets.all.get(*index)?))) {
                    if means.matches(target) == Match::Yes
                        && let Some(refers) = self.despite_owner(item, target, Match::Yes)
                    {
                        each(index, target, refers);
                    }
                }
            }
            Reference::Selector(_) | Reference::Selected(_) => {
                let selections: Vec<_> = self.selections(edge, item).collect();
                for (index, target) in all() {
                    let refers = Some(refers_by_labels(&selections, target)).filter(|refers| *refers != Match::No);
                    if let Some(refers) = refers.and_then(|refers| self.despite_owner(item, target, refers)) {
                        each(index, target, refers);
                    }
                }
            }
        }
    }

    /// Hands all references of the object, certain or not, to `each`.
    pub(super) fn each_reference<'i>(
        &'i self,
        index: usize,
        item: &'i Item<'_, '_>,
        each: &mut impl FnMut(ObjectReference<'i>),
    ) {
        let EdgeState::Usable { dependent, edge } = &self.edge.state else { return };
        if !self.is_selected(dependent, item) {
            return;
        }
        if let Some(means) = self.unclear_if_unread(edge, item) {
            return each(ObjectReference::new(index, means, item.uid(), item.namespace(), Vec::new()));
        }
        let owners = self.owners(item);
        let each = |means| each(ObjectReference::new(index, means, item.uid(), item.namespace(), owners.clone()));
        match &edge.reference {
            Reference::Field(field) => {
                // No object has an empty name: Go writes an empty name for an absent one.
                let names = self.names(field, item).filter(|(_, name)| !name.is_empty());
                names.filter_map(|(value, name)| self.means(edge, field, item, value, name)).for_each(each);
            }
            Reference::Fixed(fixed) => self.fixed(edge, fixed, item).into_iter().for_each(each),
            Reference::Selector(_) | Reference::Selected(_) => self.selections(edge, item).for_each(each),
        }
    }

    /// Returns the values that hold names, each with its name.
    fn names<'i>(
        &'i self,
        field: &'i FieldReference,
        item: &'i Item<'_, '_>,
    ) -> impl Iterator<Item = (Value<'i>, Cow<'i, str>)> {
        let values = item
            .hits(self.subject)
            .iter()
            .flat_map(|hit| parts(field.split.as_ref(), hit.text.as_ref()).map(|text| Value { at: hit.at, text }));
        values.filter_map(|value| match &self.cuts_name {
            None => Some((value, Cow::Borrowed(value.text))),
            Some(cutter) => Some((value, Cow::Owned(cutter.cut(value.text)?))),
        })
    }

    /// Returns true if the rule's selector selects the object.
    fn is_selected(&self, dependent: &Dependent, item: &Item<'_, '_>) -> bool {
        let label = |key: &str| {
            let (_, slot) = self.labels.iter().find(|(label, _)| label == key)?;
            item.value(*slot)
        };
        dependent.selector.as_ref().is_none_or(|selector| selector.matches(label))
    }

    /// Returns true if the edge extracts values by patterns.
    pub(super) fn cuts(&self) -> bool {
        let mut sources = [&self.namespace, &self.group, &self.kind].into_iter().flatten();
        self.cuts_name.is_some() || sources.any(|source| source.cutter.is_some())
    }

    /// Returns true if the rule itself names the target, so that any object may refer to the target.
    pub(super) fn is_in_rule(&self) -> bool {
        match &self.edge.state {
            EdgeState::Usable { edge, .. } => match &edge.reference {
                Reference::Fixed(_) => true,
                Reference::Field(_) | Reference::Selector(_) | Reference::Selected(_) => false,
            },
            EdgeState::Invalid(_) => false,
        }
    }

    /// Returns the slots of the names or selectors, and of all values beside them. An object without values for these slots
    /// refers to no target, except by a name in the rule.
    pub(super) fn slots(&self) -> impl Iterator<Item = usize> {
        let Self {
            edge: _,
            subject,
            namespace,
            group,
            kind,
            kind_json,
            api_version,
            uid,
            when,
            // The ownerReferences are one value. Labels are always read.
            owners: _,
            labels: _,
            cuts_name: _,
        } = self;
        let sources = [namespace, group, kind].into_iter().flatten().filter_map(|source| source.beside.as_ref());
        let beside = sources.chain([kind_json, api_version, uid].into_iter().flatten()).chain(when);
        beside.map(|beside| beside.slot).chain([*subject])
    }

    /// Returns an unclear reference if not all values of the object that the edge needs were read.
    fn unclear_if_unread<'i>(&self, edge: &'i Edge, item: &'i Item<'_, '_>) -> Option<ReferenceTarget<'i>> {
        let why = if self.slots().any(|slot| item.is_path_broken(slot)) {
            let reference = &edge.reference;
            format!(
                "has a string that begins like JSON and is none, so that nobody can tell what `{reference}` means; correct the \
                 string"
            )
        } else if self.slots().any(|slot| item.is_path_cut(slot)) || self.has_too_many_parts(edge, item) {
            let most = Extractor::MAX_VALUES;
            format!("has more than {most} references, and depguard reads no more of one object; split the object")
        } else {
            return None;
        };
        let namespace = match edge.reference.place() {
            Place::Own => item.namespace().map(Cow::Borrowed),
            Place::Fixed(fixed) => Some(Cow::Borrowed(fixed.as_str())),
            Place::Said(_) => None,
        };
        Some(ReferenceTarget::Unclear { why, namespace, except: Cow::Borrowed(&edge.exclude_names) })
    }

    /// Returns true if the object's strings have more parts than an object may have values.
    fn has_too_many_parts(&self, edge: &Edge, item: &Item<'_, '_>) -> bool {
        let Reference::Field(field) = &edge.reference else { return false };
        let Some(split) = &field.split else { return false };
        let parts = item.hits(self.subject).iter().map(|hit| hit.text.matches(split.as_str()).count() + 1);
        parts.sum::<usize>() > Extractor::MAX_VALUES
    }

    /// Returns the ownerReferences of the object, if the edge ignores owned dependents. If they can't be read, the object
    /// counts.
    fn owners(&self, item: &Item<'_, '_>) -> Vec<OwnerReference> {
        let text = self.owners.and_then(|owners| item.value(owners));
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Returns the match of an object that refers to the target; `None` if the edge ignores the object, because the
    /// object goes with the target.
    fn despite_owner(&self, item: &Item<'_, '_>, target: &DeletionTarget, refers: Match) -> Option<Match> {
        match (target.owner().collects(item.namespace(), &self.owners(item)), refers) {
            (Collected::Yes, _) => None,
            (Collected::IfServed { version, kind }, Match::Yes) => Some(Match::YesUnlessServed { version, kind }),
            (Collected::IfServed { .. } | Collected::No, refers) => Some(refers),
        }
    }

    /// Returns true if the edge's conditions hold at the place of the reference.
    fn holds(&self, edge: &Edge, item: &Item<'_, '_>, at: Indices) -> bool {
        edge.when.iter().zip(&self.when).all(|(condition, beside)| {
            match beside.value(item, at).map(|json| Scalar::is_any_of(json, &condition.values)).transpose() {
                Ok(is_listed) => is_listed.unwrap_or_default() != condition.excludes,
                // A reference counts if nobody can read the value that would tell.
                Err(_) => true,
            }
        })
    }

    /// Returns the target of a reference by name; `None` if the reference doesn't count, or names another kind than
    /// the edge.
    fn means<'i>(
        &self,
        edge: &Edge,
        field: &'i FieldReference,
        item: &'i Item<'_, '_>,
        value: Value<'i>,
        name: Cow<'i, str>,
    ) -> Option<ReferenceTarget<'i>> {
        if edge.excludes(&name) {
            return None;
        }
        // An absent or empty value is that of the default kind, or matches every target: Go writes an empty value for an
        // absent one. A value that is there and can't be read matches every target.
        let beside = |beside: Option<CorrelatedPath>| {
            beside.and_then(|beside| beside.value(item, value.at)).filter(|value| !value.is_empty())
        };
        let said = |source: &Option<SourceReader>| {
            source.as_ref().and_then(|source| source.value(item, value)).filter(|value| !value.is_empty())
        };
        let json_of_kind = self.kind_json.and_then(|json| json.value(item, value.at));
        let has_no_kind = json_of_kind.is_none_or(|json| ["null", r#""""#].contains(&json));
        let default_kind = field.default_kind.as_ref().filter(|_| has_no_kind).map(Kind::as_str);
        let group = edge.target.gvr.group.as_str();
        let group_of = |version: &'i str| version.rsplit_once('/').map_or("", |(group, _)| group);
        let is_kind = |kind: Cow<'_, str>| edge.target.kind.as_ref().is_none_or(|own| own.as_str() == kind);
        let counts = self.holds(edge, item, value.at)
            && said(&self.group).is_none_or(|said| said == group)
            && said(&self.kind).or_else(|| default_kind.map(Cow::Borrowed)).is_none_or(is_kind)
            && beside(self.api_version).is_none_or(|version| group_of(version) == group);
        counts.then(|| {
            let namespace = self.place(&field.place, item, value);
            ReferenceTarget::Named { name, namespace, uid: beside(self.uid).map(Cow::Borrowed) }
        })
    }

    /// Returns the target that the rule names; `None` if the reference doesn't count.
    fn fixed<'i>(&self, edge: &Edge, fixed: &'i FixedReference, item: &'i Item<'_, '_>) -> Option<ReferenceTarget<'i>> {
        let FixedReference { name, place } = fixed;
        let value = Value { at: Indices::default(), text: name.as_str() };
        self.holds(edge, item, value.at).then(|| {
            let namespace = self.place(place, item, value);
            ReferenceTarget::Named { name: Cow::Borrowed(name.as_str()), namespace, uid: None }
        })
    }

    /// Returns the namespace of a reference's target; `None`: any.
    fn place<'i>(&self, place: &'i Place, item: &'i Item<'_, '_>, value: Value<'i>) -> Option<Cow<'i, str>> {
        let own = || item.namespace().map(Cow::Borrowed);
        match place {
            Place::Own => own(),
            Place::Fixed(fixed) => Some(Cow::Borrowed(fixed.as_str())),
            Place::Said(_) => {
                let said = self.namespace.as_ref().and_then(|source| source.value(item, value));
                said.filter(|said| !said.is_empty()).or_else(own)
            }
        }
    }

    /// Returns the targets of each selector, in the object or in the rule.
    fn selections<'i>(&'i self, edge: &'i Edge, item: &'i Item<'_, '_>) -> impl Iterator<Item = ReferenceTarget<'i>> {
        let hits = item.hits(self.subject).iter().filter(|hit| self.holds(edge, item, hit.at));
        hits.filter_map(move |hit| {
            let namespace = item.namespace().map(Cow::Borrowed);
            let except = Cow::Borrowed(edge.exclude_names.as_slice());
            let selector = match &edge.reference {
                Reference::Selected(selector) => Ok(Some(Cow::Borrowed(selector))),
                Reference::Selector(written) => {
                    Selector::read(&hit.text, &written.narrowed_by).map(|read| read.map(Cow::Owned))
                }
                // Such a reference names its target.
                Reference::Field(_) | Reference::Fixed(_) => Ok(None),
            };
            match selector {
                Ok(selector) => Some(ReferenceTarget::Selected { selector: selector?, namespace, except }),
                Err(error) => {
                    let path = edge.reference.path();
                    let why = format!("has an invalid selector at `{path}`: {}", error.reason());
                    Some(ReferenceTarget::Unclear { why, namespace, except })
                }
            }
        })
    }
}

impl SourceReader {
    /// Returns the value that describes the target of a reference.
    fn value<'i>(&self, item: &'i Item<'_, '_>, of: Value<'i>) -> Option<Cow<'i, str>> {
        let whole = match self.beside {
            Some(beside) => beside.value(item, of.at)?,
            None => of.text,
        };
        match &self.cutter {
            None => Some(Cow::Borrowed(whole)),
            Some(cutter) => cutter.cut(whole).map(Cow::Owned),
        }
    }
}

impl CorrelatedPath {
    /// Returns the value that goes along with a reference at these indices.
    fn value<'i>(&self, item: &'i Item<'_, '_>, at: Indices) -> Option<&'i str> {
        let hits = item.hits(self.slot);
        let index = hits.binary_search_by(|hit| hit.at.cmp(&at.first(self.wildcards))).ok()?;
        hits.get(index).map(|hit| hit.text.as_ref())
    }
}

/// Matches the target against the selectors at a path.
fn refers_by_labels(selections: &[ReferenceTarget<'_>], target: &DeletionTarget) -> Match {
    let mut refers = Match::No;
    for selection in selections {
        match selection.matches(target) {
            Match::Yes => return Match::Yes,
            Match::No => {}
            unclear => refers = unclear,
        }
    }
    refers
}

/// Returns the parts of a text between separators, without the spaces around them and without empty parts. Without a
/// separator, returns the text.
fn parts<'t>(separator: Option<&Separator>, text: &'t str) -> impl Iterator<Item = &'t str> {
    let whole = separator.is_none().then_some(text);
    let parts = separator.into_iter().flat_map(move |separator| text.split(separator.as_str()));
    whole.into_iter().chain(parts.map(str::trim_ascii).filter(|part| !part.is_empty()))
}
