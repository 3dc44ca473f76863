//! Rows of the macro `commands!` from `proto/commands.toml`.

use std::fmt::Write as _;

use toml::Value;

use crate::{code_after, text_of};

/// Attributes that only Python code looks up.
const PYTHON_ONLY: [&str; 2] = ["audited", "binary-only"];

pub(crate) fn code_of(entries: &[Value]) -> String {
    let mut rows = String::from("commands! {\n");
    let mut last_code = 0;
    for entry in entries {
        let code = code_after(entry, &mut last_code);
        let name = text_of(entry, "name");
        let description = text_of(entry, "description");
        let payload = match entry.get("payload") {
            Some(_) => format!("(payload: {})", text_of(entry, "payload")),
            None => String::new(),
        };
        let attributes = match entry.get("attributes") {
            Some(list) => list.as_array().expect("attributes is an array").as_slice(),
            None => &[],
        };
        let attributes: Vec<String> = (attributes.iter())
            .map(|attribute| attribute.as_str().expect("an attribute is a text"))
            .filter(|attribute| !PYTHON_ONLY.contains(attribute))
            .map(|attribute| attribute.replace('-', "_").to_uppercase())
            .collect();
        let served_by = match entry.get("served_by") {
            None => "All",
            Some(_) => match text_of(entry, "served_by") {
                "gateways" => "Gateways",
                "partition-nodes" => "PartitionNodes",
                "ticket-issuers" => "TicketIssuers",
                other => panic!("{code}: unknown servers {other}"),
            },
        };
        writeln!(
            rows,
            "    /// {description}\n    {name}{payload} = {code} {{ attributes: [{}], served_by: {served_by} }},",
            attributes.join(" ")
        )
        .expect("writing to a string");
    }
    rows + "}\n"
}
