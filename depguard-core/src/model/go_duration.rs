//! Durations in Go's syntax, which Kubernetes uses in flags and URLs.

use std::time::Duration;

/// Reads a positive Go duration: `10s`, `1m30s`, `1.5s`, `500ms`. A duration that is too long for [`Duration`]
/// becomes [`Duration::MAX`].
pub fn parse_duration(text: &str) -> Option<Duration> {
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
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_not_a_limit() {
        for text in
            ["", "0", "0s", "10", "s", "-1s", "1 s", "1d", "10S", "1..5s", ".s", "1s1", "NaNs", "infs", "1e3s", "10%73"]
        {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
