use super::*;

fn identity(replica: u8) -> Identity {
    Identity {
        claim: claim_of(replica),
        cluster: 7,
        cluster_name: "test".to_owned(),
        replica,
        replicas: 3,
        given_up: Vec::new(),
        release: Release::new(1, 4, 0),
        in_force: Release::new(1, 3, 0),
        memory: PeerMemory::default(),
        keys: keys("the secret", ""),
    }
}

fn keys(secret: &str, accepted: &str) -> Keys {
    Keys::derive(secret, accepted, "test")
}

fn claim_of(replica: u8) -> MemberClaim {
    MemberClaim {
        has_history: replica == 2,
        is_normal: replica == 0,
        view: u32::from(replica) + 70_000,
        is_proven: true,
        incarnation: 1 << 40 | u64::from(replica),
        process: u64::MAX - u64::from(replica),
        log_view: u32::from(replica) + 69_000,
        op: 1 << 50,
    }
}

fn met(peer: u8) -> Progress {
    let claim = claim_of(peer);
    Progress::Done { peer, claim }
}

/// Run both ends of an entire handshake; bytes arrive one by one if `dribble`.
fn converse(
    dialler: &Identity,
    acceptor: &Identity,
    called: u8,
    dribble: bool,
) -> (Progress, Progress) {
    let mut to_acceptor = Vec::new();
    let mut dial = Handshake::dial(dialler, called, [1; NONCE_BYTES], &mut to_acceptor);
    let mut accept = Handshake::accept([2; NONCE_BYTES]);
    let mut to_dialler = Vec::new();
    let mut results = (Progress::Wait, Progress::Wait);
    let (mut dial_in, mut accept_in) = (Vec::new(), Vec::new());
    while !(to_acceptor.is_empty() && to_dialler.is_empty()) {
        let step = if dribble { 1 } else { usize::MAX };
        accept_in.extend(to_acceptor.drain(..step.min(to_acceptor.len())));
        if results.1 == Progress::Wait {
            results.1 = accept.advance(acceptor, &mut accept_in, &mut to_dialler);
        }
        dial_in.extend(to_dialler.drain(..step.min(to_dialler.len())));
        if results.0 == Progress::Wait {
            results.0 = dial.advance(dialler, &mut dial_in, &mut to_acceptor);
        }
    }
    results
}

fn refusal(progress: Progress) -> String {
    match progress {
        Progress::Refuse(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn peers_with_one_secret_meet() {
    for dribble in [false, true] {
        let (dialler, acceptor) = converse(&identity(2), &identity(0), 0, dribble);
        assert_eq!(dialler, met(0));
        assert_eq!(acceptor, met(2));
    }
}

#[test]
fn what_follows_the_handshake_stays_in_the_input() {
    let (us, them) = (identity(0), identity(1));
    let mut wire = Vec::new();
    let mut dial = Handshake::dial(&us, 1, [1; NONCE_BYTES], &mut wire);
    let mut accept = Handshake::accept([2; NONCE_BYTES]);
    let mut back = Vec::new();
    accept.advance(&them, &mut wire, &mut back);
    dial.advance(&us, &mut back, &mut wire);
    wire.extend_from_slice(b"a frame");
    assert_eq!(accept.advance(&them, &mut wire, &mut back), met(0));
    assert_eq!(wire, b"a frame");
}

#[test]
fn another_secret_is_refused_and_both_sides_learn_why() {
    let mut other = identity(1);
    other.keys = keys("some other secret", "");
    let (dialler, acceptor) = converse(&other, &identity(0), 0, false);
    assert!(refusal(dialler).contains("secrets differ"));
    assert_eq!(
        refusal(acceptor),
        "it refuses us: the cluster secrets differ"
    );
}

/// Change of the secret in three steps, with replicas at different steps: in every pair that can meet, both sides
/// accept each other, and afterwards the old secret is rejected.
#[test]
fn the_secret_is_changed_step_by_step() {
    let with = |replica, secret, accepted| Identity {
        keys: keys(secret, accepted),
        ..identity(replica)
    };
    let steps = [("old", ""), ("old", "new"), ("new", "old"), ("new", "")];
    for pair in steps.windows(2) {
        for (one, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            let (dialler, acceptor) = (with(2, one.0, one.1), with(0, other.0, other.1));
            let met_both = converse(&dialler, &acceptor, 0, false);
            assert_eq!(met_both, (met(0), met(2)), "{one:?} calls {other:?}");
        }
    }
    let (dialler, acceptor) = converse(&with(2, "old", ""), &with(0, "new", ""), 0, false);
    assert!(refusal(dialler).contains("secrets differ"));
    assert!(refusal(acceptor).contains("secrets differ"));
}

/// CTL-6.
#[test]
fn another_cluster_name_is_refused_with_both_names() {
    let mut other = identity(1);
    other.cluster_name = "production".to_owned();
    other.cluster = 8;
    let (dialler, acceptor) = converse(&other, &identity(0), 0, false);
    assert!(refusal(dialler).contains("\"production\" and \"test\""));
    assert!(refusal(acceptor).contains("\"production\" and \"test\""));
}

#[test]
fn a_release_too_far_away_is_refused() {
    let mut older = identity(1);
    older.release = Release::new(1, 2, 9);
    let (dialler, acceptor) = converse(&older, &identity(0), 0, false);
    assert!(refusal(dialler).contains("1.4.0 and 1.2.9"));
    assert!(refusal(acceptor).contains("1.4.0 and 1.2.9"));
    let mut near = identity(1);
    near.release = Release::new(1, 3, 9);
    assert_eq!(converse(&near, &identity(0), 0, false).1, met(1));
}

#[test]
fn a_release_that_is_older_than_what_is_in_force_is_refused() {
    let (mut near, mut us) = (identity(1), identity(0));
    near.release = Release::new(1, 3, 9);
    us.in_force = Release::new(1, 4, 0);
    let (dialler, acceptor) = converse(&near, &us, 0, false);
    assert!(refusal(acceptor).contains("release 1.4.0 is in force"));
    assert!(refusal(dialler).contains("1.3.9 is too old for it"));
}

#[test]
fn disagreement_about_the_members_is_refused() {
    let (_, acceptor) = converse(&identity(1), &identity(0), 2, false);
    assert!(refusal(acceptor).contains("replica 2 was called"));
    let mut five = identity(1);
    five.replicas = 5;
    assert!(refusal(converse(&five, &identity(0), 0, false).1).contains("5 replicas"));
    assert!(refusal(converse(&identity(0), &identity(0), 0, false).1).contains("one index"));
}

#[test]
fn our_own_words_prove_nothing() {
    // A dialler that returns the acceptor's signature as its own proof.
    let us = identity(0);
    let mut wire = Vec::new();
    let _ = Handshake::dial(&identity(1), 0, [1; NONCE_BYTES], &mut wire);
    let mut accept = Handshake::accept([2; NONCE_BYTES]);
    let mut challenge = Vec::new();
    assert_eq!(
        accept.advance(&us, &mut wire, &mut challenge),
        Progress::Wait
    );
    let mut proof = Vec::new();
    put(&mut proof, PROOF, &challenge[challenge.len() - MAC_BYTES..]);
    assert!(refusal(accept.advance(&us, &mut proof, &mut Vec::new())).contains("secrets differ"));
}

#[test]
fn a_peer_that_speaks_another_protocol_is_refused() {
    for garbage in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 64],
        vec![0xFF; 64],
    ] {
        let mut input = garbage;
        let mut accept = Handshake::accept([2; NONCE_BYTES]);
        let progress = accept.advance(&identity(0), &mut input, &mut Vec::new());
        assert!(matches!(progress, Progress::Refuse(_)), "{progress:?}");
    }
}

/// CTL-5.
#[test]
fn a_replica_that_has_forgotten_something_is_stopped_by_who_remembers() {
    let mut remembers = identity(0);
    remembers.memory.acknowledged(1, 69_001, 1 << 50);
    assert_eq!(
        converse(&identity(1), &remembers, 0, false),
        (met(0), met(1))
    );
    remembers.memory.acknowledged(1, 69_001, 1 + (1 << 50));
    let (dialler, acceptor) = converse(&identity(1), &remembers, 0, true);
    let Progress::LocalStateOutdated(why) = dialler else {
        panic!("{dialler:?}");
    };
    assert!(why.contains("its directory is an older copy"), "{why}");
    assert!(refusal(acceptor).contains("replica 1 must not go on"));
}

/// CTL-5.
#[test]
fn a_replica_that_was_given_up_is_not_let_in() {
    let mut other = identity(0);
    other.given_up = vec![1];
    let (dialler, _) = converse(&identity(1), &other, 0, false);
    assert!(refusal(dialler).contains("was given up"));
}

/// Bytes altered by the network are refused, and never believed: a replica would otherwise take another one for an
/// older copy of itself, or stop.
#[test]
fn no_bit_of_the_last_word_may_differ() {
    for is_forgetful in [false, true] {
        let (us, mut them) = (identity(0), identity(1));
        if is_forgetful {
            let mut later = claim_of(0);
            later.incarnation += 1;
            them.memory.on_handshake(0, later);
        }
        let mut last_words = 0;
        for bit in 0.. {
            let (mut wire, mut back) = (Vec::new(), Vec::new());
            let mut dial = Handshake::dial(&us, 1, [1; NONCE_BYTES], &mut wire);
            let mut accept = Handshake::accept([2; NONCE_BYTES]);
            accept.advance(&them, &mut wire, &mut back);
            dial.advance(&us, &mut back, &mut wire);
            accept.advance(&them, &mut wire, &mut back);
            if bit == back.len() * 8 {
                break;
            }
            back[bit / 8] ^= 1 << (bit % 8);
            match dial.advance(&us, &mut back, &mut wire) {
                // An altered length may announce more bytes.
                Progress::Refuse(_) | Progress::Wait => last_words += 1,
                believed => panic!("bit {bit}: {believed:?}"),
            }
        }
        assert!(last_words > 8 * CLAIM_BYTES);
    }
}
