//! A proxy between a gateway and a node that can cut connections.

use std::{
    io,
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

pub struct Proxy {
    pub address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub fn to(node: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let kept = Arc::clone(&streams);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Dropped, if the node is down.
                let Ok(other) = TcpStream::connect(node) else {
                    continue;
                };
                let mut kept = kept.lock().unwrap();
                for end in [&stream, &other] {
                    end.set_nodelay(true).unwrap();
                    kept.push(end.try_clone().unwrap());
                }
                for (from, to) in [(&stream, &other), (&other, &stream)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        Self { address, streams }
    }

    /// Cut every connection, losing the data in flight.
    pub fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
