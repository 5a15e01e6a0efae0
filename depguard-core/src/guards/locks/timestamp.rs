//! Points in time, in the form that objects have: without a clock.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::DateTime;

/// A point in time, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// Seconds of 400 years, after which the calendar repeats itself.
const CALENDAR: i64 = 146_097 * 86_400;

impl Timestamp {
    /// Creates a point in time from milliseconds since the beginning of 1970, in UTC.
    pub fn from_unix_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Reads an RFC 3339 timestamp, such as `2026-12-01T00:00:00Z`. A fraction of a millisecond is rounded up.
    pub fn parse(text: &str) -> Option<Self> {
        let (local, rest) = text.split_at_checked(19)?;
        if !is_date_and_time(local) {
            return None;
        }
        // A leap second counts as the second after it; the calendar reads it as the second before.
        let leap = i64::from(local.ends_with(":60"));
        let local: DateTime = local.parse().ok()?;
        let (millis, zone) = fraction(rest.as_bytes())?;
        let seconds = local.duration_since(EPOCH).as_secs() + leap - offset(zone)?;
        Some(Self(seconds * 1000 + millis))
    }

    /// Returns a later point in time; if that is out of range, the last one.
    pub fn after(self, millis: u64) -> Self {
        Self(self.0.saturating_add_unsigned(millis))
    }
}

impl fmt::Display for Timestamp {
    /// Prints the form that API servers write, without fractions of a second: `2026-12-01T00:00:00Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1000);
        // The calendar knows the years up to 9999 only: later ones look like one of the 400 years after 1970.
        let (rounds, seconds) = (seconds.div_euclid(CALENDAR), seconds.rem_euclid(CALENDAR));
        let local = EPOCH.saturating_add(SignedDuration::from_secs(seconds));
        let (year, month, day) = (i64::from(local.year()) + 400 * rounds, local.month(), local.day());
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", local.hour(), local.minute(), local.second())
    }
}

/// Reads a duration such as `2h` or `1h30m`, in milliseconds: hours, minutes and seconds, longer than zero and at
/// most ten years.
pub(super) fn duration(text: &str) -> Option<u64> {
    const MAX_SECONDS: u64 = 10 * 366 * 86_400;
    let (mut seconds, mut rest) = (0_u64, text);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = rest.split_at_checked(digits)?;
        let each = match unit.bytes().next()? {
            b'h' => 3600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        let number: u64 = if digits > 6 { return None } else { number.parse().ok()? };
        seconds = seconds.checked_add(number * each)?;
        rest = unit.get(1..)?;
    }
    (1..=MAX_SECONDS).contains(&seconds).then_some(seconds * 1000)
}

/// Returns true if the text has the form that RFC 3339 demands. The calendar reads others too: a space for the `T`, a
/// comma for a point, fewer digits.
fn is_date_and_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let fits = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte.eq_ignore_ascii_case(form),
    };
    text.len() == FORM.len() && text.bytes().zip(FORM).all(fits)
}

fn digit(byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}

/// Returns the milliseconds of a fraction, and the bytes after it.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(rest) = rest.strip_prefix(b".") else { return Some((0, rest)) };
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, zone) = rest.split_at_checked(len).filter(|_| len > 0)?;
    let place = |at: usize| digits.get(at).copied().and_then(digit).unwrap_or_default();
    let finer = digits.iter().skip(3).any(|byte| *byte != b'0');
    Some((place(0) * 100 + place(1) * 10 + place(2) + i64::from(finer), zone))
}

/// Returns the number of seconds by which a zone is ahead of UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    let (sign, [h0, h1, b':', m0, m1]) = (match zone {
        b"Z" | b"z" => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    }) else {
        return None;
    };
    let (hours, minutes) = (digit(*h0)? * 10 + digit(*h1)?, digit(*m0)? * 10 + digit(*m1)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn timestamps_are_read_as_rfc_3339_says() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-12-01T00:00:00Z", 1_796_083_200_000),
            ("2024-02-29T23:59:59Z", 1_709_251_199_000),
            ("2026-12-01t02:30:00+02:30", 1_796_083_200_000),
            ("2026-11-30T23:00:00-01:00", 1_796_083_200_000),
            ("1969-12-31T23:59:59.5z", -500),
            ("1970-01-01T00:00:00.0001Z", 1),
            ("1970-01-01T00:00:00.120000Z", 120),
        ] {
            assert_eq!(Timestamp::parse(text), Some(Timestamp(millis)), "{text}");
        }
        for text in [
            "",
            "2026-12-01",
            "2026-12-01T00:00:00",
            "2026-12-01 00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-12-01T24:00:00Z",
            "2026-12-01T00:00:00.Z",
            "2026-12-01T00:00:00ZZ",
            "2026-12-01T00:00:00+25:00",
            "2026-12-01T00:00:00+0100",
            "+026-12-01T00:00:00Z",
            "2026-12-01T00:00:0é",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    /// The calendar's crate reads more forms than RFC 3339 has, and fewer years than a number of milliseconds has.
    #[test]
    fn the_calendars_own_forms_and_limits_do_not_show() {
        for (text, millis) in [
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("2016-12-31T23:59:60.25+00:30", 1_483_227_000_250),
            ("2026-12-01T00:00:60Z", 1_796_083_260_000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            ("0000-01-01T00:00:00+23:59", -62_167_305_540_000),
            ("9999-12-31T23:59:60Z", 253_402_300_800_000),
            ("9999-12-31T23:59:59.9999-23:59", 253_402_387_140_000),
            ("2026-12-01T00:00:00.123456789012345678901Z", 1_796_083_200_124),
            ("2026-12-01T00:00:00-00:00", 1_796_083_200_000),
        ] {
            assert_eq!(Timestamp::parse(text), Some(Timestamp(millis)), "{text}");
        }
        for text in [
            "2026-12-01T00:00:61Z",
            "2026-12-01T00:60:00Z",
            "2026-00-01T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2026-12-01T00:00Z",
            "2026-12-01T00:00:00,5Z",
            "20261201T000000Z",
            "20261201T000000.123Z",
            "-002026-12-01T00:00:00Z",
            "2026-12-01T00:00:00+24:00",
            "2026-12-01T00:00:00+01",
            "2026-12-01T00:00:00+01:00:00",
            "2026-12-01T00:00:00+01:00[Europe/Berlin]",
            "2026-12-01T00:00:00Z[UTC]",
            "2026-W49-2T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
        for (millis, text) in [
            (i64::MIN, "-292275055-05-16T16:47:04Z"),
            (-62_167_219_201_000, "-001-12-31T23:59:59Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59Z"),
            (253_402_300_800_000, "10000-01-01T00:00:00Z"),
            (i64::MAX, "292278994-08-17T07:12:55Z"),
        ] {
            assert_eq!(Timestamp(millis).to_string(), text, "{millis}");
        }
    }

    #[test]
    fn durations_are_hours_minutes_and_seconds() {
        for (text, seconds) in [("2h", 7200), ("1h30m", 5400), ("90s", 90), ("1m1s", 61)] {
            assert_eq!(duration(text), Some(seconds * 1000), "{text}");
        }
        for text in ["", "2", "h", "0s", "1d", "-1h", "1.5h", "9999999s", "999999h", "1h ", "1hé"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_as_the_same(seconds in -62_135_596_800_i64..253_402_300_800) {
            let moment = Timestamp(seconds * 1000);
            prop_assert_eq!(Timestamp::parse(&moment.to_string()), Some(moment));
        }

        #[test]
        fn any_text_is_read_or_not(text in ".{0,40}") {
            let _ = (Timestamp::parse(&text), duration(&text));
        }
    }
}
