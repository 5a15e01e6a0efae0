//! Whether workspaces that have not bound depguard exist at all.

use std::collections::BTreeSet;

use depguard_core::WorkspacePath;
use depguard_kcp::{Connection, WorkspaceLookup};
use futures::{StreamExt, stream};

use crate::references::{Lookup, Lookups};

/// Paths that are looked up at once.
const AT_ONCE: usize = 8;

/// What was found out since the last resync: each path is looked up once.
#[derive(Debug, Default)]
pub(crate) struct Known {
    lookups: Lookups,
}

impl Known {
    /// What is known of these paths, those looked up that were not.
    pub(crate) async fn look_up(&mut self, connection: &Connection, paths: &BTreeSet<WorkspacePath>) -> Lookups {
        self.lookups.retain(|path, _| paths.contains(path));
        let new: Vec<_> = paths.iter().filter(|path| !self.lookups.contains_key(*path)).cloned().collect();
        let found = stream::iter(new).map(|path| {
            let connection = connection.clone();
            async move {
                let lookup = match connection.look_up(&path).await {
                    WorkspaceLookup::Found { .. } => Lookup::Exists,
                    WorkspaceLookup::NotFound => Lookup::NotFound,
                    WorkspaceLookup::Unknown { why } => Lookup::Unknown(why),
                };
                (path, lookup)
            }
        });
        self.lookups.extend(found.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await);
        self.lookups.clone()
    }

    /// Forgets it all.
    pub(crate) fn forget(&mut self) {
        self.lookups.clear();
    }
}
