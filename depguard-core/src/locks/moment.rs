//! Points in time, as objects write them: without a clock.

use std::fmt;

/// A point in time, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

const DAY: i64 = 86_400;

impl Moment {
    /// So many milliseconds after 1970 began, in UTC.
    pub fn from_unix_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Reads an RFC 3339 timestamp, such as `2026-12-01T00:00:00Z`. What is finer than a millisecond is rounded up.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (date, rest) = bytes.split_at_checked(19)?;
        let [y0, y1, y2, y3, b'-', o0, o1, b'-', d0, d1, b'T' | b't', h0, h1, b':', m0, m1, b':', s0, s1] = date else {
            return None;
        };
        let two = |a: &u8, b: &u8| Some(digit(*a)? * 10 + digit(*b)?);
        let year = two(y0, y1)? * 100 + two(y2, y3)?;
        let (month, day) = (two(o0, o1)?, two(d0, d1)?);
        // A leap second counts as the one that follows.
        let (hour, minute, second) = (two(h0, h1)?, two(m0, m1)?, two(s0, s1)?);
        if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
            return None;
        }
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let (millis, zone) = fraction(rest)?;
        let seconds = days_since_1970(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset(zone)?;
        Some(Self(seconds * 1000 + millis))
    }

    /// So much later; the last there is, where that is beyond it.
    pub fn after(self, millis: u64) -> Self {
        Self(self.0.saturating_add_unsigned(millis))
    }
}

impl fmt::Display for Moment {
    /// As an API server writes it: `2026-12-01T00:00:00Z`. What is finer than a second is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1000);
        let (year, month, day) = date(seconds.div_euclid(DAY));
        let rest = seconds.rem_euclid(DAY);
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
    }
}

/// Reads a duration such as `2h` or `1h30m`, in milliseconds: hours, minutes and seconds, more than nothing and at most
/// ten years.
pub(super) fn duration(text: &str) -> Option<u64> {
    const MOST: u64 = 10 * 366 * 86_400;
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
    (1..=MOST).contains(&seconds).then_some(seconds * 1000)
}

fn digit(byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}

/// The milliseconds of a fraction, and what follows it.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(rest) = rest.strip_prefix(b".") else { return Some((0, rest)) };
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, zone) = rest.split_at_checked(len).filter(|_| len > 0)?;
    let place = |at: usize| digits.get(at).copied().and_then(digit).unwrap_or_default();
    let finer = digits.iter().skip(3).any(|byte| *byte != b'0');
    Some((place(0) * 100 + place(1) * 10 + place(2) + i64::from(finer), zone))
}

/// How many seconds a zone is ahead of UTC.
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

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days are counted in years that begin in March, so that a leap day is the last one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + (153 * month + 2) / 5 + day - 1 - 719_468
}

fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let in_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
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
            assert_eq!(Moment::parse(text), Some(Moment(millis)), "{text}");
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
            assert_eq!(Moment::parse(text), None, "{text}");
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
            let moment = Moment(seconds * 1000);
            prop_assert_eq!(Moment::parse(&moment.to_string()), Some(moment));
        }

        #[test]
        fn any_text_is_read_or_not(text in ".{0,40}") {
            let _ = (Moment::parse(&text), duration(&text));
        }
    }
}
