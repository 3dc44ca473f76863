//! How two replicas find out that they belong together: a function from bytes to bytes, without sockets.
//!
//! Each replica dials every other one and sends on the connection that it dialled; what it accepted it only reads.
//! Both sides prove that they know the cluster's secret, each over both nonces, so that neither can be impersonated
//! by somebody who recorded an earlier conversation or who reflects our own messages:
//!
//! ```text
//! dialler                                             acceptor
//!   Hello{protocol, release, standing, cluster, name, from, to, of, nonce}  ->
//!           <-  Challenge{release, standing, nonce, HMAC(secret, "accept", transcript)}   or Refused{why}
//!   Proof{HMAC(secret, "dial", transcript)}                                  ->
//!                                                      <-  Welcome{standing}              or Refused{why}
//! ```
//!
//! Every message is `u16 length, u8 kind, payload`. Without TLS this authenticates the peers, not what they send
//! afterwards: whoever can change packets between them needs TLS to be kept out.

use std::fmt::Write as _;

use ring::hmac;

use headrace_vsr::frame::Release;

use crate::release;

/// Changes whenever the bytes between replicas do.
pub const PROTOCOL: u16 = 1;
/// The longest payload of a message: a refusal with names in it.
pub const MESSAGE_BYTES_MAX: usize = 1024;
/// What each side adds, so that no two conversations are alike.
pub const NONCE_BYTES: usize = 32;
/// Also the longest name that fits its length byte.
pub const CLUSTER_NAME_BYTES_MAX: usize = 128;
const MAC_BYTES: usize = 32;
const MAGIC: [u8; 4] = *b"HRVR";

const HELLO: u8 = 1;
const CHALLENGE: u8 = 2;
const PROOF: u8 = 3;
const WELCOME: u8 = 4;
const REFUSED: u8 = 5;

/// Where a replica stands: what the others need to know to tell a new group from a replica that lost its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// It may have acknowledged something: its folder is not new, or it belongs to a group that has begun.
    pub has_history: bool,
    /// It serves in its view.
    pub is_normal: bool,
    /// Its view.
    pub view: u32,
}

const STANDING_BYTES: usize = 6;

impl Standing {
    fn encode(self) -> [u8; STANDING_BYTES] {
        let [a, b, c, d] = self.view.to_le_bytes();
        [
            u8::from(self.has_history),
            u8::from(self.is_normal),
            a,
            b,
            c,
            d,
        ]
    }

    fn decode([history, normal, a, b, c, d]: [u8; STANDING_BYTES]) -> Self {
        Self {
            has_history: history != 0,
            is_normal: normal != 0,
            view: u32::from_le_bytes([a, b, c, d]),
        }
    }
}

/// Who we are, for every handshake of a replica.
#[derive(Debug)]
pub struct Identity {
    /// Where it stands now.
    pub standing: Standing,
    /// The cluster, derived from its name.
    pub cluster: u128,
    /// At most [`CLUSTER_NAME_BYTES_MAX`] long.
    pub cluster_name: String,
    /// Its index among the members.
    pub replica: u8,
    /// How many members there are.
    pub replicas: u8,
    /// What it runs.
    pub release: Release,
    /// The secret of the cluster.
    pub key: hmac::Key,
}

/// What a handshake has come to.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    Wait,
    /// Both sides know each other.
    Done {
        /// The peer.
        peer: u8,
        /// Where it stands.
        standing: Standing,
    },
    /// This peer must not be talked to: hang up once the answer is sent.
    Refuse(String),
}

/// One side of one handshake.
#[derive(Debug)]
pub struct Handshake {
    step: Step,
    nonce: [u8; NONCE_BYTES],
    hello: Vec<u8>,
}

/// What is awaited.
#[derive(Debug)]
enum Step {
    Hello,
    Challenge {
        peer: u8,
    },
    Proof {
        peer: u8,
        standing: Standing,
        transcript: Vec<u8>,
    },
    Welcome {
        peer: u8,
    },
}

impl Handshake {
    /// Begin a conversation with `peer`; the opening message goes to `out`.
    pub fn dial(us: &Identity, peer: u8, nonce: [u8; NONCE_BYTES], out: &mut Vec<u8>) -> Self {
        let mut hello = Vec::with_capacity(96 + us.cluster_name.len());
        hello.extend_from_slice(&MAGIC);
        hello.extend_from_slice(&PROTOCOL.to_le_bytes());
        hello.extend_from_slice(&us.release.0.to_le_bytes());
        hello.extend_from_slice(&us.standing.encode());
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

    /// Wait for somebody's opening message.
    pub fn accept(nonce: [u8; NONCE_BYTES]) -> Self {
        Self {
            step: Step::Hello,
            nonce,
            hello: Vec::new(),
        }
    }

    /// Take what arrived out of `input`, put what is to be sent into `out`.
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
                Ok(Some((peer, standing))) => return Progress::Done { peer, standing },
                Err(Failure { why, told }) => {
                    if told {
                        put(out, REFUSED, why.as_bytes());
                    }
                    return Progress::Refuse(why);
                }
            }
        }
    }

    fn take(
        &mut self,
        us: &Identity,
        kind: u8,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<(u8, Standing)>, Failure> {
        if kind == REFUSED {
            return Err(Failure {
                why: format!("it refuses us: {}", printable(message)),
                told: false,
            });
        }
        match (&self.step, kind) {
            (Step::Hello, HELLO) => {
                let (peer, standing) = check_hello(us, message)?;
                let mut challenge = us.release.0.to_le_bytes().to_vec();
                challenge.extend_from_slice(&us.standing.encode());
                challenge.extend_from_slice(&self.nonce);
                // What both sides sign: everything that was said.
                let transcript = [message, &challenge].concat();
                challenge.extend_from_slice(sign(us, b"accept", &transcript).as_ref());
                put(out, CHALLENGE, &challenge);
                self.step = Step::Proof {
                    peer,
                    standing,
                    transcript,
                };
                Ok(None)
            }
            (&Step::Challenge { peer }, CHALLENGE) => {
                let (said, mac) = message
                    .split_last_chunk::<MAC_BYTES>()
                    .ok_or_else(garbled)?;
                let release = said.first_chunk::<4>().ok_or_else(garbled)?;
                let transcript = [&self.hello, said].concat();
                verify(us, b"accept", &transcript, mac)?;
                check_release(us, Release(u32::from_le_bytes(*release)))?;
                put(out, PROOF, sign(us, b"dial", &transcript).as_ref());
                self.step = Step::Welcome { peer };
                Ok(None)
            }
            (
                Step::Proof {
                    peer,
                    standing,
                    transcript,
                },
                PROOF,
            ) => {
                verify(us, b"dial", transcript, message)?;
                put(out, WELCOME, &us.standing.encode());
                Ok(Some((*peer, *standing)))
            }
            (&Step::Welcome { peer }, WELCOME) => {
                let standing = message.first_chunk().ok_or_else(garbled)?;
                Ok(Some((peer, Standing::decode(*standing))))
            }
            _ => Err(garbled()),
        }
    }
}

struct Failure {
    why: String,
    /// Whether the peer is told: what comes from the peer itself is not sent back.
    told: bool,
}

fn refuse(why: String) -> Failure {
    Failure { why, told: true }
}

fn garbled() -> Failure {
    refuse("the handshake is garbled".to_owned())
}

fn check_hello(us: &Identity, hello: &[u8]) -> Result<(u8, Standing), Failure> {
    let rest = hello.strip_prefix(&MAGIC).ok_or_else(garbled)?;
    let (protocol, rest) = rest.split_first_chunk::<2>().ok_or_else(garbled)?;
    let protocol = u16::from_le_bytes(*protocol);
    if protocol != PROTOCOL {
        return Err(refuse(format!(
            "protocol {protocol} is spoken on one side and {PROTOCOL} on the other: run one release everywhere"
        )));
    }
    let (release, rest) = rest.split_first_chunk::<4>().ok_or_else(garbled)?;
    let (standing, rest) = rest
        .split_first_chunk::<STANDING_BYTES>()
        .ok_or_else(garbled)?;
    let (cluster, rest) = rest.split_first_chunk::<16>().ok_or_else(garbled)?;
    let (&[from, to, of], rest) = rest.split_first_chunk::<3>().ok_or_else(garbled)?;
    let (_nonce, rest) = rest
        .split_first_chunk::<NONCE_BYTES>()
        .ok_or_else(garbled)?;
    let (&name_bytes, name) = rest.split_first().ok_or_else(garbled)?;
    if usize::from(name_bytes) != name.len() {
        return Err(garbled());
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
    check_release(us, Release(u32::from_le_bytes(*release)))?;
    Ok((from, Standing::decode(*standing)))
}

fn check_release(us: &Identity, theirs: Release) -> Result<(), Failure> {
    if release::work_together(us.release, theirs) {
        return Ok(());
    }
    Err(refuse(format!(
        "releases {} and {theirs} do not work together: upgrade one minor release at a time",
        us.release
    )))
}

fn context(us: &Identity, label: &[u8], transcript: &[u8]) -> hmac::Context {
    let mut context = hmac::Context::with_key(&us.key);
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
    if mac.len() == MAC_BYTES && hmac::verify(&us.key, &signed, mac).is_ok() {
        return Ok(());
    }
    Err(refuse("the cluster secrets differ".to_owned()))
}

fn put(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let payload = &payload[..payload.len().min(MESSAGE_BYTES_MAX)];
    let length = u16::try_from(payload.len()).expect("messages are bounded");
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(payload);
}

/// Somebody else's text, fit for a log line.
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
