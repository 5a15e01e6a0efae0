//! Expiry of certificates. The parser reads a certificate only up to the end of its validity. The issuer, and the trust
//! in it, are left to TLS.

use jiff::civil::DateTime;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// Tag of the version, which the first certificates did not have.
const VERSION: u8 = 0xa0;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Returns the last second at which a certificate (DER) is valid, since 1970; `None` if the parser cannot read it.
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

/// Returns the expiry of the bundle's (PEM) last certificate. From then on, no certificate of the bundle vouches for
/// anybody.
pub fn bundle_expiry(pem: &[u8]) -> Option<i64> {
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    certificates.filter_map(|certificate| certificate_expiry(&certificate)).max()
}

/// Returns the content of the first value and the bytes behind it, if the value has this tag.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, length], rest) = der.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match length {
        0..0x80 => (usize::from(length), rest),
        _ => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            // A length of more than four bytes does not fit into memory.
            let length = (1..=4).contains(&bytes.len()).then_some(bytes)?;
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
    };
    rest.split_at_checked(length)
}

/// Reads `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, the only forms that RFC 5280 allows.
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
    let mut numbers = pairs.iter().map(|pair| i8::try_from(number(pair)?).ok());
    let mut next = || numbers.next().flatten();
    let time = DateTime::new(year, next()?, next()?, next()?, next()?, next()?, 0).ok()?;
    Some((time.duration_since(EPOCH).as_secs(), rest))
}

/// Returns the number that at most four digits make.
fn number(digits: &[u8]) -> Option<i16> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i16::from(digit - b'0')))
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
        // Seconds as printed by `date -u -d 2031-05-06 +%s` and so on.
        for ((year, month, day), seconds) in [
            ((1999, 12, 31), 946_598_400),
            ((2000, 3, 1), 951_868_800),
            ((2031, 5, 6), 1_935_792_000),
            ((2048, 2, 29), 2_466_547_200),
            ((2049, 12, 31), 2_524_521_600),
            ((2050, 1, 1), 2_524_608_000),
            ((2100, 3, 1), 4_107_542_400),
            ((4096, 1, 1), 67_090_118_400),
            ((9999, 12, 31), 253_402_214_400),
        ] {
            let certificate = certificate(year, month, day);
            assert_eq!(certificate_expiry(certificate.der()), Some(seconds), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn a_date_that_is_in_no_calendar_is_no_end() {
        let whole = certificate(2031, 5, 6).der().to_vec();
        let at = whole.windows(12).position(|window| window == b"310506000000").unwrap();
        let ends = |date: &[u8; 12]| {
            let mut der = whole.clone();
            der[at..at + 12].copy_from_slice(date);
            certificate_expiry(&der)
        };
        assert_eq!(ends(b"310507010203"), Some(1_935_792_000 + 86_400 + 3_723));
        for impossible in [b"310229000000", b"310431000000", b"311301000000", b"310500000000", b"310506240000"] {
            assert_eq!(ends(impossible), None, "{impossible:?}");
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
