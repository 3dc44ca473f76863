//! The host: its drivers, and nodes and gateways as they run.

mod driver;
mod fallback;
mod links;
