//! Tokens of a shard's operations in flight.

use headrace_shard::ConnectionKey;

use crate::sockets::GENERATION_MASK;

/// Decoded token: the kind in the upper 4 bits, 28 bits of generation, and the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    Receive(ConnectionKey),
    Send(ConnectionKey),
    Close(ConnectionKey),
    Accept(u32),
    RemoveDirectory(u64),
    GiveBack,
    Connect(u32),
    Storage(u64),
}

const KIND_SHIFT: u32 = 60;

impl Token {
    pub(crate) fn encode(self) -> u64 {
        let connection = |kind: u64, key: ConnectionKey| {
            kind << KIND_SHIFT
                | u64::from(key.generation & GENERATION_MASK) << 32
                | u64::from(key.index)
        };
        match self {
            Self::Receive(key) => connection(1, key),
            Self::Send(key) => connection(2, key),
            Self::Close(key) => connection(3, key),
            Self::Accept(listener) => 4 << KIND_SHIFT | u64::from(listener),
            Self::RemoveDirectory(namespace) => 5 << KIND_SHIFT | namespace,
            Self::GiveBack => 6 << KIND_SHIFT,
            Self::Connect(link) => 7 << KIND_SHIFT | u64::from(link),
            Self::Storage(token) => token,
        }
    }

    pub(crate) fn decode(token: u64) -> Self {
        let key = || ConnectionKey {
            index: u32::try_from(token & u64::from(u32::MAX)).expect("masked"),
            generation: u32::try_from(token >> 32).expect("shifted") & GENERATION_MASK,
        };
        match token >> KIND_SHIFT {
            1 => Self::Receive(key()),
            2 => Self::Send(key()),
            3 => Self::Close(key()),
            4 => Self::Accept(key().index),
            5 => Self::RemoveDirectory(token & ((1 << KIND_SHIFT) - 1)),
            6 => Self::GiveBack,
            7 => Self::Connect(key().index),
            _ => Self::Storage(token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        let key = ConnectionKey {
            index: 70_000,
            generation: 12_345,
        };
        for token in [
            Token::Receive(key),
            Token::Send(key),
            Token::Close(key),
            Token::Accept(1),
            Token::RemoveDirectory(0xfff_ffff_ffff),
            Token::GiveBack,
            Token::Connect(u32::MAX),
            Token::Storage((1 << 63) + 99),
        ] {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
