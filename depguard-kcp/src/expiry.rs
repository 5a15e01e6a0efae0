//! When certificates end. Of a certificate that is only, and only as far as the end of its validity, read: who issued it
//! and whether that is to be believed is for TLS to find out.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which the first certificates did not have.
const VERSION: u8 = 0xa0;

/// The last second at which a certificate (DER) is good, since 1970. `None`: that can't be read.
pub fn certificate_expiry(der: &[u8]) -> Option<i64> {
    let (certificate, _) = value(der, SEQUENCE)?;
    let (mut fields, _) = value(certificate, SEQUENCE)?;
    if let Some((_, rest)) = value(fields, VERSION) {
        fields = rest;
    }
    let (_serial, fields) = value(fields, INTEGER)?;
    let (_algorithm, fields) = value(fields, SEQUENCE)?;
    let (_issuer, fields) = value(fields, SEQUENCE)?;
    let (validity, _) = value(fields, SEQUENCE)?;
    let (_from, until) = time(validity)?;
    time(until).map(|(until, _)| until)
}

/// When the last certificate of a bundle (PEM) ends: from then on nobody is known by it.
pub fn bundle_expiry(pem: &[u8]) -> Option<i64> {
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    certificates.filter_map(|certificate| certificate_expiry(&certificate)).max()
}

/// The content of the value that begins here, if it has this tag, and what is behind it.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, length], rest) = der.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match length {
        0..0x80 => (usize::from(length), rest),
        _ => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            // Nothing that is longer than four bytes can tell is in memory.
            let length = (1..=4).contains(&bytes.len()).then_some(bytes)?;
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
    };
    rest.split_at_checked(length)
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, the only ways that RFC 5280 allows.
fn time(der: &[u8]) -> Option<(i64, &[u8])> {
    let (text, digits_of_year, rest) = match value(der, UTC_TIME) {
        Some((text, rest)) => (text, 2, rest),
        None => value(der, GENERALIZED_TIME).map(|(text, rest)| (text, 4, rest))?,
    };
    let text = text.strip_suffix(b"Z").filter(|text| text.len() == digits_of_year + 10)?;
    let (year, others) = text.split_at_checked(digits_of_year)?;
    let year = match (number(year)?, digits_of_year) {
        (year, 4) => year,
        (year @ 50.., _) => year + 1900,
        (year, _) => year + 2000,
    };
    let (pairs, _) = others.as_chunks::<2>();
    let mut numbers = pairs.iter().map(|pair| number(pair));
    let mut next = || numbers.next().flatten();
    let (month, day, hour, minute, second) = (next()?, next()?, next()?, next()?, next()?);
    let days = days(year, month, day)?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second, rest))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

/// The days from 1970-01-01 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let before = BEFORE.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    // The leap days before this year, and this year's where it is behind it.
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let until = if month > 2 { year } else { year - 1 };
    Some((year - 1970) * 365 + leaps(until) - leaps(1969) + before + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    fn certificate(year: i32, month: u8, day: u8) -> rcgen::Certificate {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(1971, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, month, day);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap()
    }

    #[test]
    fn the_end_of_a_certificate_is_read_whichever_way_it_is_written() {
        // `date -u -d 2031-05-06 +%s` and so on.
        for ((year, month, day), seconds) in [
            ((1999, 12, 31), 946_598_400),
            ((2000, 3, 1), 951_868_800),
            ((2031, 5, 6), 1_935_792_000),
            ((2048, 2, 29), 2_466_547_200),
            ((2049, 12, 31), 2_524_521_600),
            ((2050, 1, 1), 2_524_608_000),
            ((2100, 3, 1), 4_107_542_400),
            ((4096, 1, 1), 67_090_118_400),
        ] {
            let certificate = certificate(year, month, day);
            assert_eq!(certificate_expiry(certificate.der()), Some(seconds), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn a_bundle_ends_with_its_last_certificate() {
        let pem = [certificate(2031, 5, 6).pem(), certificate(2048, 2, 29).pem()].concat();
        assert_eq!(bundle_expiry(pem.as_bytes()), Some(2_466_547_200));
        assert_eq!(bundle_expiry(b"nothing"), None);
    }

    #[test]
    fn a_cut_certificate_has_no_end() {
        let whole = certificate(2031, 5, 6);
        for end in 0..whole.der().len() {
            assert_eq!(certificate_expiry(&whole.der()[..end]), None, "{end}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(noise in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..400) {
            certificate_expiry(&noise);
            static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| certificate(2031, 5, 6).der().to_vec());
            let mut der = WHOLE.clone();
            for (place, byte) in der.iter_mut().skip(at).zip(&noise) {
                *place = *byte;
            }
            certificate_expiry(&der);
        }
    }
}
