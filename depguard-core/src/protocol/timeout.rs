//! Time limit of an answer, from the caller's `?timeout=`.
//!
//! The API server writes its time limit into the URL as a Go duration: `POST /validate?timeout=10s`. After that time
//! it hangs up, and nobody reads a later refusal.

use std::time::Duration;

use crate::model::go_duration::parse_duration;

/// The limit if the caller gives none, or none that can be read: the API server's own default.
const DEFAULT: Duration = Duration::from_secs(10);
/// The longest limit that is accepted: the longest that the API server allows a webhook.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the time that the answer to a review may take: the caller's limit, less a margin for the way back.
///
/// `query` is the query of the URL that the API server called, unchanged: `timeout=10s`. Without a limit, the API
/// server's own default of 10 s applies; a limit above 30 s counts as 30 s. The margin is a tenth, between 100 ms and
/// 1 s, and never more than half of the limit.
pub fn time_to_answer(query: Option<&str>) -> Duration {
    less_margin(of_query(query))
}

/// Returns the time limit in a URL's query, at most [`MAX_TIMEOUT`]; without one, [`DEFAULT`].
fn of_query(query: Option<&str>) -> Duration {
    let given = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("timeout="));
    given.and_then(parse_duration).unwrap_or(DEFAULT).min(MAX_TIMEOUT)
}

/// Returns the part of a time limit that is left for the work: a tenth, between 100 ms and 1 s, goes to the way back.
///
/// If the limit is so short that the margin would leave less than half of it, half of the limit is left.
fn less_margin(limit: Duration) -> Duration {
    let margin = (limit / 10).clamp(Duration::from_millis(100), Duration::from_secs(1));
    limit.saturating_sub(margin).max(limit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_gives_the_limit_or_the_default_does() {
        for (query, expected) in [
            (None, DEFAULT),
            (Some(""), DEFAULT),
            (Some("timeout=3s"), Duration::from_secs(3)),
            (Some("a=b&timeout=3s&c"), Duration::from_secs(3)),
            (Some("notimeout=3s"), DEFAULT),
            (Some("timeout=soon"), DEFAULT),
            (Some("timeout=0s"), DEFAULT),
            (Some("timeout=-5s"), DEFAULT),
            (Some("timeout=1h"), MAX_TIMEOUT),
            (Some("timeout=99999999999999999999999999h"), MAX_TIMEOUT),
        ] {
            assert_eq!(of_query(query), expected, "{query:?}");
        }
        let long = format!("timeout={}s", "9".repeat(400));
        assert_eq!(of_query(Some(&long)), MAX_TIMEOUT);
    }

    #[test]
    fn the_time_to_answer_is_what_the_caller_gives_less_the_margin() {
        for (query, left) in [(Some("a=b&timeout=5s"), 4_500), (None, 9_000), (Some("timeout=1h"), 29_000)] {
            assert_eq!(time_to_answer(query), Duration::from_millis(left), "{query:?}");
        }
    }

    #[test]
    fn the_margin_is_a_tenth_between_100_ms_and_1_s() {
        for (limit, left) in
            [(30_000, 29_000), (10_000, 9_000), (5_000, 4_500), (1_000, 900), (300, 200), (200, 100), (100, 50), (2, 1)]
        {
            assert_eq!(less_margin(Duration::from_millis(limit)), Duration::from_millis(left), "{limit} ms");
        }
    }
}
