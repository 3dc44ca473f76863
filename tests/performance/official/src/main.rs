//! Loads of `make bench` through the official client.
//!
//! The program reads its configuration as a JSON object from standard input and writes its report as one to standard
//! output. Names and units are those of the native load generator, so that both fit in one table.

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
            // The harness reads standard error if there is no report.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut settings = String::new();
    io::stdin().read_to_string(&mut settings)?;
    let config: Config = serde_json::from_str(&settings)?;
    // Use as many threads as there are CPUs, like `#[tokio::main]` in a user's program.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(load::run(config))?;
    serde_json::to_writer(io::stdout(), &report)?;
    Ok(())
}
