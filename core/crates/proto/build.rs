//! Compiles every `.proto` file below the repository's `proto` folder.
//!
//! The compiler is a Rust library rather than `protoc`, so that a checkout builds without a system package.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    // Asked for when it runs: compiled in, it would be the folder of another checkout with the same target folder.
    let crate_folder = env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo sets CARGO_MANIFEST_DIR")?;
    let root = Path::new(&crate_folder).join("../../../proto");
    // A directory is watched with everything below it: a new file is noticed, too.
    println!("cargo::rerun-if-changed={}", root.display());

    let mut files = Vec::new();
    collect(&root, &mut files)?;
    // The order of a directory listing is the file system's; the output must not depend on it.
    files.sort();

    let descriptors = protox::compile(&files, [&root])?;
    prost_build::Config::new().compile_fds(descriptors)?;
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path);
        }
    }
    Ok(())
}
