//! Change that a user makes to objects of one resource in one logical cluster.

use std::sync::{Mutex, PoisonError};

use crate::kinds::Resource;
use crate::protocol::identity::User;
use crate::protocol::status::ApiError;
use crate::store::Key;
use crate::world::World;

/// User, target and options of a change.
pub(crate) struct Act<'a> {
    pub(crate) world: &'a World,
    pub(crate) user: &'a User,
    pub(crate) resource: &'a Resource,
    pub(crate) cluster: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) dry_run: bool,
    /// `fieldManager` of the request.
    pub(crate) manager: Option<&'a str>,
    /// Refusal if an apply would have to create the object.
    pub(crate) no_creation: Option<ApiError>,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Act<'a> {
    pub(crate) fn new(
        world: &'a World,
        user: &'a User,
        resource: &'a Resource,
        cluster: &'a str,
        namespace: &'a str,
    ) -> Self {
        Self {
            world,
            user,
            resource,
            cluster,
            namespace,
            dry_run: false,
            manager: None,
            no_creation: None,
            warnings: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        self.resource.key(self.cluster, self.namespace, name)
    }

    pub(crate) fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.resource.group, &self.resource.plural, name)
    }

    pub(crate) fn forbidden(&self, name: &str, why: &str) -> ApiError {
        ApiError::forbidden(&self.resource.group, &self.resource.plural, name, why)
    }

    pub(crate) fn stale(&self, name: &str) -> ApiError {
        ApiError::stale(&self.resource.group, &self.resource.plural, name)
    }

    pub(crate) fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(warnings);
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
