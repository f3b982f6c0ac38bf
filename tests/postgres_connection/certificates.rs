//! Certificates, made for one test.

use std::path::Path;

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::server::write_private;

/// An authority.
pub(crate) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Signs a certificate and writes it, and its key, as `NAME.crt` and `NAME.key`.
    pub(crate) fn sign(&self, folder: &Path, name: &str, subject: &str, hosts: &[&str]) {
        let key = KeyPair::generate().expect("a key");
        let certificate = named(subject, hosts).signed_by(&key, &self.issuer).expect("a certificate");
        write(folder, name, &certificate, &key);
    }
}

/// Writes a certificate that signs itself, as PostgreSQL's manual makes it: an authority's, with a subject and no names.
pub(crate) fn write_self_signed(folder: &Path, name: &str, subject: &str) {
    let mut params = named(subject, &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    write(folder, name, &params.self_signed(&key).expect("a certificate"), &key);
}

fn write(folder: &Path, name: &str, certificate: &Certificate, key: &KeyPair) {
    write_private(&folder.join(format!("{name}.crt")), &certificate.pem());
    write_private(&folder.join(format!("{name}.key")), &key.serialize_pem());
}

fn named(subject: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("names");
    params.distinguished_name.push(DnType::CommonName, subject);
    params
}
