//! Connections between clients, processes and nodes.

use std::collections::VecDeque;

use headrace_buffer::{Buffer, Slice};
use headrace_shard::{ConnectionKey, Input};

/// A process's end of a connection.
pub struct End {
    pub process: usize,
    pub shard: usize,
    pub key: ConnectionKey,
    /// Receive in flight: buffer, start, minimum.
    pub receive: Option<(Buffer, usize, usize)>,
    /// Buffers of a send that has not been reported as complete.
    pub sending: Option<Vec<Slice>>,
    pub is_closed: bool,
}

/// A connection. Its first end is that of the first process; the second is that of a client or a node.
pub struct Wire {
    /// `None` for an end outside of the processes.
    pub ends: [Option<End>; 2],
    /// Node at the second end.
    pub node: Option<u32>,
    /// Bytes in transit to each end.
    pub towards: [VecDeque<u8>; 2],
    /// True for an end that gets nothing after these bytes.
    pub is_ended: [bool; 2],
    /// True if the peer does not read: no send completes.
    pub is_deaf: bool,
    /// True if the client does not close its end after the server.
    pub stays: bool,
}

impl End {
    pub fn new(process: usize, shard: usize, key: ConnectionKey) -> Self {
        Self {
            process,
            shard,
            key,
            receive: None,
            sending: None,
            is_closed: false,
        }
    }
}

impl Wire {
    pub fn new(near: End, far: Option<End>, node: Option<u32>) -> Self {
        Self {
            ends: [Some(near), far],
            node,
            towards: [VecDeque::new(), VecDeque::new()],
            is_ended: [false, false],
            is_deaf: false,
            stays: false,
        }
    }

    pub fn near(&self) -> &End {
        self.ends[0].as_ref().expect("always there")
    }

    pub fn near_mut(&mut self) -> &mut End {
        self.ends[0].as_mut().expect("always there")
    }

    /// Return whether one side has closed the connection, or it was cut.
    pub fn is_broken(&self) -> bool {
        let is_closed = |end: &Option<End>| end.as_ref().is_some_and(|end| end.is_closed);
        self.is_ended[0] || self.ends.iter().any(is_closed)
    }

    /// Deliver events to one end; `some` decides how much of the available data.
    pub fn carry(
        &mut self,
        side: usize,
        is_held: bool,
        mut some: impl FnMut(usize) -> usize,
    ) -> Vec<Input> {
        let mut inputs = Vec::new();
        // A client closes its end once it has everything from the server.
        if self.node.is_none() && self.is_ended[1] && !self.stays && self.towards[0].is_empty() {
            self.is_ended[0] = true;
        }
        let (towards, is_ended) = (&mut self.towards[side], self.is_ended[side]);
        let Some(end) = self.ends[side].as_mut().filter(|end| !end.is_closed) else {
            return inputs;
        };
        let connection = end.key;
        if !self.is_deaf && !is_held && end.sending.take().is_some() {
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
        let (mut buffer, start, _) = end.receive.take().expect("checked");
        for place in &mut buffer[start..start + count] {
            *place = towards.pop_front().expect("counted");
        }
        inputs.push(Input::Received {
            connection,
            buffer,
            count: Some(count),
        });
        inputs
    }
}
