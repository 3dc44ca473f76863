//! A host with a simulated disk: everything that happens follows from one seed.

pub mod disk;
pub mod messages;
pub mod world;
