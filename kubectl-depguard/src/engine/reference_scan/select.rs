//! Choice of the objects that a command reports, among all that a scan read.

use std::collections::{BTreeMap, HashSet};

use depguard_core::model::Namespace;
use serde_json::Value;

use super::Scan;
use crate::cluster::selection::Selection;
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

impl Scan {
    /// Completes the selection. Labels, and the fields of objects in files, were compared when the objects were read.
    /// Only an API server knows the fields that it selects by, and the meaning of a missing one: it lists the selected
    /// objects.
    pub(super) async fn select(
        &mut self,
        selection: &Selection,
        source: &Source,
        namespace: Option<&Namespace>,
        terminal: &Terminal,
    ) -> Result<(), Failure> {
        if selection.has_fields() && source.is_live() {
            self.select_by_fields(selection, source, namespace, terminal).await?;
        }
        if self.is_whole() && !self.objects.iter().any(|object| object.selected) {
            self.coverage.select_nothing(selection);
        }
        Ok(())
    }

    async fn select_by_fields(
        &mut self,
        selection: &Selection,
        source: &Source,
        namespace: Option<&Namespace>,
        terminal: &Terminal,
    ) -> Result<(), Failure> {
        let kinds: BTreeMap<_, _> =
            self.objects.iter().map(|object| (object.kind.gvr.group_resource(), object.kind.clone())).collect();
        let (mut selected, mut unread) = (HashSet::new(), Vec::new());
        for (name, kind) in kinds {
            let each = |object: Value| {
                let text = |field: &str| object.pointer(field).and_then(Value::as_str).map(str::to_owned);
                selected.insert((
                    name.clone(),
                    text("/metadata/namespace"),
                    text("/metadata/name").unwrap_or_default(),
                ));
            };
            unread.extend(source.selected(&kind, namespace, selection, terminal, each).await?);
        }
        for object in &mut self.objects {
            let own = object.referent.namespace.clone();
            object.selected = selected.contains(&(object.kind.gvr.group_resource(), own, object.referent.name.clone()));
        }
        self.coverage.miss(&unread);
        self.unread.extend(unread);
        Ok(())
    }
}
