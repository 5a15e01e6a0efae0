//! Traces of reviews for OpenTelemetry: one span for a review, and one for each read that the review waits for.
//!
//! The spans name kinds, and no objects, users or workspaces. Whoever reads asks the task for the trace of its review; if
//! traces are off there is none, and nothing else is done.

mod otlp;
mod read_span;
mod review_trace;
mod traceparent;
mod tracer;

pub(crate) use read_span::{ReadSpan, ReadStats};
pub(crate) use review_trace::{About, note};
pub(crate) use tracer::{Tracer, WaitingTraces, collector};

/// Returns the resource in an API server's path with its group, such as `vpcs.network.example.com`: names of objects and
/// namespaces are left out.
fn resource_in(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let mut segments = path.split('/').filter(|segment| !segment.is_empty()).peekable();
    let group = match segments.next() {
        Some("api") => "",
        Some("apis") => segments.next().unwrap_or_default(),
        _ => return "other".to_owned(),
    };
    let _version = segments.next();
    let rest: Vec<_> = segments.collect();
    let resource = match rest.as_slice() {
        [] => return "discovery".to_owned(),
        ["namespaces", _, resource, ..] => resource,
        [resource, ..] => resource,
    };
    if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use depguard_core::lookup::Dependents;
    use depguard_core::model::{Resource, Version};
    use depguard_core::protocol::Accept;
    use depguard_core::{Group, GroupVersionResource};

    pub(super) fn dependents() -> Dependents {
        let gvr = GroupVersionResource {
            group: Group::parse("compute.example.com").unwrap(),
            version: Version::parse("v1").unwrap(),
            resource: Resource::parse("virtualmachines").unwrap(),
        };
        Dependents { cluster: None, export: None, gvr, namespace: None, accept: Accept::Json }
    }

    #[test]
    fn of_a_path_only_the_kind_is_told() {
        for (path, resource) in [
            ("/api/v1/namespaces/shop", "namespaces"),
            ("/api/v1/namespaces/shop/pods/web-1", "pods"),
            ("/apis/network.example.com/v1/vpcs?limit=500", "vpcs.network.example.com"),
            ("/apis/network.example.com/v1/namespaces/shop/vpcs/a?x=/y", "vpcs.network.example.com"),
            ("/apis/network.example.com/v1", "discovery"),
            ("/apis", "discovery"),
            ("/healthz", "other"),
            ("", "other"),
        ] {
            assert_eq!(resource_in(path), resource, "{path}");
        }
    }
}
