//! Host with a simulated disk: everything is determined by one seed.

pub mod disk;
pub mod messages;
pub mod world;
