//! Generate the constants and the table of `Status` from `proto/errors.toml`, the registry of status codes.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use toml::{Table, Value};

fn main() {
    let crate_directory = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let registry = PathBuf::from(crate_directory).join("../../../proto/errors.toml");
    println!("cargo::rerun-if-changed={}", registry.display());
    let text = fs::read_to_string(&registry)
        .unwrap_or_else(|error| panic!("{}: {error}", registry.display()));
    let table: Table = text.parse().expect("the registry is TOML");
    let entries = table["status"].as_array().expect("status is an array");

    let mut constants = String::from("impl Status {\n");
    let mut rows = format!("static REGISTRY: [StatusInfo; {}] = [\n", entries.len());
    let mut last_code = 0;
    for entry in entries {
        let code = entry["code"].as_integer().expect("code is a number");
        assert!(
            code > last_code,
            "codes ascend without repetition: {code} follows {last_code}"
        );
        last_code = code;
        let name = text_of(entry, "name");
        let description = text_of(entry, "description");
        let retryable = entry["retryable"]
            .as_bool()
            .expect("retryable is a boolean");
        let origin = match text_of(entry, "origin") {
            "wire" => "Wire",
            "wire-internal" => "WireInternal",
            "startup" => "Startup",
            "http" => "Http",
            "client" => "Client",
            "never" => "Never",
            other => panic!("{code}: unknown origin {other}"),
        };
        let constant = constant_name(name);
        writeln!(
            constants,
            "    /// {description}\n    pub const {constant}: Self = Self({code});"
        )
        .expect("writing to a string");
        writeln!(
            rows,
            "    StatusInfo {{ status: Status::{constant}, name: {name:?}, description: {description:?}, \
             origin: Origin::{origin}, retryable: {retryable} }},"
        )
        .expect("writing to a string");
    }
    constants.push_str("}\n");
    rows.push_str("];\n");

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("status.rs");
    fs::write(&out, constants + &rows).expect("OUT_DIR can be written");
}

fn text_of<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key]
        .as_str()
        .unwrap_or_else(|| panic!("{key} is a text"))
}

/// `InvalidCommand` becomes `INVALID_COMMAND`.
fn constant_name(name: &str) -> String {
    let mut constant = String::new();
    for (index, character) in name.char_indices() {
        if index > 0 && character.is_ascii_uppercase() {
            constant.push('_');
        }
        constant.push(character.to_ascii_uppercase());
    }
    constant
}
