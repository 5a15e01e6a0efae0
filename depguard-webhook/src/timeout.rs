//! How long an answer may take: what the caller's `?timeout=` leaves.
//!
//! The API server writes its time limit into the URL as a Go duration: `POST /validate?timeout=10s`. It hangs up when
//! that is over, and a refusal that comes later is one that nobody reads.

use std::time::Duration;

/// What is used where the caller gives no limit, or none that can be read: the API server's own default.
pub(crate) const DEFAULT: Duration = Duration::from_secs(10);
/// The longest that a caller is believed to wait: the longest that the API server allows a webhook.
pub(crate) const MAX: Duration = Duration::from_secs(30);

/// The time limit in a URL's query, at most [`MAX`], or [`DEFAULT`].
pub(crate) fn of_query(query: Option<&str>) -> Duration {
    let given = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("timeout="));
    given.and_then(parse).unwrap_or(DEFAULT).min(MAX)
}

/// What a time limit leaves for the work: a tenth of it, between 100 ms and 1 s, goes to the way back.
///
/// A limit so short that the margin would eat it up is halved.
pub(crate) fn less_margin(limit: Duration) -> Duration {
    let margin = (limit / 10).clamp(Duration::from_millis(100), Duration::from_secs(1));
    limit.saturating_sub(margin).max(limit / 2)
}

/// A positive Go duration: `10s`, `1m30s`, `1.5s`, `500ms`.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut nanos = 0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(unit)?;
        nanos += number.parse::<f64>().ok()? * nanos_of(unit)?;
        rest = tail;
    }
    // Whatever is too long for a duration is cut to the maximum anyway.
    (nanos >= 1.0).then(|| Duration::try_from_secs_f64(nanos / 1e9).unwrap_or(Duration::MAX))
}

fn nanos_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read() {
        for (text, millis) in [
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("1.5s", 1_500),
            (".5s", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1s500ms", 1_500),
            ("+3s", 3_000),
            ("250000us", 250),
            ("250000µs", 250),
            ("1000000000ns", 1_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_not_a_limit() {
        for text in
            ["", "0", "0s", "10", "s", "-1s", "1 s", "1d", "10S", "1..5s", ".s", "1s1", "NaNs", "infs", "1e3s", "10%73"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

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
            (Some("timeout=1h"), MAX),
            (Some("timeout=99999999999999999999999999h"), MAX),
        ] {
            assert_eq!(of_query(query), expected, "{query:?}");
        }
        let long = format!("timeout={}s", "9".repeat(400));
        assert_eq!(of_query(Some(&long)), MAX);
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
