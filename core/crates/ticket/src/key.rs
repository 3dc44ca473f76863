//! Keys for signing tickets.

use core::fmt;

use ring::hmac;

const PURPOSE: &[u8] = b"headrace ticket v1\0";
/// Size of a signature in bytes.
pub(crate) const SIGNATURE_BYTES: usize = 32;

/// Key that signs and verifies the tickets of one cluster.
#[derive(Clone)]
pub struct Key {
    own: hmac::Key,
    /// Second key for verification during a change of the secret.
    accepted: Option<hmac::Key>,
}

impl Key {
    /// Derive the key from the secret that the services of a cluster share. The length of the secret is checked with
    /// the settings.
    pub fn derive(secret: &[u8], cluster: &str) -> Self {
        Self {
            own: derived(secret, cluster),
            accepted: None,
        }
    }

    /// Accept tickets signed with another secret as well: the next or the previous one.
    #[must_use]
    pub fn accepting(self, secret: &[u8], cluster: &str) -> Self {
        Self {
            accepted: Some(derived(secret, cluster)),
            ..self
        }
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let tag = hmac::sign(&self.own, bytes);
        *tag.as_ref()
            .first_chunk()
            .expect("a tag of HMAC-SHA256 has 32 bytes")
    }

    /// Verify a signature. The time does not depend on the place of a mismatch.
    pub(crate) fn verify(&self, bytes: &[u8], signature: &[u8]) -> bool {
        let is_of = |key: &hmac::Key| hmac::verify(key, bytes, signature).is_ok();
        is_of(&self.own) || self.accepted.as_ref().is_some_and(is_of)
    }
}

fn derived(secret: &[u8], cluster: &str) -> hmac::Key {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
    context.update(PURPOSE);
    context.update(cluster.as_bytes());
    hmac::Key::new(hmac::HMAC_SHA256, context.sign().as_ref())
}

impl fmt::Debug for Key {
    /// Omit the key material.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Key").finish_non_exhaustive()
    }
}
