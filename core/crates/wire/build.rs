//! Generate code from the registries of the protocol: `proto/errors.toml` and `proto/commands.toml`.

#[path = "build/commands.rs"]
mod commands;
#[path = "build/responses.rs"]
mod responses;
#[path = "build/status.rs"]
mod status;

use std::path::PathBuf;
use std::{env, fs};

use toml::{Table, Value};

fn main() {
    generate("errors.toml", "status", "status.rs", status::code_of);
    generate("commands.toml", "command", "commands.rs", commands::code_of);
    generate(
        "commands.toml",
        "command",
        "responses.rs",
        responses::code_of,
    );
}

/// Write the code for the entries of one registry into `OUT_DIR`.
fn generate(registry: &str, array: &str, output: &str, code_of: fn(&[Value]) -> String) {
    let crate_directory = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let registry = PathBuf::from(crate_directory)
        .join("../../../proto")
        .join(registry);
    println!("cargo::rerun-if-changed={}", registry.display());
    let text = fs::read_to_string(&registry)
        .unwrap_or_else(|error| panic!("{}: {error}", registry.display()));
    let table: Table = text.parse().expect("the registry is TOML");
    let entries = (table[array].as_array()).unwrap_or_else(|| panic!("{array} is an array"));
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(output);
    fs::write(&output, code_of(entries)).expect("OUT_DIR can be written");
}

/// Return the number of an entry, which must be greater than the one before.
fn code_after(entry: &Value, last_code: &mut i64) -> i64 {
    let code = entry["code"].as_integer().expect("code is a number");
    assert!(
        code > *last_code,
        "codes ascend without repetition: {code} follows {last_code}"
    );
    *last_code = code;
    code
}

fn text_of<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key]
        .as_str()
        .unwrap_or_else(|| panic!("{key} is a text"))
}
