//! What the TLS library doesn't tell of a certificate, and libpq's users rely on.

use rustls::pki_types::{CertificateDer, UnixTime};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::oid::db::rfc4519::CN;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Tells whether the certificate is in force at this time.
pub(super) fn is_in_force(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    Certificate::from_der(certificate).is_ok_and(|certificate| {
        let validity = certificate.tbs_certificate.validity;
        let (from, to) = (validity.not_before.to_unix_duration(), validity.not_after.to_unix_duration());
        (from.as_secs()..=to.as_secs()).contains(&now.as_secs())
    })
}

/// Tells whether the certificate is for this name by its subject, as those are that PostgreSQL's manual makes.
///
/// As libpq does it, only where it has no list of names: that would be the whole truth.
pub(super) fn is_named_by_subject(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let Ok(certificate) = Certificate::from_der(certificate) else { return false };
    let certificate = certificate.tbs_certificate;
    let has_names = match certificate.get::<SubjectAltName>() {
        Ok(None) => false,
        Ok(Some((_, SubjectAltName(names)))) => {
            names.iter().any(|name| matches!(name, GeneralName::DnsName(_) | GeneralName::IpAddress(_)))
        }
        Err(_) => true,
    };
    let mut attributes = certificate.subject.0.iter().flat_map(|part| part.0.iter());
    let common_name = attributes.find(|attribute| attribute.oid == CN);
    let common_name = common_name.and_then(|attribute| std::str::from_utf8(attribute.value.value()).ok());
    !has_names && common_name.is_some_and(|pattern| fits(pattern, host))
}

/// Tells whether a host fits a name, whose first label may be `*`.
fn fits(pattern: &str, host: &str) -> bool {
    let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    match pattern.strip_prefix("*.") {
        None => same(pattern, host),
        Some(rest) => {
            rest.contains('.')
                && host.split_once('.').is_some_and(|(first, others)| !first.is_empty() && same(rest, others))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let rows = [
            ("db.example", "db.example", true),
            ("DB.example", "db.Example", true),
            ("db.example", "xdb.example", false),
            ("*.example.org", "db.example.org", true),
            ("*.example.org", "a.db.example.org", false),
            ("*.example.org", "example.org", false),
            ("*.example.org", ".example.org", false),
            ("*.org", "example.org", false),
            ("*", "db", false),
            ("", "db", false),
        ];
        for (pattern, host, expected) in rows {
            assert_eq!(fits(pattern, host), expected, "{pattern} {host}");
        }
    }
}
