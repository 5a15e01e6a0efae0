//! Results of scenarios, and waiting for a state that takes its time.

use std::fmt;
use std::time::{Duration, Instant};

/// A scenario's result.
pub type Outcome<T = ()> = Result<T, Stop>;

/// Reason for which a scenario ends before its last line.
#[derive(Debug)]
pub enum Stop {
    /// Something was not as the scenario expects.
    Failed(String),
    /// A control has reached its aim: without depguard, the deletion that depguard refuses went through.
    ControlSeen,
    /// The scenario or check cannot run here, for this reason.
    Skipped(String),
}

impl Stop {
    /// Builds a failure with this message.
    pub fn failed(message: impl Into<String>) -> Stop {
        Stop::Failed(message.into())
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Failed(message) | Stop::Skipped(message) => f.write_str(message),
            Stop::ControlSeen => f.write_str("the deletion went through"),
        }
    }
}

impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Stop {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            message = format!("{message}: {error}");
            source = error.source();
        }
        Stop::Failed(message)
    }
}

/// Fails with `message()` unless `condition`.
pub fn ensure(condition: bool, message: impl FnOnce() -> String) -> Outcome {
    if condition { Ok(()) } else { Err(Stop::Failed(message())) }
}

/// Repeats `attempt` until it succeeds or `patience` is over; then fails and names `what` and the last attempt's
/// failure.
pub async fn eventually<T>(what: &str, patience: Duration, mut attempt: impl AsyncFnMut() -> Outcome<T>) -> Outcome<T> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(10);
    loop {
        let last = match attempt().await {
            Err(Stop::Failed(message)) => message,
            done => return done,
        };
        if start.elapsed() > patience {
            return Err(Stop::Failed(format!("{what}: not within {} s: {last}", patience.as_secs())));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn what_never_comes_fails_with_the_last_reason() {
        let outcome = block_on(eventually("a miracle", Duration::from_millis(30), async || {
            Err::<(), _>(Stop::failed("still nothing"))
        }));
        assert_eq!(outcome.unwrap_err().to_string(), "a miracle: not within 0 s: still nothing");
    }

    #[test]
    fn what_comes_late_is_waited_for() {
        let mut tries = 0;
        let outcome = block_on(eventually("the third try", Duration::from_secs(5), async || {
            tries += 1;
            if tries < 3 { Err(Stop::failed("too early")) } else { Ok(tries) }
        }));
        assert_eq!(outcome.unwrap(), 3);
    }
}
