//! Handshake by which two replicas verify that they belong together: a function from bytes to bytes, without sockets.
//!
//! Each replica dials every other one and sends on the connection that it dialled; on an accepted connection it only
//! receives. Both sides prove that they know the cluster's secret, each over both nonces, so that an attacker can
//! impersonate neither side by replaying a recorded handshake or by reflecting messages:
//!
//! ```text
//! dialler                                             acceptor
//!   Hello{protocol, release, claim, cluster, name, from, to, of, nonce}  ->
//!           <-  Challenge{release, claim, nonce, HMAC(key, "accept", transcript)}   or Refused{why}
//!   Proof{HMAC(key, "dial", transcript)}                                  ->
//!                 <-  Welcome{claim, HMAC(key, "welcome", transcript, claim)},
//!                     or Forgetful{why, HMAC(key, "forgetful", transcript, why)}, or Refused{why}
//! ```
//!
//! Every statement that a side believes is signed: a bit flipped by the network must not make a replica take the other
//! for an older copy of itself, or stop. A refusal is not believed; the connection is retried.
//!
//! Every message is `u16 length, u8 kind, payload`. Without TLS the handshake authenticates the peers, but not the
//! frames that follow: only TLS protects against an attacker who can alter packets between them.

use std::fmt::Write as _;

use ring::hmac;

use headrace_vsr::{
    frame::Release,
    trust::{MemberClaim, PeerMemory},
};

use crate::release;

/// Version of the peer protocol, incremented with every change of the bytes between replicas.
pub const PROTOCOL: u16 = 3;
/// Maximum length of a message's payload in bytes: a refusal that contains names.
pub const MESSAGE_BYTES_MAX: usize = 1024;
/// Length of the nonce that each side adds to make every handshake unique.
pub const NONCE_BYTES: usize = 32;
/// Maximum length of a cluster name in bytes; fits its length byte.
pub const CLUSTER_NAME_BYTES_MAX: usize = 128;
const MAC_BYTES: usize = 32;
const PURPOSE: &[u8] = b"headrace cluster replicas v1\0";
const MAGIC: [u8; 4] = *b"HRVR";

const HELLO: u8 = 1;
const CHALLENGE: u8 = 2;
const PROOF: u8 = 3;
const WELCOME: u8 = 4;
const REFUSED: u8 = 5;
const ROLLED_BACK: u8 = 6;

const CLAIM_BYTES: usize = 35;

fn encode_claim(claim: MemberClaim) -> [u8; CLAIM_BYTES] {
    let mut bytes = [0; CLAIM_BYTES];
    bytes[0] = u8::from(claim.is_proven);
    bytes[1] = u8::from(claim.has_history);
    bytes[2] = u8::from(claim.is_normal);
    bytes[3..7].copy_from_slice(&claim.view.to_le_bytes());
    bytes[7..11].copy_from_slice(&claim.log_view.to_le_bytes());
    bytes[11..19].copy_from_slice(&claim.op.to_le_bytes());
    bytes[19..27].copy_from_slice(&claim.incarnation.to_le_bytes());
    bytes[27..35].copy_from_slice(&claim.process.to_le_bytes());
    bytes
}

fn decode_claim(bytes: &[u8; CLAIM_BYTES]) -> MemberClaim {
    let number = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let view =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    MemberClaim {
        is_proven: bytes[0] != 0,
        has_history: bytes[1] != 0,
        is_normal: bytes[2] != 0,
        view: view(3),
        log_view: view(7),
        op: number(11),
        incarnation: number(19),
        process: number(27),
    }
}

/// Identity of this replica in every handshake.
#[derive(Debug)]
pub struct Identity {
    /// Current claim of this replica.
    pub claim: MemberClaim,
    /// Cluster id, derived from the name.
    pub cluster: u128,
    /// Cluster name, at most [`CLUSTER_NAME_BYTES_MAX`] long.
    pub cluster_name: String,
    /// Index among the members.
    pub replica: u8,
    /// Number of members.
    pub replicas: u8,
    /// Peers whose data directories are lost for good, according to the operator.
    pub given_up: Vec<u8>,
    /// Release of this replica.
    pub release: Release,
    /// Release in force in its log: no peer may be older.
    pub in_force: Release,
    /// Memory of the states of the other replicas.
    pub memory: PeerMemory,
    /// Keys derived from the secret of the cluster.
    pub keys: Keys,
}

/// Key for signatures, and keys that are accepted from peers.
#[derive(Debug)]
pub struct Keys {
    own: hmac::Key,
    /// Second accepted key during a change of the secret: that of the new secret, or of the old one.
    accepted: Option<hmac::Key>,
}

impl Keys {
    /// Derive the keys, which are used for this purpose only: HMAC-SHA256, under the secret, of a label and the name of
    /// the cluster.
    pub fn derive(secret: &str, accepted: &str, cluster_name: &str) -> Self {
        let key = |secret: &str| {
            let secret = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            let derived = hmac::sign(&secret, &[PURPOSE, cluster_name.as_bytes()].concat());
            hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
        };
        Self {
            own: key(secret),
            accepted: (!accepted.is_empty()).then(|| key(accepted)),
        }
    }
}

/// Progress of a handshake.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    Wait,
    /// Both sides are authenticated.
    Done {
        /// Index of the peer.
        peer: u8,
        /// Claim of the peer.
        claim: MemberClaim,
    },
    /// The peer was refused: close the connection once the answer is sent.
    Refuse(String),
    /// The peer remembers a newer state of this replica than its data directory has: this replica must stop.
    LocalStateOutdated(String),
}

/// State of one side of a handshake.
#[derive(Debug)]
pub struct Handshake {
    step: Step,
    nonce: [u8; NONCE_BYTES],
    hello: Vec<u8>,
}

/// Next expected message.
#[derive(Debug)]
enum Step {
    Hello,
    Challenge {
        peer: u8,
    },
    Proof {
        peer: u8,
        claim: MemberClaim,
        transcript: Vec<u8>,
    },
    Welcome {
        peer: u8,
        transcript: Vec<u8>,
    },
}

impl Handshake {
    /// Begin a handshake with `peer`; the opening message is appended to `out`.
    pub fn dial(us: &Identity, peer: u8, nonce: [u8; NONCE_BYTES], out: &mut Vec<u8>) -> Self {
        let mut hello = Vec::with_capacity(96 + us.cluster_name.len());
        hello.extend_from_slice(&MAGIC);
        hello.extend_from_slice(&PROTOCOL.to_le_bytes());
        hello.extend_from_slice(&us.release.0.to_le_bytes());
        hello.extend_from_slice(&encode_claim(us.claim));
        hello.extend_from_slice(&us.cluster.to_le_bytes());
        hello.extend_from_slice(&[us.replica, peer, us.replicas]);
        hello.extend_from_slice(&nonce);
        hello.push(u8::try_from(us.cluster_name.len()).expect("the settings bound the name"));
        hello.extend_from_slice(us.cluster_name.as_bytes());
        put(out, HELLO, &hello);
        Self {
            step: Step::Challenge { peer },
            nonce,
            hello,
        }
    }

    /// Wait for the opening message of a peer.
    pub fn accept(nonce: [u8; NONCE_BYTES]) -> Self {
        Self {
            step: Step::Hello,
            nonce,
            hello: Vec::new(),
        }
    }

    /// Consume received bytes from `input`, append bytes to send to `out`.
    pub fn advance(&mut self, us: &Identity, input: &mut Vec<u8>, out: &mut Vec<u8>) -> Progress {
        loop {
            let Some(header) = input.first_chunk::<3>() else {
                return Progress::Wait;
            };
            let length = usize::from(u16::from_le_bytes([header[0], header[1]]));
            let kind = header[2];
            if length > MESSAGE_BYTES_MAX {
                return Progress::Refuse("it does not speak like a replica".to_owned());
            }
            if input.len() < 3 + length {
                return Progress::Wait;
            }
            let message: Vec<u8> = input.drain(..3 + length).skip(3).collect();
            match self.take(us, kind, &message, out) {
                Ok(None) => {}
                Ok(Some((peer, claim))) => return Progress::Done { peer, claim },
                Err(Failure::Refused { why, answer }) => {
                    if let Some(kind) = answer {
                        put(out, kind, why.as_bytes());
                    }
                    return Progress::Refuse(why);
                }
                Err(Failure::LocalStateOutdated(why)) => return Progress::LocalStateOutdated(why),
            }
        }
    }

    fn take(
        &mut self,
        us: &Identity,
        kind: u8,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<(u8, MemberClaim)>, Failure> {
        if kind == REFUSED {
            return Err(Failure::Refused {
                why: format!("it refuses us: {}", printable(message)),
                answer: None,
            });
        }
        match (&self.step, kind) {
            (Step::Hello, HELLO) => {
                let (peer, claim) = check_hello(us, message)?;
                let mut challenge = us.release.0.to_le_bytes().to_vec();
                challenge.extend_from_slice(&encode_claim(us.claim));
                challenge.extend_from_slice(&self.nonce);
                // Both sides sign the entire transcript.
                let transcript = [message, &challenge].concat();
                challenge.extend_from_slice(sign(us, b"accept", &transcript).as_ref());
                put(out, CHALLENGE, &challenge);
                self.step = Step::Proof {
                    peer,
                    claim,
                    transcript,
                };
                Ok(None)
            }
            (&Step::Challenge { peer }, CHALLENGE) => {
                let (said, mac) = message
                    .split_last_chunk::<MAC_BYTES>()
                    .ok_or_else(malformed)?;
                let release = said.first_chunk::<4>().ok_or_else(malformed)?;
                let transcript = [&self.hello, said].concat();
                verify(us, b"accept", &transcript, mac)?;
                check_release(us, Release(u32::from_le_bytes(*release)))?;
                put(out, PROOF, sign(us, b"dial", &transcript).as_ref());
                self.step = Step::Welcome { peer, transcript };
                Ok(None)
            }
            (
                Step::Proof {
                    peer,
                    claim,
                    transcript,
                },
                PROOF,
            ) => {
                verify(us, b"dial", transcript, message)?;
                if let Err(rolled_back) = us.memory.check(*peer, *claim) {
                    let why = format!("replica {peer} must not go on: {rolled_back}");
                    append_signed(us, out, ROLLED_BACK, transcript, why.as_bytes());
                    return Err(Failure::Refused { why, answer: None });
                }
                append_signed(us, out, WELCOME, transcript, &encode_claim(us.claim));
                Ok(Some((*peer, *claim)))
            }
            (Step::Welcome { peer, transcript }, ROLLED_BACK) => {
                let why = verify_final_message(us, ROLLED_BACK, transcript, message)?;
                Err(Failure::LocalStateOutdated(format!(
                    "replica {peer} says: {}",
                    printable(why)
                )))
            }
            (Step::Welcome { peer, transcript }, WELCOME) => {
                let claim = verify_final_message(us, WELCOME, transcript, message)?;
                let claim = claim.first_chunk().ok_or_else(malformed)?;
                Ok(Some((*peer, decode_claim(claim))))
            }
            _ => Err(malformed()),
        }
    }
}

enum Failure {
    Refused {
        why: String,
        /// Type of the answer; `None` for a refusal by the peer, which is not sent back.
        answer: Option<u8>,
    },
    /// The authenticated peer has reported this replica as an older copy.
    LocalStateOutdated(String),
}

fn refuse(why: String) -> Failure {
    Failure::Refused {
        why,
        answer: Some(REFUSED),
    }
}

fn malformed() -> Failure {
    refuse("the handshake is garbled".to_owned())
}

fn check_hello(us: &Identity, hello: &[u8]) -> Result<(u8, MemberClaim), Failure> {
    let rest = hello.strip_prefix(&MAGIC).ok_or_else(malformed)?;
    let (protocol, rest) = rest.split_first_chunk::<2>().ok_or_else(malformed)?;
    let protocol = u16::from_le_bytes(*protocol);
    if protocol != PROTOCOL {
        return Err(refuse(format!(
            "protocol {protocol} is spoken on one side and {PROTOCOL} on the other: run one release everywhere"
        )));
    }
    let (release, rest) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
    let (claim, rest) = rest
        .split_first_chunk::<CLAIM_BYTES>()
        .ok_or_else(malformed)?;
    let (cluster, rest) = rest.split_first_chunk::<16>().ok_or_else(malformed)?;
    let (&[from, to, of], rest) = rest.split_first_chunk::<3>().ok_or_else(malformed)?;
    let (_nonce, rest) = rest
        .split_first_chunk::<NONCE_BYTES>()
        .ok_or_else(malformed)?;
    let (&name_bytes, name) = rest.split_first().ok_or_else(malformed)?;
    if usize::from(name_bytes) != name.len() {
        return Err(malformed());
    }
    if u128::from_le_bytes(*cluster) != us.cluster || name != us.cluster_name.as_bytes() {
        return Err(refuse(format!(
            "the names of the clusters differ: {:?} and {:?}",
            printable(name),
            us.cluster_name
        )));
    }
    if of != us.replicas {
        return Err(refuse(format!(
            "the cluster has {of} replicas in the settings of one side and {} in the other's",
            us.replicas
        )));
    }
    if to != us.replica {
        return Err(refuse(format!(
            "replica {to} was called and replica {} answered: the lists of replicas differ",
            us.replica
        )));
    }
    if from >= of || from == us.replica {
        return Err(refuse(format!(
            "replica {from} is not a peer of replica {to}: two have one index"
        )));
    }
    if us.given_up.contains(&from) {
        return Err(refuse(format!(
            "replica {from} was given up: when it starts with an empty directory, take it out of `given_up` in the settings \
             of all replicas"
        )));
    }
    check_release(us, Release(u32::from_le_bytes(*release)))?;
    Ok((from, decode_claim(claim)))
}

fn check_release(us: &Identity, theirs: Release) -> Result<(), Failure> {
    if !release::are_compatible(us.release, theirs) {
        return Err(refuse(format!(
            "releases {} and {theirs} do not work together: upgrade one minor release at a time",
            us.release
        )));
    }
    if theirs < us.in_force {
        return Err(refuse(format!(
            "release {} is in force in this group, and {theirs} is too old for it: upgrade that replica",
            us.in_force
        )));
    }
    Ok(())
}

fn context(us: &Identity, label: &[u8], transcript: &[u8]) -> hmac::Context {
    let mut context = hmac::Context::with_key(&us.keys.own);
    context.update(label);
    context.update(transcript);
    context
}

fn sign(us: &Identity, label: &[u8], transcript: &[u8]) -> hmac::Tag {
    context(us, label, transcript).sign()
}

fn verify(us: &Identity, label: &[u8], transcript: &[u8], mac: &[u8]) -> Result<(), Failure> {
    let mut signed = label.to_vec();
    signed.extend_from_slice(transcript);
    let is_of = |key: &hmac::Key| hmac::verify(key, &signed, mac).is_ok();
    let keys = &us.keys;
    if mac.len() == MAC_BYTES && (is_of(&keys.own) || keys.accepted.as_ref().is_some_and(is_of)) {
        return Ok(());
    }
    Err(refuse("the cluster secrets differ".to_owned()))
}

/// Label for the signature of a final message.
const fn label_of(kind: u8) -> &'static [u8] {
    match kind {
        WELCOME => b"welcome",
        _ => b"forgetful",
    }
}

/// Append a final message, signed together with the transcript.
fn append_signed(us: &Identity, out: &mut Vec<u8>, kind: u8, transcript: &[u8], said: &[u8]) {
    let said = &said[..said.len().min(MESSAGE_BYTES_MAX - MAC_BYTES)];
    let mac = sign(us, label_of(kind), &[transcript, said].concat());
    put(out, kind, &[said, mac.as_ref()].concat());
}

/// Verify a signed final message. Returns its content.
fn verify_final_message<'a>(
    us: &Identity,
    kind: u8,
    transcript: &[u8],
    message: &'a [u8],
) -> Result<&'a [u8], Failure> {
    let (said, mac) = message
        .split_last_chunk::<MAC_BYTES>()
        .ok_or_else(malformed)?;
    verify(us, label_of(kind), &[transcript, said].concat(), mac)?;
    Ok(said)
}

fn put(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let payload = &payload[..payload.len().min(MESSAGE_BYTES_MAX)];
    let length = u16::try_from(payload.len()).expect("messages are bounded");
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(payload);
}

/// Make text from a peer safe for a log line.
fn printable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for character in String::from_utf8_lossy(bytes)
        .chars()
        .take(MESSAGE_BYTES_MAX)
    {
        if character.is_control() {
            let _ = write!(text, "{}", character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests;
