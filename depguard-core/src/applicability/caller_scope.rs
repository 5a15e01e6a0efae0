//! Scope of a caller: a webhook's caller may only ask about objects within its own scope.

use crate::applicability::api_bindings::Binding;
use crate::model::names::{GroupResource, LogicalCluster};
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;

/// The scope of the webhook configuration that caused a review: the logical cluster of a provider, or plain
/// Kubernetes.
#[derive(Debug)]
pub(crate) struct CallerScope {
    pub(crate) provider: Option<LogicalCluster>,
    /// `Unknown` until the bindings have been read to their end, or one of them decides.
    pub(crate) containment: Containment,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Containment {
    Unknown,
    Inside,
    Outside,
}

impl CallerScope {
    pub(crate) fn new(provider: Option<LogicalCluster>) -> Self {
        Self { provider, containment: Containment::Unknown }
    }

    /// Returns to the state before any binding was read.
    pub(crate) fn reset(&mut self) {
        self.containment = Containment::Unknown;
    }

    /// Takes a binding of the object's logical cluster.
    pub(crate) fn observe(&mut self, binding: &Binding<'_>, kind: &GroupResource) {
        let provider = self.provider.as_ref().map(LogicalCluster::as_str);
        if provider.is_some() && binding.provider() == provider && binding.has(kind) {
            self.containment = Containment::Inside;
        }
    }

    /// Returns the reason for refusing a review that is out of scope; `place` is the place of its object, with a
    /// space before it.
    pub(crate) fn why(&self, place: &str) -> Unresolved {
        let why = match &self.provider {
            Some(provider) => format!(
                "somebody called the webhook by the URL of logical cluster {provider}, but no APIBinding{place} binds \
                 this kind from there"
            ),
            None => format!("somebody called the webhook by the URL of a plain Kubernetes about an object{place}"),
        };
        Unresolved::new(Cause::OutOfScope, format!("{why}; find out who calls it, and change the path key"))
    }
}
