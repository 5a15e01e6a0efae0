//! Servers of probes and metrics.

use std::net::SocketAddr;

use depguard_kcp::{Health, Metrics as Page, Probes, Reflector, register_watches};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::runtime::metrics::Metrics;
use crate::runtime::start_error::StartError;

/// Listeners of both, as far as they are configured.
#[derive(Debug)]
pub(crate) struct Serving {
    probes: Option<Probes>,
    page: Option<Page>,
    readiness: watch::Receiver<Health>,
}

impl Serving {
    /// Binds the addresses. `readiness` is the health that the rounds report.
    pub(crate) async fn bind(
        config: &Config,
        metrics: &Metrics,
        readiness: watch::Receiver<Health>,
    ) -> Result<Self, StartError> {
        let failed = |flag, address| move |why| StartError::Listen { address, flag, why };
        let probes = match config.probe_addr {
            Some(address) => Some(Probes::bind(address).await.map_err(failed("health-probe-bind-address", address))?),
            None => None,
        };
        let page = match config.metrics_addr {
            Some(address) => {
                let page = Page::bind(address, "controller", env!("CARGO_PKG_VERSION")).await;
                let (mut page, readiness) = (page.map_err(failed("metrics-bind-address", address))?, readiness.clone());
                metrics.register(page.registry(), move || health(&readiness) == Health::Ready);
                Some(page)
            }
            None => None,
        };
        Ok(Self { probes, page, readiness })
    }

    pub(crate) fn probe_addr(&self) -> Option<SocketAddr> {
        self.probes.as_ref().map(Probes::address)
    }

    pub(crate) fn metrics_addr(&self) -> Option<SocketAddr> {
        self.page.as_ref().map(Page::address)
    }

    /// Starts to answer. The metrics include the watches of `reflector`.
    pub(crate) fn start(self, reflector: &Reflector) -> Vec<JoinHandle<()>> {
        let Self { probes, mut page, readiness } = self;
        if let Some(page) = &mut page {
            register_watches(page.registry(), reflector.watches());
        }
        let probes = probes.map(|probes| tokio::spawn(probes.serve(move || health(&readiness))));
        let page = page.map(|page| tokio::spawn(page.serve()));
        probes.into_iter().chain(page).collect()
    }
}

/// Returns the last health that the rounds reported, or `Dead` if there will be no more rounds: every end of the rounds
/// drops the sender, even a panic.
fn health(readiness: &watch::Receiver<Health>) -> Health {
    if readiness.has_changed().is_err() { Health::Dead } else { readiness.borrow().clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rounds_that_have_panicked_are_dead_though_they_were_ready() {
        let (ready, readiness) = watch::channel(Health::NotReady(String::new()));
        ready.send_replace(Health::Ready);
        assert_eq!(health(&readiness), Health::Ready);
        let panicking = tokio::spawn(async move {
            let _ready = ready;
            panic!("as the test wants it");
        });
        assert!(panicking.await.is_err());
        assert_eq!(health(&readiness), Health::Dead);
    }
}
