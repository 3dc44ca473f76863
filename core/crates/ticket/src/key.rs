//! What tickets are signed with.

use core::fmt;

use ring::hmac;

const PURPOSE: &[u8] = b"headrace ticket v1\0";
/// Bytes of a signature.
pub(crate) const SIGNATURE_BYTES: usize = 32;

/// Signs the tickets of one cluster, and recognises them.
#[derive(Clone)]
pub struct Key {
    own: hmac::Key,
    /// Recognises tickets as well, while the secret is changed.
    accepted: Option<hmac::Key>,
}

impl Key {
    /// From what the services of a cluster share. How long a secret has to be is the business of who reads settings.
    pub fn derive(secret: &[u8], cluster: &str) -> Self {
        Self {
            own: derived(secret, cluster),
            accepted: None,
        }
    }

    /// Recognises the tickets of those, too, who have another secret: the one that comes, or the one that goes.
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

    /// Takes the same time wherever a signature is wrong.
    pub(crate) fn is_right(&self, bytes: &[u8], signature: &[u8]) -> bool {
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
    /// Shows nothing of it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Key").finish_non_exhaustive()
    }
}
