//! Fit of a suite's rules and objects to the definitions in the suite.

use std::collections::BTreeSet;

use depguard_core::schema::KindFacts;
use serde_json::Value;

use crate::cluster::documents::{Document, group_of, is_definition, text};
use crate::cluster::kinds::guess_resource;
use crate::cluster::rule_manifests::{ends_of, is_rule};
use crate::commands::lint::{self, nearest};

/// Definitions of a suite, and the kinds that its rules name beside them.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    definitions: Vec<Document>,
    /// Groups, each with the name or the resource of a kind.
    named: BTreeSet<(String, String)>,
}

impl Definitions {
    /// Collects the definitions and the rules' kinds among some documents.
    pub(super) fn new(documents: &[Document]) -> Self {
        let rules = documents.iter().filter(|document| is_rule(&document.value));
        let ends = rules.filter_map(|rule| rule.value.get("spec")).flat_map(ends_of);
        let names = |end: &Value| {
            let group = text(end, "group").unwrap_or_default().to_owned();
            let names = ["kind", "resource"].into_iter().filter_map(|field| Some(text(end, field)?.to_owned()));
            names.map(|name| (group.clone(), name)).collect::<Vec<_>>()
        };
        Self {
            named: ends.flat_map(names).collect(),
            definitions: documents.iter().filter(|document| is_definition(&document.value)).cloned().collect(),
        }
    }

    /// Returns where the rules and objects among some documents don't fit: one sentence for each mistake.
    pub(super) fn misfits(&self, documents: &[Document]) -> Vec<String> {
        let mut misfits = lint::misfits(documents);
        for Document { value, .. } in documents.iter().filter(|document| is_rule(&document.value)) {
            let ends = value.get("spec").into_iter().flat_map(ends_of);
            misfits.extend(ends.filter_map(|end| self.misspelt(end)));
        }
        let objects = documents.iter().filter(|document| !is_rule(&document.value) && !is_definition(&document.value));
        misfits
            .extend(objects.filter_map(|object| Some(format!("{}: {}", object.shown(), self.misfit(&object.value)?))));
        misfits
    }

    /// Returns why an API server with these definitions would not store an object as it is; `None` if it would, or if the
    /// object's kind has no definition.
    pub(super) fn misfit(&self, object: &Value) -> Option<String> {
        let (group, kind) = (group_of(object).unwrap_or_default(), text(object, "kind").unwrap_or_default());
        let defined = |definition: &&Value| name(definition, "/spec/names/kind") == Some(kind);
        let Some(definition) = self.of_group(group).find(defined) else {
            let names: Vec<_> = self.of_group(group).filter_map(|other| name(other, "/spec/names/kind")).collect();
            let resource = guess_resource(kind).map(|resource| resource.to_string()).unwrap_or_default();
            let is_named =
                [kind, &resource].iter().any(|name| self.named.contains(&(group.to_owned(), (*name).to_owned())));
            let message = || format!("{group} has {}, but no {kind}: {}", names.join(", "), advice(kind, &names));
            return (!names.is_empty() && !is_named).then(message);
        };
        let version = text(object, "apiVersion").and_then(|version| version.rsplit('/').next()).unwrap_or_default();
        let facts = KindFacts::from_definition(definition, version)?;
        if !facts.served.iter().any(|served| served == version) {
            let served = facts.served.join(", ");
            return Some(format!("{kind} is not served in version {version}, but in {served}: correct its apiVersion"));
        }
        facts.schema?.unknown_field(object)
    }

    /// Returns why a kind of a rule is none of the suite's: nearly its resource has a definition.
    fn misspelt(&self, end: &Value) -> Option<String> {
        let (group, resource) = (text(end, "group")?, text(end, "resource")?);
        let names: Vec<_> = self.of_group(group).filter_map(|other| name(other, "/spec/names/plural")).collect();
        let is_misspelt = !names.contains(&resource) && nearest::name(resource, names.iter().copied()).is_some();
        let message = || format!("{group} has {}, but no {resource}: {}", names.join(", "), advice(resource, &names));
        is_misspelt.then(message)
    }

    fn of_group<'d>(&'d self, group: &str) -> impl Iterator<Item = &'d Value> {
        let definitions = self.definitions.iter().map(|definition| &*definition.value);
        definitions.filter(move |definition| name(definition, "/spec/group") == Some(group))
    }
}

fn name<'d>(definition: &'d Value, pointer: &str) -> Option<&'d str> {
    definition.pointer(pointer).and_then(Value::as_str)
}

fn advice(written: &str, names: &[&str]) -> String {
    match nearest::name(written, names.iter().copied()) {
        Some(nearest) => format!("write `{nearest}` if you mean that, or add its definition"),
        None => "add its definition, or name it in a rule".to_owned(),
    }
}
