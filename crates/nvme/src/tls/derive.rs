//! From configured keys to TLS PSKs and their identities (TCP, PSK and PSK identity derivation).
use super::psk::ConfiguredPsk;
use super::suite::CipherSuite;
use crate::auth::Hash;
use base64ct::{Base64, Encoding};
use std::fmt;
use zeroize::Zeroizing;

/// The version of a PSK identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdentityVersion {
    /// `NVMe0Rhh HOSTNQN SUBNQN`, of specifications before TP 8018, and of SPDK.
    V0,
    /// `NVMe1Rhh HOSTNQN SUBNQN DIGEST`, with a digest of the retained PSK.
    #[default]
    V1,
}

/// How the labels of HKDF-Expand-Label are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    /// As RFC 8446 says, section 7.1.
    Standard,
    /// As older versions of libnvme do, such as 1.13: without the lengths of label and context, and with the length of the
    /// result in little-endian order.
    OldLibnvme,
}

/// A pre-shared key for TLS between one host and one subsystem.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsPsk {
    /// The identity by which a host offers it.
    pub identity: String,
    /// The cipher suite that it is for.
    pub suite: CipherSuite,
    /// NVMe Qualified Name of the host.
    pub host: String,
    /// NVMe Qualified Name of the subsystem.
    pub subsystem: String,
    /// The key.
    pub key: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for TlsPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsPsk").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// HKDF-Extract (RFC 5869) with a salt of zeroes, then HKDF-Expand-Label (RFC 8446, section 7.1) with a
/// result of the hash's length. `None` if the context has more than the 255 bytes that it may have.
fn expand_label(
    labels: Labels,
    hash: Hash,
    secret: &[u8],
    label: &[u8],
    context: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let size = u16::try_from(hash.size()).expect("a hash is short");
    let extracted = Zeroizing::new(hash.hmac(&vec![0; hash.size()], &[secret]));
    let info: [&[u8]; 7] = match labels {
        Labels::Standard => [
            &size.to_be_bytes(),
            &[u8::try_from(6 + label.len()).expect("a label is short")],
            b"tls13 ",
            label,
            &[u8::try_from(context.len()).ok()?],
            context,
            &[1],
        ],
        Labels::OldLibnvme => [&size.to_le_bytes(), &[], b"tls13 ", label, &[], context, &[1]],
    };
    Some(Zeroizing::new(hash.hmac(&extracted, &info)))
}

impl ConfiguredPsk {
    /// The TLS PSK for a subsystem; `None` if there is no identity of this version for names as long.
    pub fn tls_psk(&self, version: IdentityVersion, host: &str, subsystem: &str) -> Option<TlsPsk> {
        self.derive(Labels::Standard, version, host, subsystem)
    }

    /// All TLS PSKs that a host may offer for a subsystem. Of equal identities the first is the
    /// standard's.
    pub(super) fn all_tls_psks(&self, host: &str, subsystem: &str) -> impl Iterator<Item = TlsPsk> {
        let forms = [
            (Labels::Standard, IdentityVersion::V0),
            (Labels::Standard, IdentityVersion::V1),
            (Labels::OldLibnvme, IdentityVersion::V1),
        ];
        forms
            .into_iter()
            .filter_map(move |(labels, version)| self.derive(labels, version, host, subsystem))
    }

    fn derive(
        &self,
        labels: Labels,
        version: IdentityVersion,
        host: &str,
        subsystem: &str,
    ) -> Option<TlsPsk> {
        let suite = self.suite();
        let hash = suite.hash();
        let retained = match self.transformation {
            None => self.key.clone(),
            Some(_) => expand_label(labels, hash, &self.key, b"HostNQN", host.as_bytes())?,
        };
        let specifier = suite as u8;
        let (identity, context) = match version {
            IdentityVersion::V0 => {
                let identity = format!("NVMe0R{specifier:02} {host} {subsystem}");
                (identity.clone(), identity)
            }
            IdentityVersion::V1 => {
                let names: [&[u8]; 4] =
                    [host.as_bytes(), b" ", subsystem.as_bytes(), b" NVMe-over-Fabrics"];
                let digest = Base64::encode_string(&hash.hmac(&retained, &names));
                let identity = format!("NVMe1R{specifier:02} {host} {subsystem} {digest}");
                (identity, format!("{specifier:02} {digest}"))
            }
        };
        let key = expand_label(labels, hash, &retained, b"nvme-tls-psk", context.as_bytes())?;
        let (host, subsystem) = (host.to_owned(), subsystem.to_owned());
        Some(TlsPsk { identity, suite, host, subsystem, key })
    }
}
