//! Idle timeout of a connection: hyper bounds neither an idle connection nor an HTTP/2 preface in time.

use std::sync::Arc;
use std::time::Duration;

use depguard_kcp::latest;
use tokio::sync::watch;
use tokio::time::timeout;

/// Time limit for the first request of a connection.
const FIRST_REQUEST: Duration = Duration::from_secs(30);
/// Time limit between two requests after that. API servers close idle connections after 90 s, and should do so before
/// us: a request that crosses our closing on its way fails.
const IDLE: Duration = Duration::from_secs(120);

/// Requests of one connection.
pub(crate) struct Activity {
    requests: Arc<watch::Sender<Requests>>,
}

#[derive(Clone, Copy, Default)]
struct Requests {
    begun: u64,
    running: u64,
}

/// Request under way; dropped when it is answered or given up.
pub(crate) struct Begun {
    requests: Arc<watch::Sender<Requests>>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { requests: Arc::new(watch::Sender::new(Requests::default())) }
    }

    /// Notes that a request has been read.
    pub(crate) fn begin(&self) -> Begun {
        self.requests.send_modify(|requests| {
            requests.begun = requests.begun.saturating_add(1);
            requests.running = requests.running.saturating_add(1);
        });
        Begun { requests: self.requests.clone() }
    }

    /// Waits until no request is under way.
    pub(crate) async fn idle(&self) {
        // The sender lives in `self`, so the wait has no other end.
        let _ = self.requests.subscribe().wait_for(|requests| requests.running == 0).await;
    }

    /// Waits until there has been no request for too long.
    pub(crate) async fn quiet(&self) {
        self.none_for(|requests| if requests.begun == 0 { FIRST_REQUEST } else { IDLE }).await;
    }

    /// Waits until there has been no request for this long, from now on.
    pub(crate) async fn quiet_for(&self, limit: Duration) {
        self.none_for(|_| limit).await;
    }

    async fn none_for(&self, limit: impl Fn(Requests) -> Duration) {
        let mut requests = self.requests.subscribe();
        loop {
            self.idle().await;
            let limit = limit(latest(&mut requests));
            if timeout(limit, requests.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.requests.send_modify(|requests| requests.running = requests.running.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_quiet_after_30_s() {
        let start = Instant::now();
        Activity::new().quiet().await;
        assert_eq!(start.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_under_way_is_never_quiet() {
        let activity = Activity::new();
        let begun = activity.begin();
        assert!(timeout(Duration::from_secs(3600), activity.quiet()).await.is_err());
        drop(begun);
        let start = Instant::now();
        activity.quiet().await;
        assert_eq!(start.elapsed().as_secs(), 120);
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_starts_the_wait_anew() {
        let activity = Activity::new();
        let start = Instant::now();
        let requests = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(25)).await;
                drop(activity.begin());
            }
        };
        tokio::join!(activity.quiet(), requests);
        assert_eq!(start.elapsed().as_secs(), 75 + 120);
    }
}
