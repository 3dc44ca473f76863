//! File system in memory whose power can be cut, for tests. A cut keeps all synced data, and a random part of the rest.
//!
//! The program mounts itself and reads commands from its standard input: `cut SEED` cuts the power, and is answered
//! with `cut` and the names whose creation or removal was lost. At the end of its input the program unmounts itself,
//! and all data is gone.

#![expect(
    clippy::disallowed_methods,
    reason = "a host: files have times of the wall clock"
)]

mod bytes;
mod disk;
mod mount;

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser;
use fuser::{Config, MountOption};

use crate::mount::{Mounted, Power};

#[derive(Debug, Parser)]
#[command(
    about = "Mounts a disk in memory that forgets at a power cut what was not synced",
    version
)]
struct Arguments {
    /// An empty directory
    directory: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "headrace-lossy-disk: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    // SAFETY: both only read identifiers of this process and cannot fail.
    let (owner, group) = unsafe { (libc::getuid(), libc::getgid()) };
    let power = Arc::new(Mutex::new(Power::new(owner, group)));
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("headrace-lossy-disk".to_owned()),
        MountOption::DefaultPermissions,
    ];
    let directory = &arguments.directory;
    let session = fuser::spawn_mount(Mounted(Arc::clone(&power)), directory, &config)
        .map_err(|error| format!("{} cannot be mounted: {error}", directory.display()))?;
    answer("mounted")?;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| format!("standard input: {error}"))?;
        let seed = line
            .strip_prefix("cut ")
            .and_then(|seed| seed.trim().parse().ok());
        let Some(seed) = seed else {
            return Err(format!("{line:?} is not `cut SEED`"));
        };
        let lost = power
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .cut(seed);
        answer(&format!("cut {}", lost.join(" ")))?;
    }
    session
        .umount_and_join()
        .map_err(|error| format!("{} cannot be unmounted: {error}", directory.display()))
}

fn answer(line: &str) -> Result<(), String> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")
        .and_then(|()| output.flush())
        .map_err(|error| format!("standard output: {error}"))
}
