//! The keys that a host offers in its ClientHello, and the ones that a target has for it.
use super::{Psks, TlsPsk};
use crate::wire::fabrics::DISCOVERY_NQN;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All TLS PSKs that the hosts of a target may offer, by identity.
#[derive(Clone, Debug, Default)]
pub struct PskTable(BTreeMap<Vec<u8>, Arc<TlsPsk>>);

impl PskTable {
    /// The keys of a subsystem with this name, and of the discovery subsystem.
    pub fn new(psks: &Psks, subsystem: &str) -> Self {
        let mut table = BTreeMap::new();
        for (host, configured) in psks.iter() {
            for subsystem in [subsystem, DISCOVERY_NQN] {
                for psk in configured.all_tls_psks(host, subsystem) {
                    let identity = psk.identity.clone().into_bytes();
                    table.entry(identity).or_insert_with(|| Arc::new(psk));
                }
            }
        }
        PskTable(table)
    }

    /// The key with this identity.
    pub fn get(&self, identity: &str) -> Option<&Arc<TlsPsk>> {
        self.0.get(identity.as_bytes())
    }

    /// The first known key of a ClientHello, by the content of its extension `pre_shared_key` (RFC 8446,
    /// section 4.2.11). `None` without one, and if the content is malformed before that.
    pub fn find(&self, extension: &[u8]) -> Option<&Arc<TlsPsk>> {
        identities(extension).find_map(|identity| self.0.get(identity))
    }
}

/// Takes `N` bytes with a big-endian number, and as many bytes as it says.
fn take_vector<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<N>()?;
    let length = length.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    let (vector, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(vector)
}

/// The identities in an extension `pre_shared_key` of a ClientHello, up to what is malformed.
fn identities(mut extension: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut offered = take_vector::<2>(&mut extension).unwrap_or_default();
    std::iter::from_fn(move || {
        let identity = take_vector::<2>(&mut offered)?;
        // obfuscated_ticket_age, 0 with keys like these.
        offered = offered.get(4..)?;
        Some(identity)
    })
}
