//! The client over WebSocket.

use super::*;
use crate::websocket::{Cut, listener};

fn connect_websocket(address: std::net::SocketAddr) -> Result<Client, ClientError> {
    let options = ConnectOptions {
        transport: Transport::WebSocket,
        connect_timeout: Some(Duration::from_secs(5)),
        ..ConnectOptions::default()
    };
    Client::connect(&address.to_string(), &options)
}

/// GW-2: batches of every size are sent masked, and answers are read correctly however the server splits them.
#[test]
fn the_same_over_websocket() {
    let cuts = [
        (Cut::Not, 5),
        (Cut::Every(1), 3),
        (Cut::Every(900), 5),
        (Cut::Every(70_000), 5),
    ];
    for (cut, batches) in cuts {
        let server = MemoryServer::start(Fault::None);
        let mut client = connect_websocket(listener(server.address, cut)).expect("upgraded");
        client.login("iggy", "iggy").expect("logged in");
        client.create_stream("s").expect("created");
        client
            .create_topic(named("s"), &NewTopic::new("t", 1))
            .expect("created");
        let payloads: Vec<Vec<u8>> = [1, 100, 8_000, 128 * 1024, 300_001]
            .into_iter()
            .take(batches)
            .map(|size| (0..size).map(|byte: usize| byte.to_le_bytes()[0]).collect())
            .collect();
        for payload in &payloads {
            client
                .send_prepared(&prepared(&[payload], 0))
                .expect("acknowledged");
        }
        let window = NonZeroUsize::new(8).expect("not zero");
        let mut pipeline = Pipeline::new(&mut client, window);
        for tag in 0..20 {
            pipeline.send(&prepared(&[b"m"], 0), tag).expect("sent");
        }
        while pipeline.receive().expect("answered").is_some() {}
        let mut buffer = ResponseBuffer::default();
        let request = PollMessages {
            consumer: path(0).consumer,
            stream: named("s"),
            topic: named("t"),
            partition_id: Some(0),
            strategy: PollingStrategy::First,
            count: u32::try_from(batches).expect("few"),
            auto_commit: false,
        };
        let polled = client.poll(&request, &mut buffer).expect("answered");
        let read: Vec<Vec<u8>> = polled
            .messages()
            .map(|message| message.expect("whole").payload().to_vec())
            .collect();
        assert!(read == payloads, "{cut:?}");
    }
}

/// A request above the maximum frame size is sent as several messages.
#[test]
fn a_request_beyond_a_frame_over_websocket() {
    let server = MemoryServer::start(Fault::None);
    let mut client = connect_websocket(listener(server.address, Cut::Not)).expect("upgraded");
    client.login("iggy", "iggy").expect("logged in");
    client.create_stream("s").expect("created");
    client
        .create_topic(named("s"), &NewTopic::new("t", 1))
        .expect("created");
    let payload = vec![7; 40_000_000];
    client
        .send_prepared(&prepared(&[&payload], 0))
        .expect("acknowledged");
}

#[test]
fn each_failure_of_an_upgrade_has_its_own_error() {
    let server = MemoryServer::start(Fault::None);
    let mut client = connect_websocket(listener(server.address, Cut::Closed)).expect("upgraded");
    assert!(matches!(client.ping(), Err(ClientError::Disconnected)));
    let refusing = listen(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    });
    let error = connect_websocket(refusing).expect_err("refused");
    let ClientError::Connect { source, .. } = error else {
        panic!("{error}");
    };
    assert!(source.to_string().contains("status 403"), "{source}");
}
