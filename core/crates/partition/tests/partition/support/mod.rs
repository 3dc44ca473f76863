//! Host with a simulated disk: everything is determined by one seed.

pub mod disk;
pub mod in_flight;
pub mod log_host;
pub mod messages;
pub mod world;
