//! Times of requests, by how they ended.

use std::collections::BTreeMap;
use std::time::Duration;

use depguard_kcp::ApiError;
use serde_json::Value;

use crate::io::exit::Failure;
use crate::io::table::Table;
use crate::io::terminal::Terminal;

/// End of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// The object would be deleted.
    Allowed,
    /// Other objects refer to the object.
    Referenced,
    /// A webhook or a policy refuses for another reason.
    Refused,
    /// The object is gone.
    Gone,
    /// A webhook can't decide at the moment.
    PutOff,
    /// The API server takes no more requests at the moment.
    Throttled,
    /// The caller may not delete the object.
    Forbidden,
    /// The API server failed, or could not call a webhook.
    Failed,
    /// The API server did not answer.
    Unanswered,
}

/// Times of the requests.
#[derive(Debug, Default)]
pub(super) struct Times(BTreeMap<Verdict, Vec<Duration>>);

/// Reason of a cause that names a blocker.
const STILL_REFERENCED: &str = "StillReferenced";

impl Verdict {
    /// Returns the meaning of an answer to a deletion.
    pub(super) fn of(answer: &Result<Value, ApiError>) -> Self {
        let status = match answer {
            Ok(_) => return Self::Allowed,
            Err(ApiError::Refused { status, .. }) => status,
            Err(_) => return Self::Unanswered,
        };
        let is_by_admission = ["denied the request", "denied request"].iter().any(|said| status.message.contains(said));
        match status.code {
            _ if status.causes.iter().any(|cause| cause.reason == STILL_REFERENCED) => Self::Referenced,
            429 if is_by_admission => Self::PutOff,
            _ if is_by_admission => Self::Refused,
            429 => Self::Throttled,
            404 => Self::Gone,
            401 | 403 => Self::Forbidden,
            _ => Self::Failed,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Referenced => "still referenced",
            Self::Refused => "refused otherwise",
            Self::Gone => "gone",
            Self::PutOff => "put off (a webhook can't decide now)",
            Self::Throttled => "throttled (429)",
            Self::Forbidden => "forbidden (no right to delete)",
            Self::Failed => "failed",
            Self::Unanswered => "unanswered",
        }
    }

    /// Returns true if the request was decided.
    fn is_decided(self) -> bool {
        matches!(self, Self::Allowed | Self::Referenced | Self::Refused | Self::Gone)
    }
}

impl Times {
    /// Adds a request.
    pub(super) fn add(&mut self, verdict: Verdict, took: Duration) {
        self.0.entry(verdict).or_default().push(took);
    }

    /// Returns true if a request was not decided.
    pub(super) fn has_undecided(&self) -> bool {
        self.0.keys().any(|verdict| !verdict.is_decided())
    }

    /// Prints a row for each verdict, and one for all.
    pub(super) fn print(&self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut table = Table::new(["VERDICT", "REQUESTS", "P50", "P99", "MAX"]);
        for (verdict, times) in &self.0 {
            table.push(row(verdict.word(), times.clone()));
        }
        if self.0.len() > 1 {
            table.push(row("all", self.0.values().flatten().copied().collect()));
        }
        table.print(terminal)
    }
}

fn row(word: &str, mut times: Vec<Duration>) -> [String; 5] {
    times.sort_unstable();
    let [half, most, max] = [50, 99, 100].map(|percent| milliseconds(percentile(&times, percent)));
    [word.to_owned(), times.len().to_string(), half, most, max]
}

/// Returns the shortest time within which so many percent of the requests ended. The times are sorted.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    let rank = times.len().saturating_mul(percent).div_ceil(100);
    times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use depguard_kcp::{Cause, Status};

    use super::*;

    #[test]
    fn an_answer_is_told_by_who_refused() {
        let refused = |code, message: &str, reason: &str| {
            let cause = Cause { reason: reason.to_owned(), ..Cause::default() };
            let (message, causes) = (message.to_owned(), vec![cause]);
            let status = Status { code, reason: String::new(), message, name: String::new(), causes };
            Verdict::of(&Err(ApiError::Refused { request: "DELETE /a".to_owned(), status }))
        };
        assert_eq!(Verdict::of(&Ok(Value::Null)), Verdict::Allowed);
        let denied = "admission webhook \"a\" denied the request: …";
        for (code, message, reason, verdict, is_decided) in [
            (403, denied, STILL_REFERENCED, Verdict::Referenced, true),
            (403, denied, "ReadForbidden", Verdict::Refused, true),
            (422, "ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no", "", Verdict::Refused, true),
            (404, "vpcs \"a\" not found", "", Verdict::Gone, true),
            (429, denied, "RulesNotLoaded", Verdict::PutOff, false),
            (429, "Too many requests, please try again later.", "", Verdict::Throttled, false),
            (403, "vpcs \"a\" is forbidden: User \"u\" cannot delete", "", Verdict::Forbidden, false),
            (500, "failed calling webhook \"a\"", "", Verdict::Failed, false),
        ] {
            let found = refused(code, message, reason);
            assert_eq!((found, found.is_decided()), (verdict, is_decided), "{code} {message}");
        }
    }

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        let of = |percent| percentile(&times, percent).as_millis();
        assert_eq!([of(50), of(99), of(100)], [100, 198, 200]);
        assert_eq!(percentile(&[Duration::from_secs(7)], 50), Duration::from_secs(7));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }
}
