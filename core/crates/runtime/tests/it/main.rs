//! The host: its drivers, and complete nodes and gateways.

mod driver;
mod fallback;
mod links;
