//! Hosts that are shards of the kcp that depguard runs in.
//!
//! Endpoint slices of providers lie in the providers' workspaces, whose administrators can write any URL there. A host
//! that is asked sees our credentials.

use std::collections::BTreeSet;
use std::time::Duration;

use depguard_core::ExportName;
use http::Uri;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::http::connection::Connection;
use crate::tenancy::endpoint_slices::EndpointSlices;

/// Minimum time between two reads of depguard's own slices because of unknown hosts.
const FRESH: Duration = Duration::from_secs(5);
/// Pause after a failed read.
const FAILED: Duration = Duration::from_secs(1);
/// Time limit of a read. The request that waits for it has few seconds.
const SLICES_TIME: Duration = Duration::from_secs(2);
/// Maximum of characters of a slice's text that a message repeats.
const MAX_SHOWN: usize = 253;

const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";

/// Hosts to which credentials may be sent: the base URL's, those in the endpoint slices of depguard's own export, in
/// its own workspace, and those that the operator named.
#[derive(Debug)]
pub struct ShardHosts {
    connection: Connection,
    ours: EndpointSlices,
    named: Vec<String>,
    learnt: Mutex<HostCache>,
}

/// Hosts in depguard's own slices when they could last be read.
#[derive(Debug, Default)]
struct HostCache {
    hosts: BTreeSet<String>,
    /// Time before which the slices need no further read.
    next: Option<Instant>,
}

impl ShardHosts {
    /// Makes the set of trusted hosts. `export` is depguard's own. `named` are hosts without ports, or `*.example.com`
    /// for every host below.
    pub fn new(connection: Connection, export: &ExportName, named: Vec<String>) -> Self {
        let workspace = connection.own_workspace().map(str::to_owned);
        let ours = EndpointSlices { export: export.to_string(), workspace };
        Self { connection, ours, named, learnt: Mutex::default() }
    }

    /// The host of a URL that is none of a shard's, as far as is known, is the error.
    pub(crate) async fn check(&self, url: &str) -> Result<(), String> {
        let Some(host) = host(url) else { return Err(shown(url)) };
        let is_named = || self.named.iter().any(|pattern| is_of(&host, pattern));
        if is_host_of(&host, self.connection.base())
            || is_host_of(&host, self.connection.own_endpoint().url())
            || is_named()
        {
            return Ok(());
        }
        let mut learnt = self.learnt.lock().await;
        if !learnt.hosts.contains(&host) && learnt.next.is_none_or(|next| Instant::now() >= next) {
            // If the slices can't be read, the learnt hosts stay.
            let pause = match self.connection.own_endpoint().within(SLICES_TIME).list_json(SLICES).await {
                Ok(list) => {
                    let named = self.ours.named(&list.items);
                    learnt.hosts = named.endpoints.iter().filter_map(|url| self::host(url)).collect();
                    FRESH
                }
                Err(_) => FAILED,
            };
            learnt.next = Instant::now().checked_add(pause);
        }
        if learnt.hosts.contains(&host) { Ok(()) } else { Err(shown(&host)) }
    }
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

fn host(url: &str) -> Option<String> {
    url.parse::<Uri>().ok()?.host().map(str::to_ascii_lowercase)
}

fn is_host_of(host: &str, url: &str) -> bool {
    self::host(url).as_deref() == Some(host)
}

fn is_of(host: &str, pattern: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => suffix.starts_with('.') && host.len() > suffix.len() && ends_with(host, suffix),
        None => host.eq_ignore_ascii_case(pattern),
    }
}

fn ends_with(host: &str, suffix: &str) -> bool {
    host.to_ascii_lowercase().ends_with(&suffix.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_as_it_is_or_by_what_it_lies_below() {
        for (host, pattern, expected) in [
            ("shard-1.example.com", "shard-1.example.com", true),
            ("shard-1.example.com", "Shard-1.Example.com", true),
            ("shard-1.example.com", "*.example.com", true),
            ("example.com", "*.example.com", false),
            ("evil-example.com", "*.example.com", false),
            ("evil-example.com", "*example.com", false),
            ("shard-1.example.com.evil.test", "*.example.com", false),
            ("shard-1.example.com", "*", false),
            ("shard-1.example.com", "", false),
        ] {
            assert_eq!(is_of(host, pattern), expected, "{host} {pattern}");
        }
    }

    #[test]
    fn a_host_is_read_without_its_port_and_whoever_logs_in() {
        assert_eq!(host("https://Shard:6443/services").as_deref(), Some("shard"));
        assert_eq!(host("https://shard@evil.test/services").as_deref(), Some("evil.test"));
        assert_eq!(host("/services"), None);
    }
}
