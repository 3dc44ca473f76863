//! Settings of one replica.

use std::path::PathBuf;

use headrace_vsr::frame::Release;
use serde::Deserialize;
use twox_hash::XxHash3_128;

use crate::{errors::StartError, peers::CLUSTER_NAME_BYTES_MAX, release};

/// Seed of the hash that derives a cluster's id from its name.
const CLUSTER_SEED: u64 = 0x4852_434C_5553_5452;
/// Minimum length of a secret in bytes; shorter ones can be guessed.
const SECRET_BYTES_MIN: usize = 32;
const JOURNAL_FILE_BYTES_MIN: u64 = 1024 * 1024;

/// Settings of one replica. Durations are part of the timeout profile.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaConfig {
    /// Data directory, used by this replica alone; created if missing.
    pub directory: PathBuf,
    /// Name of the cluster: replicas and data directories of other clusters are refused.
    pub cluster: String,
    /// Index of this replica in `replicas`.
    pub replica: u8,
    /// Addresses of all replicas, `host:port`, in the same order everywhere. With one entry there is no listener, and
    /// the entry may be empty.
    pub replicas: Vec<String>,
    /// Address of the listener for peers; this replica's entry in `replicas` if not given.
    #[serde(default)]
    pub listen: Option<String>,
    /// Secret shared by the replicas of a cluster: at least 32 bytes if there are peers.
    #[serde(default)]
    pub secret: String,
    /// Second secret accepted from peers during a change of secrets; empty: none.
    #[serde(default)]
    pub accepted_secret: String,
    /// Certificates for connections between replicas; plain TCP if not given.
    #[serde(default)]
    pub tls: Option<TlsConfig>,
    /// Timeout profile of the protocol.
    #[serde(default)]
    pub timeouts: TimeoutProfile,
    /// True if a command is durable only after a sync to the device. Only a single replica may disable this: a power
    /// loss may then lose the newest commands.
    #[serde(default = "default_true")]
    pub sync: bool,
    /// Number of operations between two checkpoints.
    #[serde(default = "checkpoint_ops")]
    pub checkpoint_ops: u64,
    /// Number of command bytes between two checkpoints, if this limit is reached first.
    #[serde(default = "checkpoint_bytes")]
    pub checkpoint_bytes: u64,
    /// Number of operations kept in the journal below the newest checkpoint, for replicas that lag behind.
    #[serde(default = "checkpoint_ops")]
    pub log_keep_ops: u64,
    /// Size of one journal file in bytes.
    #[serde(default = "journal_file_bytes")]
    pub journal_file_bytes: u64,
    /// Replicas whose data directories are lost for good. A replica that restarts with an empty data directory does not
    /// wait for them; operations held only by them and its own lost data directory are abandoned.
    #[serde(default)]
    pub given_up: Vec<u8>,
    /// Release that this replica announces, `major.minor.patch`; that of the code if not given.
    #[serde(default)]
    pub release: Option<String>,
}

/// Certificate files, PEM.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// Certificate chain of this replica, valid for the host name in its address, for server and client use.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// Certificate authority that signs the certificates of all replicas.
    pub authority: PathBuf,
}

/// Named sets of timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeoutProfile {
    /// Fail-over in less than a second on a local network.
    #[default]
    Default,
    /// Conservative timeouts: fail-over in about six seconds.
    Seed,
    /// Timeouts like those of `seed`, for networks with high latency.
    Wan,
}

fn default_true() -> bool {
    true
}

fn checkpoint_ops() -> u64 {
    1024
}

fn checkpoint_bytes() -> u64 {
    16 * 1024 * 1024
}

fn journal_file_bytes() -> u64 {
    64 * 1024 * 1024
}

impl ReplicaConfig {
    /// Id of the cluster, derived from the name identically on every replica.
    pub fn cluster_id(&self) -> u128 {
        XxHash3_128::oneshot_with_seed(CLUSTER_SEED, self.cluster.as_bytes())
    }

    /// Return whether this replica has no peers.
    pub fn is_single(&self) -> bool {
        self.replicas.len() == 1
    }

    /// Release that this replica announces.
    pub(crate) fn release(&self) -> Result<Release, StartError> {
        self.release.as_deref().map_or_else(
            || Ok(release::own()),
            |text| {
                release::parse(text)
                    .ok_or_else(|| settings(format!("release {text:?} is not major.minor.patch")))
            },
        )
    }

    /// Reject invalid settings.
    ///
    /// # Errors
    /// [`StartError::Settings`] names the invalid setting.
    pub fn check(&self) -> Result<(), StartError> {
        if self.cluster.is_empty() || self.cluster.len() > CLUSTER_NAME_BYTES_MAX {
            return Err(settings(format!(
                "cluster: a name of 1 to {CLUSTER_NAME_BYTES_MAX} bytes is needed"
            )));
        }
        if !matches!(self.replicas.len(), 1 | 3 | 5) {
            return Err(settings(format!(
                "replicas: there are {}, and 1, 3 or 5 are possible",
                self.replicas.len()
            )));
        }
        if usize::from(self.replica) >= self.replicas.len() {
            return Err(settings(format!(
                "replica: {} is not an index into the {} replicas",
                self.replica,
                self.replicas.len()
            )));
        }
        let can_go = self.replicas.len() / 2;
        let wrong = |given_up: &u8| {
            *given_up == self.replica || usize::from(*given_up) >= self.replicas.len()
        };
        if self.given_up.iter().any(wrong) || self.given_up.len() > can_go {
            return Err(settings(format!(
                "given_up: at most {can_go} other replicas, by their index"
            )));
        }
        if self.journal_file_bytes < JOURNAL_FILE_BYTES_MIN
            || !self.journal_file_bytes.is_multiple_of(4096)
        {
            return Err(settings(format!(
                "journal_file_bytes: at least {JOURNAL_FILE_BYTES_MIN} and a multiple of 4096"
            )));
        }
        if self.checkpoint_ops == 0 || self.checkpoint_bytes == 0 {
            return Err(settings(
                "checkpoint_ops, checkpoint_bytes: more than 0".to_owned(),
            ));
        }
        self.release()?;
        if self.is_single() {
            return Ok(());
        }
        let is_short = |secret: &str| secret.len() < SECRET_BYTES_MIN;
        if is_short(&self.secret)
            || (!self.accepted_secret.is_empty() && is_short(&self.accepted_secret))
        {
            return Err(settings(format!(
                "secret: replicas with peers need a secret of at least {SECRET_BYTES_MIN} bytes, the same everywhere"
            )));
        }
        if !self.sync {
            return Err(settings(
                "sync: replicas with peers acknowledge only what is on the device".to_owned(),
            ));
        }
        for (index, address) in self.replicas.iter().enumerate() {
            let port = address.rsplit_once(':').and_then(|(host, port)| {
                (!host.is_empty())
                    .then(|| port.parse::<u16>().ok())
                    .flatten()
            });
            if port.is_none() {
                return Err(settings(format!("replicas: {address:?} is not host:port")));
            }
            if self.replicas[..index].contains(address) {
                return Err(settings(format!("replicas: {address} is there twice")));
            }
        }
        Ok(())
    }
}

fn settings(why: String) -> StartError {
    StartError::Settings(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(json: &str) -> ReplicaConfig {
        serde_json::from_str(json).unwrap()
    }

    fn refusal(change: impl FnOnce(&mut ReplicaConfig)) -> String {
        let mut config = parsed(
            r#"{"directory": "/x", "cluster": "c", "replica": 0, "secret": "0123456789abcdef0123456789abcdef",
                "replicas": ["a:1", "b:1", "c:1"]}"#,
        );
        config.check().unwrap();
        change(&mut config);
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn one_replica_needs_little() {
        let config =
            parsed(r#"{"directory": "/x", "cluster": "c", "replica": 0, "replicas": [""]}"#);
        config.check().unwrap();
        assert!(config.is_single() && config.sync);
        assert_eq!(config.journal_file_bytes, 64 * 1024 * 1024);
    }

    /// CTL-6.
    #[test]
    fn wrong_settings_are_refused_by_name() {
        assert!(refusal(|config| config.cluster.clear()).contains("cluster"));
        assert!(refusal(|config| config.replicas.truncate(2)).contains("1, 3 or 5"));
        assert!(refusal(|config| config.replica = 3).contains("not an index"));
        assert!(refusal(|config| config.secret = "short".into()).contains("secret"));
        assert!(refusal(|config| config.accepted_secret = "short".into()).contains("32 bytes"));
        assert!(refusal(|config| config.sync = false).contains("sync"));
        assert!(refusal(|config| config.replicas[1] = "nowhere".into()).contains("host:port"));
        assert!(refusal(|config| config.replicas[1] = "a:1".into()).contains("twice"));
        assert!(refusal(|config| config.release = Some("new".into())).contains("release"));
        assert!(refusal(|config| config.journal_file_bytes = 5000).contains("journal_file_bytes"));
        assert!(refusal(|config| config.given_up = vec![0]).contains("given_up"));
        assert!(refusal(|config| config.given_up = vec![1, 2]).contains("given_up"));
        assert!(refusal(|config| config.given_up = vec![3]).contains("given_up"));
        assert!(refusal(|config| config.checkpoint_ops = 0).contains("checkpoint_ops"));
    }

    #[test]
    fn the_name_makes_the_number() {
        let json = r#"{"directory": "/x", "cluster": "c", "replica": 0, "replicas": [""]}"#;
        let mut config = parsed(json);
        let number = config.cluster_id();
        assert_eq!(number, parsed(json).cluster_id());
        config.cluster = "d".to_owned();
        assert_ne!(number, config.cluster_id());
    }
}
