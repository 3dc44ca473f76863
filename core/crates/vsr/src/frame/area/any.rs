//! Type that holds the area of any command.

use super::{
    Chunk, CommandArea, Commit, CommitOk, DoViewChange, Eviction, Headers, NoPrepare, Ping,
    PingClient, Pong, PongClient, Prepare, PrepareOk, Redirect, Reply, Request, RequestChunk,
    RequestHeaders, RequestPrepare, RequestStartView, RequestState, StartView, StartViewChange,
    StateManifest,
};
use crate::frame::Command;
use crate::frame::HEADER_BYTES;
use crate::frame::Reject;

/// Area of any command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each variant is the area of the command with its name"
)]
pub enum Area {
    Ping(Ping),
    Pong(Pong),
    PingClient(PingClient),
    PongClient(PongClient),
    Request(Request),
    Prepare(Prepare),
    PrepareOk(PrepareOk),
    Reply(Reply),
    Commit(Commit),
    StartViewChange(StartViewChange),
    DoViewChange(DoViewChange),
    StartView(StartView),
    Eviction(Eviction),
    RequestStartView(RequestStartView),
    RequestHeaders(RequestHeaders),
    Headers(Headers),
    RequestPrepare(RequestPrepare),
    NoPrepare(NoPrepare),
    RequestState(RequestState),
    StateManifest(StateManifest),
    RequestChunk(RequestChunk),
    Chunk(Chunk),
    CommitOk(CommitOk),
    Redirect(Redirect),
}

macro_rules! any_area {
    ($($name:ident),+ $(,)?) => {
        /// Offset and length of each field of a command's area.
        #[cfg(test)]
        pub(crate) const fn fields(command: Command) -> &'static [(usize, usize)] {
            match command {
                $( Command::$name => $name::FIELDS, )+
            }
        }

        $(
            impl From<$name> for Area {
                fn from(area: $name) -> Self {
                    Self::$name(area)
                }
            }
        )+

        impl CommandArea for Area {
            fn command(&self) -> Command {
                match self {
                    $( Self::$name(_) => Command::$name, )+
                }
            }

            fn encode(&self, header: &mut [u8; HEADER_BYTES]) {
                match self {
                    $( Self::$name(area) => area.encode(header), )+
                }
            }

            fn decode(command: Command, header: &[u8; HEADER_BYTES]) -> Result<Self, Reject> {
                match command {
                    $( Command::$name => $name::decode(command, header).map(Self::$name), )+
                }
            }
        }
    };
}

any_area!(
    Ping,
    Pong,
    PingClient,
    PongClient,
    Request,
    Prepare,
    PrepareOk,
    Reply,
    Commit,
    StartViewChange,
    DoViewChange,
    StartView,
    Eviction,
    RequestStartView,
    RequestHeaders,
    Headers,
    RequestPrepare,
    NoPrepare,
    RequestState,
    StateManifest,
    RequestChunk,
    Chunk,
    CommitOk,
    Redirect,
);
