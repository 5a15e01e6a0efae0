//! Whether a review is about what its sender has to do with.

use crate::bindings::Binding;
use crate::names::{GroupResource, LogicalCluster};

/// Where the webhook configuration lies by which a review came: the logical cluster of a provider, or a plain Kubernetes.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) provider: Option<LogicalCluster>,
    /// Not known until the bindings have been read to their end.
    pub(crate) verdict: Verdict,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Unknown,
    Inside,
    Outside,
}

impl Bounds {
    pub(crate) fn new(provider: Option<LogicalCluster>) -> Self {
        Self { provider, verdict: Verdict::Unknown }
    }

    /// Back to what is known before any binding was read.
    pub(crate) fn reset(&mut self) {
        self.verdict = Verdict::Unknown;
    }

    /// Looks at a binding of the object's logical cluster.
    pub(crate) fn see(&mut self, binding: &Binding<'_>, kind: &GroupResource) {
        let kind = (kind.group.as_str(), kind.resource.as_str());
        let provider = self.provider.as_ref().map(LogicalCluster::as_str);
        if provider.is_some() && binding.provider() == provider && binding.bound().any(|bound| bound == kind) {
            self.verdict = Verdict::Inside;
        }
    }

    /// Why a review is refused that is out of bounds; `place` is where its object lies, with a space before it.
    pub(crate) fn why(&self, place: &str) -> String {
        let why = match &self.provider {
            Some(provider) => format!(
                "the webhook was called by the URL of logical cluster {provider}, from where no APIBinding{place} binds \
                 this kind"
            ),
            None => format!("the webhook was called by the URL of a plain Kubernetes about an object{place}"),
        };
        format!("{why}; look at who calls it, and change the path key")
    }
}
