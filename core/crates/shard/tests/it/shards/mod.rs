//! Two shards under a host that executes only the requested effects.

mod catching_up;
mod groups;
mod holders;
mod input;
mod isolation;
mod measures;
mod memory;
mod messages;
mod nodes;
mod plans;
mod retention;
mod served;
mod sessions;
mod tickets;
mod traces;
mod unread;
mod waits;
mod watches;
mod websocket;
