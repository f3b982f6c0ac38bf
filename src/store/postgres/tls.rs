//! TLS to the server, by libpq's rules.
//!
//! Nothing is read or made before the server has agreed to TLS, and authorities only where they are asked for: the
//! system's are some hundred files.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use nix::unistd::geteuid;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::certificate;
use super::dial::Wire;
use super::place::{Roots, SslMode, TlsTerms};

type TlsError = Box<dyn std::error::Error + Send + Sync>;

/// TLS to one server, made when the server agrees to it.
pub(super) struct Tls {
    pub(super) terms: TlsTerms,
    pub(super) host: String,
}

impl TlsConnect<Wire> for Tls {
    type Stream = <MakeRustlsConnect as MakeTlsConnect<Wire>>::Stream;
    type Error = TlsError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, TlsError>> + Send>>;

    fn connect(self, wire: Wire) -> Self::Future {
        Box::pin(async move {
            let config = config(&self.terms, &self.host)?;
            let mut make = MakeRustlsConnect::new(config);
            let tls = MakeTlsConnect::<Wire>::make_tls_connect(&mut make, &self.host)?;
            tls.connect(wire).await.map_err(|error| readable(&error, &self.host))
        })
    }
}

/// What TLS can't go without.
#[derive(Debug)]
struct Unfit(String);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unfit {}

fn unfit(text: String) -> TlsError {
    Box::new(Unfit(text))
}

/// Says what is wrong with the server's certificate in words that don't need the library's manual.
fn readable(error: &io::Error, host: &str) -> TlsError {
    let tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    let text = match tls {
        Some(rustls::Error::InvalidCertificate(error)) => match error {
            CertificateError::UnknownIssuer => {
                "the server's certificate is signed by none of the authorities in sslrootcert".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("the server's certificate is not for {host}")
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server's certificate has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the server's certificate is not valid yet".to_owned()
            }
            // Which ones is told only so.
            other => match format!("{other:?}") {
                text if text.contains("CaUsedAsEndEntity") => {
                    "the server's certificate signs itself, and is not the one in sslrootcert".to_owned()
                }
                text if text.contains("UnsupportedCertVersion") => {
                    "the server's certificate is of X.509 version 1, which can't be checked; make one of version 3"
                        .to_owned()
                }
                _ => format!("the server's certificate can't be trusted: {other}"),
            },
        },
        Some(other) => other.to_string(),
        None => super::trouble::plain(error),
    };
    unfit(text)
}

fn config(terms: &TlsTerms, host: &str) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let verifier = Verifier { trust: trust(terms)?, host: host.to_owned(), algorithms };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match own_certificate(terms)? {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
        None => builder.with_no_client_auth(),
    };
    if terms.direct {
        config.alpn_protocols = vec![b"postgresql".to_vec()];
    }
    Ok(config)
}

/// What is asked of the server's certificate.
#[derive(Debug)]
enum Trust {
    /// Nothing: the connection is only kept from those who merely listen.
    Anybody,
    /// One of these signed it.
    Signed { roots: RootCertStore, given: Vec<CertificateDer<'static>>, by_name: bool },
}

fn trust(terms: &TlsTerms) -> Result<Trust, TlsError> {
    let (by_name, must) = match terms.mode {
        SslMode::Disable | SslMode::Prefer => return Ok(Trust::Anybody),
        // libpq checks here too, if it is given something to check with.
        SslMode::Require => (false, false),
        SslMode::VerifyCa => (false, true),
        SslMode::VerifyFull => (true, true),
    };
    let file = match &terms.roots {
        Roots::System => return signed_by(system_roots()?, by_name),
        Roots::File(file) => Some(file.clone()),
        Roots::Unnamed => terms.folder.as_ref().map(|folder| folder.join("root.crt")),
    };
    match file {
        Some(file) if file.exists() => signed_by(read_certificates(&file)?, by_name),
        _ if !must => Ok(Trust::Anybody),
        Some(file) => Err(unfit(format!(
            "the file of root certificates {} doesn't exist; name one with sslrootcert, or the system's with \
             sslrootcert=system",
            file.display()
        ))),
        None => Err(unfit("there is no file of root certificates; name one with sslrootcert".to_owned())),
    }
}

fn signed_by(given: Vec<CertificateDer<'static>>, by_name: bool) -> Result<Trust, TlsError> {
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(given.iter().cloned());
    if taken == 0 {
        return Err(unfit("there are no root certificates in sslrootcert".to_owned()));
    }
    Ok(Trust::Signed { roots, given, by_name })
}

fn system_roots() -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    match found.errors.into_iter().next() {
        // Some that can't be read don't matter while there are others.
        Some(error) if found.certs.is_empty() => Err(error.into()),
        None if found.certs.is_empty() => Err(unfit("the system has no root certificates".to_owned())),
        _ => Ok(found.certs),
    }
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_reader_iter(open(file)?).collect::<Result<Vec<_>, _>>();
    certificates.map_err(|error| unfit(format!("{} has no readable certificates: {error}", file.display())))
}

fn open(file: &Path) -> Result<File, TlsError> {
    File::open(file)
        .map_err(|error| unfit(format!("{} can't be read: {}", file.display(), super::trouble::plain(&error))))
}

type OwnCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Returns the certificate to log in with: the one that is named, or the one in libpq's own place.
fn own_certificate(terms: &TlsTerms) -> Result<Option<OwnCertificate>, TlsError> {
    let default = |name: &str| terms.folder.as_ref().map(|folder| folder.join(name));
    let named = terms.certificate.clone();
    let Some(file) = named.or_else(|| default("postgresql.crt").filter(|file| file.exists())) else { return Ok(None) };
    let key: PathBuf = terms
        .key
        .clone()
        .or_else(|| default("postgresql.key"))
        .ok_or_else(|| unfit("sslcert is given without sslkey".to_owned()))?;
    let chain = read_certificates(&file)?;
    check_key_file(&key)?;
    let key = PrivateKeyDer::from_pem_reader(open(&key)?).map_err(|error| {
        unfit(format!("{} has no private key that idem can read (one with a passphrase?): {error}", key.display()))
    })?;
    Ok(Some((chain, key)))
}

/// Refuses a key that others can read, as libpq does. One of root's may be shared with a group.
fn check_key_file(key: &Path) -> Result<(), TlsError> {
    let metadata = fs::metadata(key)
        .map_err(|error| unfit(format!("{} can't be read: {}", key.display(), super::trouble::plain(&error))))?;
    let shared = metadata.uid() == 0 && !geteuid().is_root();
    let forbidden = if shared { 0o027 } else { 0o077 };
    if metadata.permissions().mode() & forbidden == 0 {
        return Ok(());
    }
    Err(unfit(format!("others can read the private key {}; take that right away (chmod 0600)", key.display())))
}

/// Checks a server's certificate as `sslmode` says.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    host: String,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Trust::Signed { roots, given, by_name } = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        // PostgreSQL's manual makes a certificate that signs itself, and has it copied to the clients. The library would
        // refuse it, as one that is an authority's.
        if given.contains(end_entity) {
            if !certificate::is_in_force(end_entity, now) {
                return Err(CertificateError::Expired.into());
            }
        } else {
            let all = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, all)?;
        }
        if *by_name && !certificate::is_named_by_subject(end_entity, &self.host) {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    // Checked even where anybody is trusted: a login that is bound to the certificate is bound to nothing if the server
    // needn't have its key.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
