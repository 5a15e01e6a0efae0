#[cfg(feature = "metrics")]
pub(crate) mod certificate_expiry;
#[cfg(feature = "metrics")]
pub(crate) mod file_watch;
#[cfg(feature = "metrics")]
pub(crate) mod lazy_gauges;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
pub(crate) mod path_key;
#[cfg(any(feature = "probes", feature = "metrics"))]
pub(crate) mod plain_http;
#[cfg(feature = "probes")]
pub(crate) mod probes;
pub(crate) mod register_key;
#[cfg(feature = "metrics")]
pub(crate) mod reload_metrics;
