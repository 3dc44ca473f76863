//! Tests of refusals: to start, or to connect to a peer.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
};

use headrace_replica::{StartError, TlsConfig, inspect};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::support::{Group, Node, converge, numbered, primary_of, propose_anywhere};

#[track_caller]
fn refusal(started: Result<Node, StartError>) -> StartError {
    started.err().expect("a refusal")
}

fn used(replicas: u8) -> Group {
    let group = Group::new(replicas);
    let nodes = group.start_all();
    propose_anywhere(&nodes, b"something to lose");
    converge(&nodes);
    for node in nodes {
        node.kill();
    }
    group
}

/// CTL-6.
#[test]
fn a_directory_of_another_cluster_or_replica_is_refused() {
    let group = used(1);
    let mut other = group.configs[0].clone();
    other.cluster = "production".to_owned();
    let refused = refusal(Node::start(other));
    assert_eq!(refused.reason(), "other_cluster");
    assert!(refused.to_string().contains("production"));

    let three = Group::new(3);
    let mut other = three.configs[1].clone();
    other.directory = group.directory_of(0);
    let refused = refusal(Node::start(other));
    assert_eq!(refused.reason(), "other_replica");
    assert!(refused.to_string().contains("replica 0 of 1"), "{refused}");
    // The refused replica has caused no damage.
    group
        .start(0)
        .wait_for("the state", |seen| seen.machine.commands == 1);
}

/// CTL-5.
#[test]
fn an_older_release_does_not_open_what_a_newer_one_wrote() {
    let mut group = Group::new(1);
    group.configs[0].release = Some("3.2.1".to_owned());
    let node = group.start(0);
    node.wait_for("a primary", |_| node.is_primary());
    node.wait_for("the release", |_| node.status().release_in_force == "3.2.0");
    assert!(node.propose(&numbered(0..5)).iter().all(Result::is_ok));
    node.kill();
    group.configs[0].release = Some("3.1.9".to_owned());
    let refused = refusal(Node::start(group.configs[0].clone()));
    assert_eq!(refused.reason(), "newer_release");
    assert!(
        refused.to_string().contains("needs release 3.2.0"),
        "{refused}"
    );
    // A newer patch release adds nothing that an earlier one does not support.
    group.configs[0].release = Some("3.2.0".to_owned());
    group.start(0).kill();
    group.configs[0].release = Some("3.3.0".to_owned());
    group
        .start(0)
        .wait_for("the state", |seen| seen.machine.commands == 5);
}

/// CTL-5.
#[test]
fn what_is_missing_or_cut_short_is_refused_and_not_forgotten() {
    const HARMS: [fn(&Path); 6] = [
        |directory| fs::remove_file(directory.join("superblock")).unwrap(),
        |directory| fs::write(directory.join("superblock"), [1; 65536]).unwrap(),
        |directory| fs::write(journal_file(directory), []).unwrap(),
        |directory| fs::remove_file(journal_file(directory)).unwrap(),
        |directory| fs::remove_file(directory.join("journal")).unwrap(),
        damage_checkpoints,
    ];
    for (number, harm) in HARMS.iter().enumerate() {
        let mut group = Group::new(1);
        group.configs[0].checkpoint_ops = 4;
        let node = group.start(0);
        node.wait_for("a primary", |_| node.is_primary());
        for command in numbered(0..20) {
            assert!(node.propose(&[command])[0].is_ok());
        }
        node.wait_for("a checkpoint", |_| node.status().checkpoint_op > 0);
        node.kill();
        harm(&group.directory_of(0));
        for _ in 0..2 {
            let refused = refusal(Node::start(group.configs[0].clone()));
            assert_eq!(refused.reason(), "damaged", "harm {number}: {refused}");
            assert!(
                refused.to_string().contains("estore"),
                "harm {number}: {refused}"
            );
        }
    }
}

fn journal_file(directory: &Path) -> PathBuf {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .max()
        .unwrap()
}

/// Damage all checkpoints, including the one that the superblock names.
fn damage_checkpoints(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "state")
        {
            let mut bytes = fs::read(&path).unwrap();
            bytes[1000] ^= 1;
            fs::write(path, bytes).unwrap();
        }
    }
}

#[test]
fn an_address_that_is_taken_is_refused() {
    let group = Group::new(3);
    let _taken = TcpListener::bind(&group.configs[0].replicas[0]).unwrap();
    let refused = refusal(Node::start(group.configs[0].clone()));
    assert_eq!(refused.reason(), "address");
}

/// CTL-6.
#[test]
fn a_replica_with_another_secret_is_refused_and_the_others_go_on() {
    let mut group = Group::new(3);
    let mut nodes = group.start_all();
    propose_anywhere(&nodes, b"all begin");
    converge(&nodes);
    nodes.pop().unwrap().kill();
    group.configs[2].secret = "another secret of the tests, as long as it".to_owned();
    nodes.push(group.start(2));
    propose_anywhere(&nodes[..2], b"two suffice");
    converge(&nodes[..2]);
    let says = |node: &Node, what: &str| {
        node.wait_for(what, |seen| seen.log.iter().any(|line| line.contains(what)));
    };
    says(&nodes[0], "the cluster secrets differ");
    says(&nodes[2], "the cluster secrets differ");
    assert!(nodes[2].seen().machine.commands < 2);
    for node in nodes {
        node.kill();
    }

    for (cluster, release, what) in [
        (Some("other"), None, "names of the clusters differ"),
        (None, Some("9.0.0"), "do not work together"),
    ] {
        let mut group = Group::new(3);
        if let Some(cluster) = cluster {
            group.configs[2].cluster = cluster.to_owned();
        }
        group.configs[2].release = release.map(str::to_owned);
        let nodes = group.start_all();
        says(&nodes[2], what);
        says(&nodes[0], what);
    }
}

/// Issue certificates of one authority for 127.0.0.1.
fn certificates(group: &Group) -> TlsConfig {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let write = |name: &str, text: String| {
        let path = group.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    TlsConfig {
        certificate: write("certificate.pem", certificate.pem()),
        key: write("key.pem", key.serialize_pem()),
        authority: write("authority.pem", issuer.pem()),
    }
}

#[test]
fn replicas_talk_over_tls_and_refuse_peers_without_a_certificate() {
    let mut group = Group::new(3);
    let tls = certificates(&group);
    for config in &mut group.configs {
        config.tls = Some(tls.clone());
    }
    let mut nodes = group.start_all();
    propose_anywhere(&nodes, b"first");
    converge(&nodes);
    // The third replica has no certificate, and is refused.
    nodes.pop().unwrap().kill();
    group.configs[2].tls = None;
    nodes.push(group.start(2));
    let primary = propose_anywhere(&nodes[..2], b"second");
    let big: Vec<Vec<u8>> = (0..20).map(|byte| vec![byte; 300_000]).collect();
    assert!(nodes[primary].propose(&big).iter().all(Result::is_ok));
    converge(&nodes[..2]);
    assert!(nodes[2].seen().machine.commands < 2);
    nodes.pop().unwrap().kill();
    group.configs[2].tls = Some(tls);
    nodes.push(group.start(2));
    assert_eq!(converge(&nodes).commands, 22);
}

/// Test authority, with certificates that it signs for 127.0.0.1.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(authority, key).unwrap())
    }

    fn sign(&self, tls: &TlsConfig) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])
            .unwrap()
            .signed_by(&key, &self.0)
            .unwrap();
        fs::write(&tls.certificate, certificate.pem()).unwrap();
        fs::write(&tls.key, key.serialize_pem()).unwrap();
    }
}

/// Replacement of the authority without a restart, in the recommended order: all replicas trust both authorities, all
/// present certificates of the new one, all trust only the new one. A replica that joins afterwards knows only the new
/// one.
#[test]
fn certificates_and_their_authority_are_replaced_while_replicas_run() {
    let mut group = Group::new(3);
    let (old, new) = (Authority::new(), Authority::new());
    let directory = group.directory.path().to_owned();
    let of = |member: usize| {
        let path = |name: &str| directory.join(format!("{member}-{name}.pem"));
        TlsConfig {
            certificate: path("certificate"),
            key: path("key"),
            authority: path("authority"),
        }
    };
    for (member, config) in group.configs.iter_mut().enumerate() {
        let tls = of(member);
        old.sign(&tls);
        fs::write(&tls.authority, old.0.pem()).unwrap();
        config.tls = Some(tls);
    }
    let mut nodes = group.start_all();
    propose_anywhere(&nodes, b"under the old authority");
    converge(&nodes);
    let renew_all = |nodes: &[Node], change: &dyn Fn(&TlsConfig)| {
        for (member, node) in nodes.iter().enumerate() {
            assert!(
                !node.replica.reload_certificates().unwrap(),
                "nothing is new"
            );
            change(&of(member));
            assert!(node.replica.reload_certificates().unwrap());
        }
    };
    let both = old.0.pem() + &new.0.pem();
    renew_all(&nodes, &|tls| fs::write(&tls.authority, &both).unwrap());
    renew_all(&nodes, &|tls| new.sign(tls));
    renew_all(&nodes, &|tls| {
        fs::write(&tls.authority, new.0.pem()).unwrap();
    });
    propose_anywhere(&nodes, b"over the connections of before");
    converge(&nodes);
    for member in 0..3 {
        nodes.remove(member).kill();
        propose_anywhere(&nodes, b"meanwhile");
        nodes.insert(member, group.start(member));
        converge(&nodes);
    }

    // Unusable files are reported once, and the previous certificates stay in use.
    let tls = of(0);
    let key = fs::read(&tls.key).unwrap();
    fs::write(&tls.key, fs::read(of(1).key).unwrap()).unwrap();
    let refused = nodes[0].replica.reload_certificates().unwrap_err();
    assert!(
        refused.to_string().contains("0-certificate.pem"),
        "{refused}"
    );
    assert!(!nodes[0].replica.reload_certificates().unwrap());
    fs::remove_file(&tls.key).unwrap();
    let refused = nodes[0].replica.reload_certificates().unwrap_err();
    assert!(refused.to_string().contains("0-key.pem"), "{refused}");
    nodes.remove(2).kill();
    nodes.push(group.start(2));
    propose_anywhere(&nodes, b"with the certificates of before");
    assert_eq!(converge(&nodes).commands, 6);
    fs::write(&tls.key, key).unwrap();
    assert!(nodes[0].replica.reload_certificates().unwrap());
}

#[test]
fn certificates_that_cannot_be_used_are_refused_by_name() {
    let mut group = Group::new(3);
    let mut tls = certificates(&group);
    tls.key = group.directory.path().join("missing.pem");
    group.configs[0].tls = Some(tls);
    let refused = refusal(Node::start(group.configs[0].clone()));
    assert_eq!(refused.reason(), "settings");
    assert!(refused.to_string().contains("missing.pem"), "{refused}");
}

#[test]
fn a_directory_can_be_looked_into() {
    let mut group = Group::new(1);
    group.configs[0].checkpoint_ops = 8;
    let node = group.start(0);
    node.wait_for("a primary", |_| node.is_primary());
    for command in numbered(0..20) {
        assert!(node.propose(&[command])[0].is_ok());
    }
    node.wait_for("a checkpoint", |_| node.status().checkpoint_op > 0);
    let report = inspect(&group.directory_of(0), 5, 10).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(report.records.len(), 10);
    assert_eq!(report.records[0].op, 5);
    assert!(
        report
            .records
            .iter()
            .all(|record| record.verdict == "whole")
    );
    assert_eq!(report.superblock.replicas, 1);
    assert!(
        report
            .checkpoints
            .iter()
            .any(|image| image.verdict == "whole")
    );
    node.kill();

    let path = group.directory_of(0).join("superblock");
    let mut bytes = fs::read(&path).unwrap();
    bytes[64] ^= 1;
    fs::write(path, bytes).unwrap();
    let report = inspect(&group.directory_of(0), 0, 0).unwrap();
    assert!(
        report.problems[0].contains("superblock"),
        "{:?}",
        report.problems
    );
    let nothing = inspect(group.directory.path(), 0, 10).unwrap_err();
    assert!(nothing.to_string().contains("no metadata replica"));
}

#[test]
fn a_primary_is_found_without_a_flag_when_replicas_come_late() {
    let group = Group::new(3);
    let mut nodes = Vec::new();
    for member in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(nodes.iter().all(|node: &Node| !node.is_primary()));
        nodes.push(group.start(member));
    }
    propose_anywhere(&nodes, b"all have met");
    assert_eq!(converge(&nodes), nodes[primary_of(&nodes)].seen().machine);
    nodes[2].wait_for("the end of the proof", |_| !nodes[2].status().rejoining);
}
