//! Generate the encoders of commands and the records of responses from `proto/commands.toml` and `proto/layouts.toml`.

#[path = "build/encoders.rs"]
mod encoders;
#[path = "build/records.rs"]
mod records;
#[allow(dead_code, reason = "the wire crate needs more of it")]
#[path = "../wire/build/table.rs"]
mod table;

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let (layouts, enumerations) = table::layouts();
    let directory = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (name, code) in [
        ("encoders.rs", encoders::code(&layouts)),
        ("records.rs", records::code(&layouts, &enumerations)),
    ] {
        fs::write(directory.join(name), code).expect("OUT_DIR can be written");
    }
}

/// Return a function that adds functions and classes to the module.
fn registration(functions: &[String], classes: &[String]) -> String {
    let classes = (classes.iter()).map(|name| format!("    module.add_class::<{name}>()?;\n"));
    let functions = (functions.iter())
        .map(|name| format!("    module.add_function(wrap_pyfunction!({name}, module)?)?;\n"));
    let added: Vec<String> = classes.chain(functions).collect();
    format!(
        "pub(super) fn register_made(module: &Bound<'_, PyModule>) -> PyResult<()> {{\n{}    Ok(())\n}}\n",
        added.concat()
    )
}
