//! Without a build script, cargo leaves out the features of build dependencies.

fn main() {}
