//! Tracer: begins traces, and sends those that are over to a collector.

use std::sync::Arc;
use std::time::Duration;

use depguard_kcp::{CallError, Caller};
use http::HeaderMap;
use tokio::sync::mpsc;

use super::otlp;
use super::review_trace::ReviewTrace;
use crate::metrics::Metrics;
use crate::metrics::spans::SpanEnd;

/// Maximum number of reviews whose spans wait to be sent; those of further ones are dropped.
const MAX_WAITING: usize = 512;
/// Maximum number of reviews whose spans are sent together.
const MAX_TOGETHER: usize = 64;
/// Time limit of one request to the collector.
const MAX_SEND: Duration = Duration::from_secs(5);
/// Maximum length of the collector's answer, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// Tracer of reviews.
#[derive(Debug)]
pub(crate) struct Tracer {
    waiting: mpsc::Sender<Arc<ReviewTrace>>,
    metrics: Arc<Metrics>,
}

/// Traces that wait to be sent.
#[derive(Debug)]
pub(crate) struct WaitingTraces {
    traces: mpsc::Receiver<Arc<ReviewTrace>>,
    metrics: Arc<Metrics>,
}

/// Trace of a review under way. It ends when this is dropped, even if the review is given up.
struct Ending<'t> {
    tracer: &'t Tracer,
    trace: Arc<ReviewTrace>,
}

/// Returns a client of the collector at this base URL.
pub(crate) fn collector(base: &str) -> Result<Caller, CallError> {
    Caller::of_any_scheme(&format!("{}/v1/traces", base.trim_end_matches('/')))
}

impl Tracer {
    /// Makes a tracer, and the traces that somebody has to [send](WaitingTraces::send).
    pub(crate) fn new(metrics: Arc<Metrics>) -> (Self, WaitingTraces) {
        let (waiting, traces) = mpsc::channel(MAX_WAITING);
        (Self { waiting, metrics: Arc::clone(&metrics) }, WaitingTraces { traces, metrics })
    }

    /// Answers a review, whose request has these headers, within a trace.
    pub(crate) async fn trace<R>(&self, headers: &HeaderMap, answer: impl Future<Output = R>) -> R {
        let Some(trace) = ReviewTrace::begin(headers) else { return answer.await };
        let _ending = Ending { tracer: self, trace: Arc::clone(&trace) };
        trace.around(answer).await
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.trace.end();
        if self.tracer.waiting.try_send(Arc::clone(&self.trace)).is_err() {
            self.tracer.metrics.spans.ended(SpanEnd::Dropped, otlp::count(&self.trace));
        }
    }
}

impl WaitingTraces {
    /// Sends the traces to `collector`, each once, until there are no more.
    pub(crate) async fn send(mut self, collector: Caller) {
        let mut traces = Vec::new();
        let mut fails = false;
        while self.traces.recv_many(&mut traces, MAX_TOGETHER).await > 0 {
            let (request, spans) = otlp::request(&traces);
            traces.clear();
            let sent = collector.post(request, MAX_ANSWER, MAX_SEND).await;
            self.metrics.spans.ended(if sent.is_ok() { SpanEnd::Exported } else { SpanEnd::Failed }, spans);
            match (&sent, fails) {
                (Err(why), false) => tracing::warn!("spans can't be sent to the collector: {why}"),
                (Ok(_), true) => tracing::info!("spans are sent to the collector again"),
                _ => {}
            }
            fails = sent.is_err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::ReadSpan;
    use crate::traces::tests::dependents;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    async fn review(tracer: &Tracer) {
        tracer.trace(&HeaderMap::new(), async { drop(ReadSpan::list(&dependents())) }).await;
    }

    #[tokio::test]
    async fn what_waits_has_a_bound_and_the_rest_is_counted() {
        let metrics = Arc::new(Metrics::default());
        let (tracer, _waiting) = Tracer::new(Arc::clone(&metrics));
        for _ in 0..MAX_WAITING + 10 {
            review(&tracer).await;
        }
        let (mut registry, mut text) = (Registry::default(), String::new());
        metrics.register(&mut registry);
        encode(&mut text, &registry).unwrap();
        assert!(text.contains("depguard_spans_total{result=\"dropped\"} 20\n"), "{text}");
    }

    #[tokio::test]
    async fn a_review_or_a_read_that_is_given_up_has_its_span() {
        let (tracer, mut waiting) = Tracer::new(Arc::default());
        let endless = async {
            let _read = ReadSpan::list(&dependents());
            std::future::pending::<()>().await;
        };
        let given_up = tokio::time::timeout(Duration::from_millis(1), tracer.trace(&HeaderMap::new(), endless)).await;
        assert!(given_up.is_err());
        let trace = waiting.traces.recv().await.unwrap();
        let stats: Vec<_> = trace.state().reads.iter().map(|read| read.stats).collect();
        assert_eq!(stats, [None]);
    }

    #[tokio::test]
    async fn the_reads_of_one_trace_have_a_bound() {
        let (tracer, mut waiting) = Tracer::new(Arc::default());
        tracer.trace(&HeaderMap::new(), async { (0..100).for_each(|_| drop(ReadSpan::list(&dependents()))) }).await;
        let trace = waiting.traces.recv().await.unwrap();
        let state = trace.state();
        assert_eq!((state.reads.len(), state.dropped), (64, 36));
    }
}
