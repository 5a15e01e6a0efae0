//! Ages and durations, as kubectl prints them.

use k8s_openapi::jiff::Timestamp;

/// Formats a duration like kubectl: `45s`, `12m`, `5h`, `3d`, `2y`.
pub(crate) fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        172_800..63_072_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

/// Formats the age of a time such as `2026-01-01T00:00:00Z`; empty if the time can't be read.
pub(crate) fn since(time: &str, now: Timestamp) -> String {
    let then: Option<Timestamp> = time.parse().ok();
    then.map(|then| span(now.as_second().saturating_sub(then.as_second()))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_as_kubectl_has_them() {
        for (seconds, expected) in
            [(-5, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172_800, "2d"), (63_072_000, "2y")]
        {
            assert_eq!(span(seconds), expected);
        }
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        assert_eq!(since("2026-01-01T00:00:00Z", now), "10m");
        assert_eq!(since("yesterday", now), "");
    }
}
