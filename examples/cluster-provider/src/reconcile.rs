//! Common parts of all reconcilers.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube_runtime::Controller;
use kube_runtime::controller::Action;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::api::{Kind, Object};
use crate::{Error, Result};

/// Pause before a failed look is repeated.
const AGAIN: Duration = Duration::from_secs(3);

/// Time limit of one look. A server that never answers must not block an object for ever.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Runs a reconciler until it is told to stop. Looks in progress are finished first.
pub(crate) async fn run<K: Kind, C: Send + Sync + 'static, F>(
    controller: Controller<Object<K>>,
    mut reconcile: impl FnMut(Arc<Object<K>>, Arc<C>) -> F,
    context: Arc<C>,
    stop: CancellationToken,
) where
    F: Future<Output = Result<Action>> + Send + 'static,
{
    let failed = |object: Arc<Object<K>>, error: &Error, _| {
        // Another client wrote the object meanwhile. That change causes the next look.
        match error.status() {
            Some(409) => debug!("{}: {}", object.shown(), error.in_full()),
            _ => warn!("{}: {}", object.shown(), error.in_full()),
        }
        Action::requeue(AGAIN)
    };
    let bounded = move |object, context| {
        let done = timeout(MAX_DELAY, reconcile(object, context));
        async move {
            let too_late = |_| Error::Refused(format!("no API server answered within {} s", MAX_DELAY.as_secs()));
            done.await.map_err(too_late)?
        }
    };
    controller
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(bounded, failed, context)
        .for_each(async |done| {
            if let Err(kube_runtime::controller::Error::QueueError(error)) = done {
                warn!("cannot watch {}: {error}", K::PLURAL);
            }
        })
        .await;
}
