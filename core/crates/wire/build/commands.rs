//! Rows of the macro `commands!` from `proto/commands.toml`, and the enumeration of their permissions.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use toml::Value;

use crate::{code_after, text_of};

/// Attributes that only Python code looks up.
const PYTHON_ONLY: [&str; 2] = ["audited", "binary-only"];

pub(crate) fn code_of(entries: &[Value]) -> String {
    let mut rows = String::from("commands! {\n");
    let mut last_code = 0;
    let mut permissions = BTreeSet::new();
    for entry in entries {
        let code = code_after(entry, &mut last_code);
        let name = text_of(entry, "name");
        let permission = text_of(entry, "permission");
        permissions.insert(permission);
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
            "    /// {description}\n    {name}{payload} = {code} {{ permission: {}, attributes: [{}], served_by: {served_by} }},",
            variant(permission),
            attributes.join(" ")
        )
        .expect("writing to a string");
    }
    rows + "}\n" + &enumeration(&permissions)
}

fn enumeration(permissions: &BTreeSet<&str>) -> String {
    let mut code = String::from(
        "/// Permission that allows a command, by its name in the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
",
    );
    for permission in permissions {
        let name = variant(permission);
        writeln!(code, "    /// `{permission}`.\n    {name},").expect("writing to a string");
    }
    code + "}\n"
}

/// `users read or oneself` becomes `UsersReadOrOneself`.
fn variant(permission: &str) -> String {
    (permission.split(' '))
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}
