//! Exact comparison of numbers: as floating-point numbers, different numbers may look equal.

/// Returns true if two literals are equal: numbers of one value, or twice the same literal.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    a == b || matches!((Decimal::read(a), Decimal::read(b)), (Some(a), Some(b)) if a.is(&b))
}

/// A decimal number: `0.d₁d₂d₃… × 10^point`. Neither the first nor the last digit is zero; zero has no digits.
struct Decimal<'n> {
    negative: bool,
    /// The digits before the dot, and the digits after it.
    digits: [&'n [u8]; 2],
    point: i64,
}

impl<'n> Decimal<'n> {
    /// Reads a number by JSON's grammar; `None` if it is no number, or if its exponent overflows.
    fn read(literal: &'n [u8]) -> Option<Self> {
        let unsigned = literal.strip_prefix(b"-");
        let (whole, rest) = leading_digits(unsigned.unwrap_or(literal));
        if whole.is_empty() || (whole.len() > 1 && whole.starts_with(b"0")) {
            return None;
        }
        let (fraction, rest) = match rest.strip_prefix(b".") {
            Some(rest) => Some(leading_digits(rest)).filter(|(fraction, _)| !fraction.is_empty())?,
            None => (&[][..], rest),
        };
        let exponent = match rest.split_first() {
            None => 0,
            Some((b'e' | b'E', rest)) => exponent(rest)?,
            Some(_) => return None,
        };
        let mut point = i64::try_from(whole.len()).ok()?.checked_add(exponent)?;
        let (mut whole, mut fraction) = (whole, fraction);
        loop {
            let leading = if whole.is_empty() { &mut fraction } else { &mut whole };
            let Some(rest) = leading.strip_prefix(b"0") else { break };
            *leading = rest;
            point = point.checked_sub(1)?;
        }
        loop {
            let trailing = if fraction.is_empty() { &mut whole } else { &mut fraction };
            let Some(rest) = trailing.strip_suffix(b"0") else { break };
            *trailing = rest;
        }
        Some(Self { negative: unsigned.is_some(), digits: [whole, fraction], point })
    }

    fn is(&self, other: &Self) -> bool {
        let (zero, other_zero) = (self.digits.concat().is_empty(), other.digits.concat().is_empty());
        if zero || other_zero {
            return zero == other_zero;
        }
        let all = |number: &Self| number.digits.concat();
        self.negative == other.negative && self.point == other.point && all(self) == all(other)
    }
}

fn leading_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

fn exponent(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text.split_first() {
        Some((b'-', digits)) => (-1, digits),
        Some((b'+', digits)) => (1, digits),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value =
        digits.iter().try_fold(0_i64, |value, digit| value.checked_mul(10)?.checked_add(i64::from(digit - b'0')))?;
    Some(sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_by_value() {
        for (a, b) in [
            ("1", "1.0"),
            ("1", "1e0"),
            ("10", "1E1"),
            ("10", "1e+1"),
            ("0.1", "1e-1"),
            ("0.010", "10e-3"),
            ("-0", "0"),
            ("0.0", "0e99"),
            ("1e400", "10e399"),
            ("true", "true"),
        ] {
            assert!(same(a.as_bytes(), b.as_bytes()) && same(b.as_bytes(), a.as_bytes()), "{a} {b}");
        }
        for (a, b) in [
            ("1", "2"),
            ("1", "-1"),
            ("1", "10"),
            ("1", "0.1"),
            ("9007199254740992", "9007199254740993"),
            ("0.1", "0.1000000000000000055511151231257827"),
            ("true", "false"),
            ("true", "1"),
            ("1e400", "1e401"),
            ("1", "01"),
            ("1", "1."),
            ("1", "1e"),
            ("1", "1e99999999999999999999"),
            ("0", "1"),
            ("101", "11"),
        ] {
            assert!(!same(a.as_bytes(), b.as_bytes()) && !same(b.as_bytes(), a.as_bytes()), "{a} {b}");
        }
    }
}
