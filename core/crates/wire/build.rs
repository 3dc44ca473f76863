//! Generate code from the registries of the protocol: `proto/errors.toml`, `proto/commands.toml` and
//! `proto/layouts.toml`.

#[path = "build/commands.rs"]
mod commands;
#[path = "build/layouts.rs"]
mod layouts;
#[path = "build/responses.rs"]
mod responses;
#[path = "build/samples.rs"]
mod samples;
#[path = "build/status.rs"]
mod status;
#[allow(dead_code, reason = "the native module needs more of it")]
#[path = "build/table.rs"]
mod table;

use std::path::PathBuf;
use std::{env, fs};

use toml::Value;

fn main() {
    let (errors, commands) = (table::read("errors.toml"), table::read("commands.toml"));
    let (errors, commands) = (entries(&errors, "status"), entries(&commands, "command"));
    let (payloads, contents) = layouts::code();
    for (name, code) in [
        ("status.rs", status::code_of(errors)),
        ("commands.rs", commands::code_of(commands)),
        ("responses.rs", responses::code_of(commands)),
        ("payloads.rs", payloads),
        ("contents.rs", contents),
        ("samples.rs", samples::code(commands)),
    ] {
        let path = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(name);
        fs::write(&path, code).expect("OUT_DIR can be written");
    }
}

fn entries<'a>(registry: &'a toml::Table, array: &str) -> &'a [Value] {
    (registry[array].as_array()).unwrap_or_else(|| panic!("{array} is an array"))
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
