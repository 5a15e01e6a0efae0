//! Discovery of a kind: it shows if an API server serves the kind, in any version.
//!
//! A 404 for a local kind may mean that the kind is gone, and with it all its objects. It may also mean a wrong
//! version, or a server that is not up to date. Only the server's discovery can tell these cases apart, if it is read
//! after the review arrived.

use std::fmt::Display;

use serde::Deserialize;

use crate::model::names::{GroupResource, GroupVersionResource};
use crate::model::percent_encoding::percent_encode;
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::response::Answer;
use crate::protocol::response_error::{cause_of, failure, response, something_else};

/// State of reading discovery.
#[derive(Debug)]
pub(crate) struct Discovery {
    gvr: GroupVersionResource,
    /// The versions of the group that are still to be read; `None` until the group is read.
    versions: Option<Vec<String>>,
}

/// Meaning of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// One more request is needed.
    More,
    /// The kind is served in no version: it has no objects.
    Nowhere,
    /// The answer is unknown, or the kind is served. The text says what to do, as the end of a sentence that begins
    /// with the kind.
    Unclear(Unresolved),
}

/// A limit above the number of versions that any group has.
const MAX_VERSIONS: usize = 64;

impl Discovery {
    pub(crate) fn new(gvr: GroupVersionResource) -> Self {
        Self { gvr, versions: None }
    }

    /// Returns the path of the next request.
    pub(crate) fn next(&self) -> String {
        let group = &self.gvr.group;
        match (self.versions.as_ref().and_then(|left| left.last()), group.is_core()) {
            (None, true) => "/api".to_owned(),
            (None, false) => format!("/apis/{group}"),
            (Some(version), true) => format!("/api/{version}"),
            (Some(version), false) => format!("/apis/{group}/{version}"),
        }
    }

    /// Takes the answer to [`Self::next`].
    pub(crate) fn answer(&mut self, answer: Answer<'_>) -> Served {
        let body = match answer {
            Answer::Response { status: 200, body } => body,
            Answer::Response { status: 404, .. } if self.versions.is_none() => return Served::Nowhere,
            Answer::Response { status: 404, .. } => return self.next_version(),
            Answer::Response { status, .. } => return unclear(cause_of(status), format_args!("HTTP {status}")),
            Answer::TooLarge => return unclear(Cause::ReadUnusable, "the answer is too large"),
            Answer::Failed(why) => return unclear(Cause::ReadFailed, why),
        };
        match self.versions {
            None => self.read_group(body),
            Some(_) => self.read_version(body),
        }
    }

    fn read_group(&mut self, body: &[u8]) -> Served {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum GroupVersion {
            Core(String),
            Named { version: String },
        }
        #[derive(Deserialize)]
        struct ApiGroup {
            versions: Vec<GroupVersion>,
        }
        let Ok(group) = serde_json::from_slice::<ApiGroup>(body) else {
            return unclear(Cause::ReadUnusable, "the answer lists no versions of the group");
        };
        let versions = group.versions.into_iter().map(|version| match version {
            GroupVersion::Core(version) | GroupVersion::Named { version } => version,
        });
        let versions: Vec<_> = versions.collect();
        let is_version = |v: &String| !v.is_empty() && v.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if versions.len() > MAX_VERSIONS || !versions.iter().all(is_version) {
            return unclear(Cause::ReadUnusable, "the answer lists invalid versions");
        }
        let none = versions.is_empty();
        self.versions = Some(versions);
        if none { Served::Nowhere } else { Served::More }
    }

    fn read_version(&mut self, body: &[u8]) -> Served {
        let Some(names) = resource_names(body) else {
            return unclear(Cause::ReadUnusable, "the answer lists no resources of the version");
        };
        if names.iter().any(|name| name == self.gvr.resource.as_str()) {
            let version = self.versions.as_ref().and_then(|left| left.last()).map_or("", String::as_str);
            let why = format!(
                "was answered with HTTP 404, but the API server serves {version}: set the rule's dependent.version to \
                 a served version, or retry later"
            );
            return Served::Unclear(Unresolved::new(Cause::KindNotServed, why));
        }
        self.next_version()
    }

    fn next_version(&mut self) -> Served {
        let Some(left) = &mut self.versions else { return Served::Nowhere };
        left.pop();
        if left.is_empty() { Served::Nowhere } else { Served::More }
    }
}

/// Read of one version of a group, to find out if it serves a resource, and by which kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KindRead {
    pub(crate) kind: GroupResource,
    pub(crate) version: String,
}

/// Answer to a [`KindRead`]: the kind; `None` if the version doesn't serve the resource. An error ends a sentence that
/// begins with the version.
pub(crate) type ServedKind = Result<Option<String>, Unresolved>;

impl KindRead {
    /// Returns the path of the request.
    pub(crate) fn path(&self) -> String {
        let version = percent_encode(&self.version);
        match self.kind.group.is_core() {
            true => format!("/api/{version}"),
            false => format!("/apis/{}/{version}", self.kind.group),
        }
    }

    /// Takes the answer.
    pub(crate) fn answer(&self, answer: Answer<'_>) -> ServedKind {
        let (status, body) = response(answer)?;
        match status {
            200 => {
                let resources = resources(body).ok_or_else(something_else)?;
                let mut own = resources.into_iter().filter(|resource| resource.name == self.kind.resource.as_str());
                Ok(own.next().map(|resource| resource.kind))
            }
            404 => Ok(None),
            status => Err(failure(status, body, "get it")),
        }
    }

    /// Returns the reason for which it is unknown if the version serves the kind, as a whole sentence.
    pub(crate) fn unknown(&self, why: Unresolved) -> Unresolved {
        let Self { kind, version } = self;
        why.about(format_args!("the read of version {version} of {kind}, which ownerReferences name,"))
    }
}

/// Returns the names of the resources that a version of a group serves, as in paths, with subresources. `None` if the
/// body doesn't list them.
pub(crate) fn resource_names(body: &[u8]) -> Option<Vec<String>> {
    Some(resources(body)?.into_iter().map(|resource| resource.name).collect())
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    #[serde(default)]
    kind: String,
}

fn resources(body: &[u8]) -> Option<Vec<ApiResource>> {
    #[derive(Deserialize)]
    struct ApiResourceList {
        resources: Vec<ApiResource>,
    }
    let list: ApiResourceList = serde_json::from_slice(body).ok()?;
    Some(list.resources)
}

fn unclear(cause: Cause, why: impl Display) -> Served {
    let why = format!("was answered with HTTP 404, and discovery failed: {why}; retry later");
    Served::Unclear(Unresolved::new(cause, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::names::{Group, Resource, Version};

    fn discovery(group: &str) -> Discovery {
        Discovery::new(GroupVersionResource {
            group: Group::parse(group).unwrap(),
            version: Version::parse("v1").unwrap(),
            resource: Resource::parse("vms").unwrap(),
        })
    }

    fn ok(body: &str) -> Answer<'_> {
        Answer::Response { status: 200, body: body.as_bytes() }
    }

    const GONE: Answer<'static> = Answer::Response { status: 404, body: b"" };

    #[test]
    fn a_group_that_is_not_served_has_no_objects() {
        let mut d = discovery("compute.example.com");
        assert_eq!(d.next(), "/apis/compute.example.com");
        assert_eq!(d.answer(GONE), Served::Nowhere);
    }

    #[test]
    fn every_version_is_asked() {
        let mut d = discovery("compute.example.com");
        assert_eq!(d.answer(ok(r#"{"versions":[{"version":"v1"},{"version":"v2"}]}"#)), Served::More);
        assert_eq!(d.next(), "/apis/compute.example.com/v2");
        assert_eq!(d.answer(ok(r#"{"resources":[{"name":"disks"},{"name":"vms/status"}]}"#)), Served::More);
        assert_eq!(d.next(), "/apis/compute.example.com/v1");
        assert_eq!(d.answer(GONE), Served::Nowhere);
    }

    #[test]
    fn a_kind_served_in_another_version_is_not_gone() {
        let mut d = discovery("");
        assert_eq!(d.next(), "/api");
        assert_eq!(d.answer(ok(r#"{"versions":["v1"]}"#)), Served::More);
        assert_eq!(d.next(), "/api/v1");
        let Served::Unclear(why) = d.answer(ok(r#"{"resources":[{"name":"vms"}]}"#)) else { panic!() };
        assert!(why.text().contains("the API server serves v1"), "{why}");
    }

    #[test]
    fn what_discovery_does_not_say_is_not_none() {
        for answer in [
            ok(""),
            ok("{}"),
            ok("[]"),
            ok(r#"{"versions":[{"version":"../x"}]}"#),
            ok(r#"{"versions":[{"version":""}]}"#),
            Answer::Response { status: 403, body: b"" },
            Answer::Response { status: 503, body: b"" },
            Answer::TooLarge,
            Answer::Failed("cut"),
        ] {
            assert!(matches!(discovery("g").answer(answer), Served::Unclear(_)), "{answer:?}");
            let mut d = discovery("g");
            assert_eq!(d.answer(ok(r#"{"versions":[{"version":"v1"}]}"#)), Served::More);
            assert!(matches!(d.answer(answer), Served::Unclear(_)), "{answer:?}");
        }
    }
}
