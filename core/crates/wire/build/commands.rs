//! Rows of the macro `commands!` from `proto/commands.toml`, and the enumeration of their permissions.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use toml::Value;

use crate::{code_after, table::snake_case, text_of};

/// Attributes that are not looked up at run time: those of Python, and the one that decides about a handler.
const UNLISTED: [&str; 3] = ["audited", "binary-only", SHARD];
/// Attribute of the commands without a handler.
const SHARD: &str = "shard";

pub(crate) fn code_of(entries: &[Value]) -> String {
    let mut rows = String::from("commands! {\n");
    let mut last_code = 0;
    let mut permissions = BTreeSet::new();
    let (mut handlers, mut others, mut requests) = (String::new(), String::new(), String::new());
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
        let attributes: Vec<&str> = (attributes.iter())
            .map(|attribute| attribute.as_str().expect("an attribute is a text"))
            .collect();
        if attributes.contains(&SHARD) {
            write!(others, "{name}, ").expect("writing to a string");
        } else {
            let request = if payload.is_empty() { "" } else { "(request)" };
            writeln!(
                handlers,
                "            {name}{request} {},",
                snake_case(name)
            )
            .expect("writing to a string");
        }
        if entry.get("partition").is_some() {
            writeln!(
                requests,
                "            {} = {name},",
                text_of(entry, "partition")
            )
            .expect("writing to a string");
        }
        let attributes: Vec<String> = (attributes.iter())
            .filter(|attribute| !UNLISTED.contains(attribute))
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
    rows + "}\n"
        + &enumeration(&permissions)
        + &passing(
            "command_handlers",
            "the commands with a handler, each with the name of the handler, and the others",
            &format!("{{\n{handlers}            }} {{ {others}}}"),
        )
        + &passing(
            "partition_requests",
            "the requests of a partition, each with its command",
            &format!("{{\n{requests}            }}"),
        )
}

/// Return a macro that passes a list to another macro.
fn passing(name: &str, list: &str, rows: &str) -> String {
    format!(
        "
/// Pass {list}, to the macro `$receiver`.
#[macro_export]
macro_rules! {name} {{
    ($receiver:ident) => {{
        $receiver! {{
            {rows}
        }}
    }};
}}
"
    )
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
