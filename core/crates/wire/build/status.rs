//! Constants and table of `Status` from `proto/errors.toml`.

use std::fmt::Write as _;

use toml::Value;

use crate::{code_after, text_of};

pub(crate) fn code_of(entries: &[Value]) -> String {
    let mut constants = String::from("impl Status {\n");
    let mut rows = format!("static REGISTRY: [StatusInfo; {}] = [\n", entries.len());
    let mut last_code = 0;
    for entry in entries {
        let code = code_after(entry, &mut last_code);
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
    constants + &rows
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
