//! Features of third-party crates that the native module and the tests of the crates share. There is no code: `Cargo.toml` is what
//! counts.
