use headrace_wire::CommandCode::{GetMe, GetStats, GetStreams, GetUsers, Ping, WatchPartitions};
use headrace_wire::response::Capabilities;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A session with a scripted server and a clock.
struct Bench {
    session: Session<u32>,
    now: Duration,
    /// Codes of the frames that were written on the present connection.
    written: Vec<u32>,
    /// Everything else that happened, as text.
    events: Vec<String>,
}

impl Bench {
    fn new(addresses: usize, first_rounds: u32) -> Self {
        let config = Config {
            addresses: (0..addresses)
                .map(|index| format!("server-{index}"))
                .collect(),
            login: Login::AccessToken("secret".to_owned()),
            connect_timeout: 5 * SECOND,
            response_timeout: 10 * SECOND,
            keepalive: 30 * SECOND,
            backoff: Backoff::new(SECOND, 8 * SECOND, 1),
            first_rounds,
            reports_offsets: false,
        };
        let mut bench = Self {
            session: Session::new(config, SECOND),
            now: SECOND,
            written: Vec::new(),
            events: Vec::new(),
        };
        bench.tick();
        bench
    }

    /// A session that is open.
    fn open() -> Self {
        let mut bench = Self::new(1, 1);
        bench.log_in();
        assert!(bench.session.is_open());
        bench.events.clear();
        bench
    }

    fn collect(&mut self) {
        while let Some(effect) = self.session.next_effect() {
            let event = match effect {
                Effect::Write(frame) => {
                    let code = frame[0][4..8].try_into().expect("four bytes");
                    self.written.push(u32::from_le_bytes(code));
                    continue;
                }
                Effect::Connect(index) => format!("connect {index}"),
                Effect::Close => {
                    self.written.clear();
                    "close".to_owned()
                }
                Effect::Opened(generation) => format!("opened {generation}"),
                Effect::Lost { reason } => format!("lost: {reason}"),
                Effect::Failed(failure) => format!("failed: {failure}"),
                Effect::Answered { token, outcome } => match outcome {
                    Ok(payload) => format!("{token}: {}", String::from_utf8_lossy(&payload)),
                    Err(Failure::NotSent { .. }) => format!("{token}: not sent"),
                    Err(Failure::Unanswered { .. }) => format!("{token}: unanswered"),
                    Err(Failure::Late { is_sent, .. }) => format!("{token}: late, sent {is_sent}"),
                    Err(Failure::Refused { status, .. }) => {
                        format!("{token}: refused {}", status.0)
                    }
                    Err(failure) => format!("{token}: {failure}"),
                },
                Effect::Notified(payload) => format!("notified of {} bytes", payload.len()),
            };
            self.events.push(event);
        }
    }

    fn tick(&mut self) {
        self.session.tick(self.now);
        self.collect();
    }

    /// Let time pass up to the next deadline, which has to exist.
    fn pass(&mut self) -> Duration {
        let deadline = self.session.next_deadline().expect("there is a deadline");
        let passed = deadline.saturating_sub(self.now);
        self.now = self.now.max(deadline);
        self.tick();
        passed
    }

    fn connect(&mut self) {
        self.session.connected(self.now);
        self.collect();
    }

    fn answer(&mut self, status: Status, payload: &[u8]) {
        let header = ResponseHeader {
            status,
            length: u32::try_from(payload.len()).expect("short"),
        };
        self.session
            .received(header, Bytes::copy_from_slice(payload), self.now);
        self.collect();
    }

    fn log_in(&mut self) {
        self.connect();
        let mut capabilities = Vec::new();
        Capabilities {
            version: 1,
            codes: vec![WatchPartitions.code()],
            limits: Vec::new(),
        }
        .encode(&mut capabilities);
        self.answer(Status::OK, &capabilities);
        self.answer(Status::OK, b"");
        self.answer(Status::OK, b"");
        self.written.clear();
    }

    fn reconnect(&mut self) {
        self.session.written();
        self.events.clear();
        while self
            .events
            .last()
            .is_none_or(|event| !event.starts_with("connect "))
        {
            self.pass();
        }
        self.log_in();
        self.events.clear();
    }

    fn submit(&mut self, code: CommandCode, repeat: Repeat, token: u32) {
        let request = Request::encoded(code.code(), &[], repeat).expect("short");
        self.session.submit(request, token, self.now);
        self.collect();
    }

    fn submit_within(&mut self, timeout: Duration, token: u32) {
        let request = Request::encoded(GetMe.code(), &[], Repeat::Always);
        let request = request.expect("short").within(timeout);
        self.session.submit(request, token, self.now);
        self.collect();
    }

    fn break_off(&mut self) {
        self.session.disconnected("reset", self.now);
        self.collect();
    }

    fn take_events(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }
}

fn codes(commands: &[CommandCode]) -> Vec<u32> {
    commands.iter().map(|command| command.code()).collect()
}

#[test]
fn the_login_precedes_all_requests_which_keep_their_order() {
    let mut bench = Bench::new(1, 1);
    bench.submit(GetMe, Repeat::IfUnsent, 1);
    bench.submit(GetStats, Repeat::Always, 2);
    bench.connect();
    let login = [
        CommandCode::Capabilities,
        CommandCode::ExplainRefusals,
        CommandCode::LoginWithPersonalAccessToken,
    ];
    assert_eq!(bench.written, codes(&login));
    assert!(!bench.session.offers(WatchPartitions));
    bench.answer(Status::INVALID_COMMAND, b"");
    bench.answer(Status::INVALID_COMMAND, b"");
    assert_eq!(bench.written.len(), 3);
    bench.answer(Status::OK, b"");
    assert_eq!(bench.written[3..], codes(&[GetMe, GetStats]));
    bench.answer(Status::OK, b"a");
    bench.answer(Status::UNAUTHORIZED, b"no");
    assert_eq!(
        bench.take_events(),
        ["connect 0", "opened 1", "1: a", "2: refused 41"]
    );
    assert_eq!(bench.session.pending(), 0);
}

#[test]
fn a_refused_login_ends_the_session_and_its_requests() {
    let mut bench = Bench::new(2, 9);
    bench.submit(GetMe, Repeat::Always, 1);
    bench.connect();
    bench.answer(Status::OK, b"");
    bench.answer(Status::OK, b"");
    bench.answer(Status::INVALID_CREDENTIALS, b"");
    let events = bench.take_events();
    assert_eq!(events[..2], ["connect 0", "close"]);
    assert!(
        events[2].starts_with("1: the login was refused"),
        "{events:?}"
    );
    assert!(
        events[3].starts_with("failed: the login was refused"),
        "{events:?}"
    );
    assert_eq!(bench.session.next_deadline(), None);
    bench.submit(GetMe, Repeat::Always, 2);
    assert_eq!(bench.take_events(), ["2: the client is closed"]);
}

/// Someone else may have used up the attempts of the user, or of the address.
#[test]
fn too_many_login_attempts_end_only_the_first_connection() {
    let refuse_login = |bench: &mut Bench| {
        bench.connect();
        bench.answer(Status::OK, b"");
        bench.answer(Status::OK, b"");
        bench.answer(Status::TOO_MANY_LOGIN_ATTEMPTS, b"");
    };
    let mut bench = Bench::open();
    bench.submit(GetMe, Repeat::Always, 1);
    bench.break_off();
    bench.pass();
    assert_eq!(bench.take_events(), ["close", "lost: reset", "connect 0"]);
    for _ in 0..3 {
        refuse_login(&mut bench);
        assert!(bench.pass() > Duration::ZERO);
        assert_eq!(bench.take_events(), ["close", "connect 0"]);
    }
    bench.log_in();
    bench.answer(Status::OK, b"me");
    assert_eq!(bench.take_events(), ["opened 5", "1: me"]);

    // A session of a client that was connected before is tried without end from its beginning.
    for (first_rounds, is_ended) in [(9, true), (u32::MAX, false)] {
        let mut bench = Bench::new(1, first_rounds);
        refuse_login(&mut bench);
        assert_eq!(bench.session.next_deadline().is_none(), is_ended);
    }
}

#[test]
fn addresses_take_turns_and_a_round_without_success_is_followed_by_a_pause() {
    let mut bench = Bench::new(2, 2);
    for (address, pauses) in [(0, false), (1, true), (0, false)] {
        assert_eq!(bench.take_events(), [format!("connect {address}")]);
        bench.session.connect_failed("refused", bench.now);
        bench.collect();
        assert_eq!(bench.pass() > Duration::ZERO, pauses);
    }
    assert_eq!(bench.take_events(), ["connect 1"]);
    bench.session.connect_failed("refused", bench.now);
    bench.collect();
    let failed = "failed: cannot connect to server-0, server-1: refused";
    assert_eq!(bench.take_events(), ["close", failed]);
}

#[test]
fn a_server_that_does_not_answer_the_login_is_given_up() {
    let mut bench = Bench::new(1, 2);
    bench.connect();
    assert_eq!(bench.pass(), 5 * SECOND);
    assert_eq!(bench.take_events(), ["connect 0", "close"]);
    assert!(bench.pass() > Duration::ZERO);
    assert_eq!(bench.take_events(), ["connect 0"]);
}

#[test]
fn after_a_loss_each_request_is_repeated_as_it_says_and_in_order() {
    let mut bench = Bench::open();
    bench.submit(GetMe, Repeat::IfUnsent, 1);
    bench.submit(GetStats, Repeat::Always, 2);
    bench.submit(GetUsers, Repeat::Bound(1), 3);
    bench.session.written();
    bench.session.written();
    bench.session.written();
    bench.submit(GetStreams, Repeat::IfUnsent, 4);
    bench.submit(GetUsers, Repeat::Bound(1), 5);
    bench.break_off();
    // Only valid on the connection that has broken.
    bench.submit(GetMe, Repeat::Bound(1), 6);
    bench.submit(GetMe, Repeat::IfUnsent, 7);
    assert_eq!(
        bench.take_events(),
        [
            "close",
            "1: unanswered",
            "3: unanswered",
            "5: not sent",
            "lost: reset",
            "6: not sent",
        ]
    );
    assert!(bench.pass() > Duration::ZERO);
    bench.log_in();
    bench.answer(Status::OK, b"a");
    bench.answer(Status::OK, b"b");
    bench.answer(Status::OK, b"c");
    assert_eq!(
        bench.take_events(),
        ["connect 0", "opened 2", "2: a", "4: b", "7: c"]
    );
}

#[test]
fn what_was_sent_again_and_is_lost_again_stays_ahead_of_later_requests() {
    let mut bench = Bench::open();
    bench.submit(GetMe, Repeat::Always, 1);
    bench.submit(GetStats, Repeat::Always, 2);
    bench.submit(GetUsers, Repeat::Always, 3);
    // The first two are refused because of the session; the third stays in flight.
    bench.answer(Status::DISCONNECTED, b"");
    bench.answer(Status::STALE_CLIENT, b"");
    bench.submit(GetStreams, Repeat::Always, 4);
    assert_eq!(bench.written, codes(&[GetMe, GetStats, GetUsers]));
    bench.break_off();
    bench.reconnect();
    assert!(bench.session.is_open());
    bench.break_off();
    bench.events.clear();
    bench.pass();
    bench.connect();
    bench.answer(Status::OK, b"");
    bench.answer(Status::OK, b"");
    bench.answer(Status::OK, b"");
    assert_eq!(
        bench.written[3..],
        codes(&[GetMe, GetStats, GetUsers, GetStreams])
    );
}

#[test]
fn a_session_that_the_server_ends_still_takes_answers() {
    let mut bench = Bench::open();
    bench.submit(GetMe, Repeat::IfUnsent, 1);
    bench.submit(GetStats, Repeat::IfUnsent, 2);
    bench.session.written();
    bench.session.written();
    bench.answer(Status::DISCONNECTED, b"");
    assert!(!bench.session.is_open());
    bench.submit(GetUsers, Repeat::Bound(1), 3);
    bench.submit(GetStreams, Repeat::IfUnsent, 4);
    bench.answer(Status::OK, b"b");
    let lost = "lost: the server has ended the session";
    assert_eq!(bench.take_events(), ["3: not sent", "2: b", "close", lost]);
    bench.pass();
    bench.connect();
    bench.answer(Status::OK, b"");
    bench.answer(Status::OK, b"");
    bench.answer(Status::OK, b"");
    assert_eq!(bench.written[3..], codes(&[GetMe, GetStreams]));
}

/// A change whose result the server does not know may have been made.
#[test]
fn what_may_have_been_executed_is_not_sent_again() {
    let mut bench = Bench::open();
    bench.submit(GetMe, Repeat::IfUnsent, 1);
    bench.session.written();
    bench.answer(Status::OUTCOME_UNKNOWN, b"");
    assert_eq!(bench.take_events(), ["1: unanswered"]);
    assert!(bench.session.is_open());
}

#[test]
fn a_session_that_the_server_ends_without_more_answers_is_given_up_soon() {
    let mut bench = Bench::open();
    bench.submit(GetMe, Repeat::Bound(1), 1);
    bench.submit(GetStats, Repeat::Bound(1), 2);
    bench.session.written();
    bench.session.written();
    bench.answer(Status::DISCONNECTED, b"");
    assert_eq!(bench.take_events(), ["1: not sent"]);
    assert_eq!(bench.pass(), DRAIN_TIME);
    let lost = "lost: the server has ended the session";
    assert_eq!(bench.take_events(), ["close", "2: unanswered", lost]);
}

#[test]
fn an_announcement_without_a_request_ends_the_connection() {
    let mut bench = Bench::open();
    bench.answer(Status::DISCONNECTED, b"");
    let events = bench.take_events();
    assert_eq!(events[0], "close");
    assert!(events[1].starts_with("lost: "), "{events:?}");
    // What a transport still delivers belongs to no connection.
    bench.answer(Status::OK, b"x");
    assert!(bench.take_events().is_empty());
}

#[test]
fn a_server_that_refuses_a_ping_as_stale_is_left() {
    let mut bench = Bench::open();
    assert_eq!(bench.pass(), 30 * SECOND);
    assert_eq!(bench.written, codes(&[Ping]));
    bench.answer(Status::STALE_CLIENT, b"");
    let lost = "lost: the server has ended the session";
    assert_eq!(bench.take_events(), ["close", lost]);
}

/// A server that ends each session at its first request is asked with growing pauses, although each login succeeds.
#[test]
fn sessions_that_end_at_once_are_followed_by_growing_pauses() {
    let mut bench = Bench::open();
    bench.submit(GetMe, Repeat::Always, 1);
    let mut pauses = Vec::new();
    for _ in 0..4 {
        bench.answer(Status::UNAUTHENTICATED, b"");
        pauses.push(bench.pass());
        bench.log_in();
    }
    // Each pause is drawn from the upper half of 1, 2, 4 and 8 seconds.
    for (attempt, pause) in pauses.iter().enumerate() {
        let full = SECOND * (1 << attempt);
        assert!(full / 2 <= *pause && *pause <= full, "{pauses:?}");
    }
    bench.answer(Status::OK, b"");
    bench.break_off();
    assert!(
        bench.pass() <= SECOND,
        "an answer begins again with the shortest pause"
    );
}

#[test]
fn a_request_has_its_time_and_its_answer_is_still_awaited() {
    let mut bench = Bench::open();
    bench.submit_within(SECOND, 1);
    bench.submit_within(2 * SECOND, 2);
    assert_eq!(bench.pass(), SECOND);
    assert_eq!(bench.take_events(), ["1: late, sent true"]);
    // The answer that comes now is that of the first one.
    bench.answer(Status::OK, b"first");
    bench.answer(Status::OK, b"second");
    assert_eq!(bench.take_events(), ["2: second"]);
    // The deadline of the second request wakes no caller twice.
    bench.pass();
    assert!(bench.session.next_deadline().expect("keep-alive") > bench.now);
}

#[test]
fn requests_have_their_time_while_there_is_no_connection() {
    let mut bench = Bench::new(1, 1);
    bench.submit_within(SECOND, 1);
    bench.submit_within(3 * SECOND, 2);
    assert_eq!(bench.pass(), SECOND);
    assert_eq!(bench.take_events(), ["connect 0", "1: late, sent false"]);
    assert_eq!(bench.session.next_deadline(), Some(4 * SECOND));
    bench.log_in();
    bench.answer(Status::OK, b"b");
    assert_eq!(bench.take_events(), ["opened 1", "2: b"]);
}

#[test]
fn a_silent_server_is_given_up() {
    let mut bench = Bench::open();
    bench.submit(GetMe, Repeat::Bound(1), 1);
    bench.session.written();
    bench.now += 4 * SECOND;
    bench.submit(GetMe, Repeat::Bound(1), 2);
    assert_eq!(bench.pass(), 6 * SECOND);
    let lost = "lost: no answer within 10s";
    assert_eq!(
        bench.take_events(),
        ["close", "1: unanswered", "2: not sent", lost]
    );
}

/// A long answer arrives over a slow network.
#[test]
fn a_server_that_is_heard_is_not_given_up() {
    let mut bench = Bench::open();
    bench.submit(GetMe, Repeat::Bound(1), 1);
    bench.session.written();
    for _ in 0..5 {
        bench.now += 4 * SECOND;
        bench.session.heard(bench.now);
        bench.tick();
    }
    assert!(bench.session.is_open());
    assert_eq!(bench.pass(), 10 * SECOND);
    let lost = "lost: no answer within 10s";
    assert_eq!(bench.take_events(), ["close", "1: unanswered", lost]);
}

/// A server that counts silent clients as dead hears from one that only listens.
#[test]
fn a_connection_that_only_listens_pings() {
    let mut bench = Bench::open();
    bench.submit(WatchPartitions, Repeat::Bound(1), 1);
    bench.answer(Status::OK, b"");
    for _ in 0..3 {
        bench.now += 10 * SECOND;
        bench.tick();
        bench.answer(Status::OK, &[0; 48]);
    }
    bench.tick();
    assert_eq!(bench.written, codes(&[WatchPartitions, Ping]));
    bench.answer(Status::OK, &[0; 96]);
    bench.answer(Status::OK, b"");
    let notified = "notified of 48 bytes";
    let expected = ["1: ", notified, notified, notified, "notified of 96 bytes"];
    assert_eq!(bench.take_events(), expected);
    // Notifications end with the connection.
    bench.break_off();
    bench.reconnect();
    bench.submit(GetMe, Repeat::Bound(2), 2);
    bench.answer(Status::OK, b"me");
    assert_eq!(bench.take_events(), ["2: me"]);
}

#[test]
fn closing_reports_what_may_have_been_executed() {
    let mut bench = Bench::open();
    bench.submit(GetMe, Repeat::Always, 1);
    bench.session.written();
    bench.submit(GetStats, Repeat::Always, 2);
    bench.session.close();
    bench.session.close();
    bench.collect();
    let closed = "the client is closed";
    let expected = [
        "close".to_owned(),
        "1: unanswered".to_owned(),
        format!("2: {closed}"),
        format!("failed: {closed}"),
    ];
    assert_eq!(bench.take_events(), expected);
    assert_eq!(
        (bench.session.pending(), bench.session.next_deadline()),
        (0, None)
    );
}

#[test]
fn secrets_are_not_shown() {
    let login = Login::Password {
        username: "root".to_owned(),
        password: "secret".to_owned(),
    };
    assert_eq!(
        format!("{login:?} {:?}", Login::Ticket("secret".to_owned())),
        "Password Ticket"
    );
}

/// A session that reports offsets asks for it on each connection, before anything that is submitted can be sent.
#[test]
fn places_of_batches_are_asked_for_ahead_of_the_login() {
    let login = Login::AccessToken("secret".to_owned());
    let codes = |reports_offsets| {
        let steps = login.steps(reports_offsets).into_iter();
        let codes = steps.map(|(_, command)| command.code());
        codes.collect::<Vec<_>>()
    };
    let usual = [
        CommandCode::Capabilities,
        CommandCode::ExplainRefusals,
        CommandCode::LoginWithPersonalAccessToken,
    ];
    assert_eq!(codes(false), usual);
    let mut reporting = usual.to_vec();
    reporting.insert(2, CommandCode::ReportOffsets);
    assert_eq!(codes(true), reporting);
}

#[test]
fn a_request_that_was_not_sent_is_not_said_to_be_unanswered() {
    let late = |is_sent| {
        let after = Duration::from_millis(1500);
        Failure::Late { after, is_sent }.to_string()
    };
    assert_eq!(
        late(false),
        "not sent within 1.5 s, because there was no connection to a server"
    );
    assert_eq!(
        late(true),
        "no answer within 1.5 s: the server may have executed the request"
    );
}
