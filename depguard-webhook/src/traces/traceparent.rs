//! The header `traceparent` of the W3C's Trace Context, by which a caller gives its trace.

use http::HeaderMap;

/// Trace and span of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traceparent {
    pub(super) trace: u128,
    pub(super) span: u64,
    /// True if the caller records its own span.
    pub(super) is_sampled: bool,
}

impl Traceparent {
    /// Reads the header; `None` if there is none, or if it says nothing valid: then the review begins a trace of its own.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers.get("traceparent")?.to_str().ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.trim().splitn(5, '-');
        let [version, trace, span, flags] = [fields.next()?, fields.next()?, fields.next()?, fields.next()?];
        let version = hex(version, 2)?;
        // Later versions may have more fields, the first has none, and the last number is no version.
        if version == 255 || (version == 0 && fields.next().is_some()) {
            return None;
        }
        let (trace, span) = (hex(trace, 32)?, u64::try_from(hex(span, 16)?).ok()?);
        let is_sampled = hex(flags, 2)? & 1 == 1;
        (trace != 0 && span != 0).then_some(Self { trace, span, is_sampled })
    }
}

fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    let is_number = text.len() == digits && text.bytes().all(is_hex);
    u128::from_str_radix(text, 16).ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_w3c_says_is_read_and_the_rest_is_not() {
        let parse = |text: &str| Traceparent::parse(text);
        let example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parsed = parse(example).unwrap();
        assert_eq!((parsed.trace, parsed.span), (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7));
        assert!(parsed.is_sampled && !parse(&example.replace("-01", "-00")).unwrap().is_sampled);
        assert_eq!(parse(&format!("cc{}-more", &example[2..])), Some(parsed), "a later version");
        for wrong in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902bé-01",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
