//! Connections of clients to the gateway, and of the gateway to nodes.

use std::collections::VecDeque;

use headrace_buffer::Buffer;
use headrace_shard::{ConnectionKey, Input};

/// One process's end of a connection.
pub struct End {
    pub process: usize,
    pub shard: usize,
    pub key: ConnectionKey,
    pub receive: Option<(Buffer, usize, usize)>,
    pub is_sending: bool,
    pub is_closed: bool,
}

/// A connection. Its first end is the gateway's; the second is that of a node or a client.
pub struct Wire {
    pub ends: [Option<End>; 2],
    /// Bytes in transit to each end.
    pub towards: [VecDeque<u8>; 2],
    /// True for an end that gets nothing after these bytes.
    pub is_ended: [bool; 2],
}

impl End {
    pub fn new(process: usize, shard: usize, key: ConnectionKey) -> Self {
        Self {
            process,
            shard,
            key,
            receive: None,
            is_sending: false,
            is_closed: false,
        }
    }
}

impl Wire {
    pub fn new(first: End, second: Option<End>) -> Self {
        Self {
            ends: [Some(first), second],
            towards: [VecDeque::new(), VecDeque::new()],
            is_ended: [false, false],
        }
    }

    pub fn is_broken(&self) -> bool {
        let is_closed = |end: &Option<End>| end.as_ref().is_some_and(|end| end.is_closed);
        self.is_ended == [true, true] || self.ends.iter().any(is_closed)
    }

    /// Deliver events to one end; `some` decides how much of the available data.
    pub fn carry(&mut self, side: usize, some: &mut impl FnMut(usize) -> usize) -> Vec<Input> {
        let mut inputs = Vec::new();
        let (towards, is_ended) = (&mut self.towards[side], self.is_ended[side]);
        let Some(end) = self.ends[side].as_mut().filter(|end| !end.is_closed) else {
            return inputs;
        };
        let connection = end.key;
        if std::mem::take(&mut end.is_sending) {
            inputs.push(Input::Sent {
                connection,
                sent: true,
            });
        }
        let Some((buffer, start, minimum)) = &end.receive else {
            return inputs;
        };
        if towards.len() < *minimum && !is_ended {
            return inputs;
        }
        let least = (*minimum).min(towards.len());
        let most = towards.len().min(buffer.len() - start);
        let count = least + some(most - least);
        let (mut buffer, start, _) = end.receive.take().unwrap();
        for place in &mut buffer[start..start + count] {
            *place = towards.pop_front().unwrap();
        }
        inputs.push(Input::Received {
            connection,
            buffer,
            count: Some(count),
        });
        inputs
    }

    /// Break the connection: only this many of the bytes in transit to each end still arrive.
    pub fn cut(&mut self, counts: [usize; 2]) {
        for (side, count) in counts.into_iter().enumerate() {
            self.towards[side].truncate(count);
            self.is_ended[side] = true;
        }
    }
}
