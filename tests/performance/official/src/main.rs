//! The loads of `make bench` through the official client.
//!
//! Reads its settings as a JSON object from standard input and writes its report as one to standard output: names
//! and units are those of the native load generator, so that both stand in one table.

mod config;
mod load;
mod process_cpu;
mod report;

use std::error::Error;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use config::Config;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is where the harness looks when there is no report.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut settings = String::new();
    io::stdin().read_to_string(&mut settings)?;
    let config: Config = serde_json::from_str(&settings)?;
    // As many threads as there are CPUs, which is what `#[tokio::main]` in a user's program takes.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(load::run(config))?;
    serde_json::to_writer(io::stdout(), &report)?;
    Ok(())
}
