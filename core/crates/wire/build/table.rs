//! Table of layouts, `proto/layouts.toml`, which describes itself. The native module is made of it, too.

use std::path::Path;
use std::{env, fs};

use toml::{Table, Value};

/// Read a registry of `proto`, and have cargo build again when it changes.
pub(crate) fn read(registry: &str) -> Table {
    let crate_directory = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let path = Path::new(&crate_directory)
        .join("../../../proto")
        .join(registry);
    println!("cargo::rerun-if-changed={}", path.display());
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().expect("the registry is TOML")
}

/// Type with a layout.
pub(crate) struct Layout {
    pub(crate) name: String,
    pub(crate) is_payload: bool,
    pub(crate) doc: String,
    pub(crate) fields: Vec<Field>,
    entry: Value,
}

pub(crate) struct Field {
    /// Name in Rust.
    pub(crate) name: String,
    /// Name in Python.
    pub(crate) alias: String,
    /// True if Python has `None` for 0.
    pub(crate) zero_is_none: bool,
    pub(crate) kind: Kind,
    /// True if `Debug` omits the field.
    pub(crate) is_secret: bool,
    /// Value of an argument that is not given, in Rust.
    pub(crate) default: Option<String>,
    pub(crate) doc: String,
}

pub(crate) enum Kind {
    /// Integers and floats.
    Number(String),
    /// Any other byte than 0 is true.
    Bool,
    /// Exactly 0 or 1.
    Flag,
    Name,
    OptionalName,
    Password,
    Text,
    Bytes,
    Identifier,
    Consumer,
    OptionalPartition,
    Polling,
    OptionalPermissions,
    /// None is the greatest number.
    OptionalNumber,
    Status,
    /// Value of an enumeration.
    Code(String),
    /// Code of an enumeration, which the handler checks.
    Unchecked(String),
    OptionalUnchecked(String),
    /// Items behind their number.
    List(String),
    /// Items whose number is a field of a preceding type.
    Counted {
        item: String,
        count: String,
    },
    Nested(String),
}

/// Values of an enumeration and their names in Python; none if Python does not name them.
pub(crate) type Enumerations = Vec<(String, Vec<(String, String)>)>;

/// Return the layouts and the enumerations.
pub(crate) fn layouts() -> (Vec<Layout>, Enumerations) {
    let mut table = read("layouts.toml");
    let enumerations = table.remove("enumerations").expect("the table has them");
    let enumerations: Enumerations = (enumerations.as_table().expect("a table").iter())
        .map(|(name, values)| (name.clone(), named(values)))
        .collect();
    table.remove("by_hand");
    let layouts = (table.into_iter())
        .map(|(name, entry)| Layout::parse(name, entry, &enumerations))
        .collect();
    (layouts, enumerations)
}

fn named(values: &Value) -> Vec<(String, String)> {
    let pair = |(value, name): (&String, &Value)| {
        (value.clone(), name.as_str().expect("a name").to_owned())
    };
    (values.as_table().expect("names by values").iter())
        .map(pair)
        .collect()
}

impl Layout {
    fn parse(name: String, entry: Value, enumerations: &Enumerations) -> Self {
        let is_payload = entry.get("payload").is_some();
        let key = if is_payload { "payload" } else { "response" };
        let fields = text(&entry, "fields").unwrap_or_else(|| panic!("{name} has fields"));
        Self {
            is_payload,
            doc: text(&entry, key).expect("a type is described").to_owned(),
            fields: (fields.trim().lines())
                .map(|line| Field::parse(line, enumerations))
                .collect(),
            name,
            entry,
        }
    }

    /// Return an optional text of the entry.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        text(&self.entry, key)
    }
}

fn text<'a>(entry: &'a Value, key: &str) -> Option<&'a str> {
    entry
        .get(key)
        .map(|value| value.as_str().expect("a value is a text"))
}

impl Field {
    /// Parse `name/alias: kind = default | description`.
    fn parse(line: &str, enumerations: &Enumerations) -> Self {
        let (field, doc) =
            (line.split_once(" | ")).unwrap_or_else(|| panic!("{line}: description"));
        let (names, kind) = field
            .split_once(": ")
            .unwrap_or_else(|| panic!("{line}: kind"));
        let (kind, default) = match kind.split_once(" = ") {
            Some((kind, default)) => (kind, Some(default.to_owned())),
            None => (kind, None),
        };
        let (name, alias) = names.split_once('/').unwrap_or((names, names));
        let is_secret = kind.ends_with('!') || kind == "password";
        Self {
            name: name.to_owned(),
            alias: alias.trim_end_matches('?').to_owned(),
            zero_is_none: alias.ends_with('?'),
            kind: Kind::parse(kind.trim_end_matches('!'), enumerations),
            is_secret,
            default,
            doc: doc.to_owned(),
        }
    }

    /// Name of the field in Rust: the code of an unchecked value is named as such.
    pub(crate) fn member(&self) -> String {
        match self.kind {
            Kind::Unchecked(_) | Kind::OptionalUnchecked(_) => format!("{}_code", self.name),
            _ => self.name.clone(),
        }
    }
}

impl Kind {
    fn parse(text: &str, enumerations: &Enumerations) -> Self {
        if let Some(list) = text
            .strip_prefix('[')
            .and_then(|list| list.strip_suffix(']'))
        {
            return match list.split_once(" by ") {
                Some((item, count)) => Self::Counted {
                    item: item.to_owned(),
                    count: count.to_owned(),
                },
                None => Self::List(list.to_owned()),
            };
        }
        if let Some(name) = text.strip_prefix('~') {
            return match name.strip_suffix('?') {
                Some(name) => Self::OptionalUnchecked(name.to_owned()),
                None => Self::Unchecked(name.to_owned()),
            };
        }
        match text {
            "u8" | "u16" | "u32" | "u64" | "u128" | "f32" => Self::Number(text.to_owned()),
            "bool" => Self::Bool,
            "flag" => Self::Flag,
            "name" => Self::Name,
            "name?" => Self::OptionalName,
            "password" => Self::Password,
            "text" => Self::Text,
            "bytes" => Self::Bytes,
            "identifier" => Self::Identifier,
            "consumer" => Self::Consumer,
            "partition?" => Self::OptionalPartition,
            "polling" => Self::Polling,
            "permissions?" => Self::OptionalPermissions,
            "u32?" => Self::OptionalNumber,
            "status" => Self::Status,
            _ if enumerations.iter().any(|(name, _)| name == text) => Self::Code(text.to_owned()),
            _ => {
                assert!(text.starts_with(char::is_uppercase), "{text} is no kind");
                Self::Nested(text.to_owned())
            }
        }
    }
}

/// Return the commands without an encoder in Python, or with one that is written by hand.
pub(crate) fn by_hand() -> Vec<String> {
    let table = read("layouts.toml");
    (table["by_hand"].as_array().expect("a list").iter())
        .map(|name| name.as_str().expect("a name").to_owned())
        .collect()
}

pub(crate) fn find<'a>(layouts: &'a [Layout], name: &str) -> &'a Layout {
    (layouts.iter().find(|layout| layout.name == name))
        .unwrap_or_else(|| panic!("{name}: no layout"))
}

/// Types without a borrow that are written by hand.
const OWNED: [&str; 3] = ["Quota", "GroupMember", "u32"];

/// Return whether a type borrows from the frame.
pub(crate) fn borrows(layouts: &[Layout], name: &str) -> bool {
    let Some(layout) = layouts.iter().find(|layout| layout.name == name) else {
        return !OWNED.contains(&name);
    };
    (layout.fields.iter()).any(|field| match &field.kind {
        Kind::Name
        | Kind::OptionalName
        | Kind::Password
        | Kind::Text
        | Kind::Bytes
        | Kind::Identifier
        | Kind::Consumer => true,
        Kind::Nested(name) | Kind::List(name) | Kind::Counted { item: name, .. } => {
            borrows(layouts, name)
        }
        _ => false,
    })
}

/// Return the type of a tuple of the fields.
pub(crate) fn tuple_of(layout: &Layout) -> String {
    let kinds: Vec<&str> = (layout.fields.iter())
        .map(|field| match &field.kind {
            Kind::Number(number) => number,
            Kind::Bool | Kind::Flag => "bool",
            _ => panic!("{}: a tuple has numbers", layout.name),
        })
        .collect();
    format!("({})", kinds.join(", "))
}

/// `GetStats` becomes `get_stats`.
pub(crate) fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for (index, character) in name.char_indices() {
        if index > 0 && character.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(character.to_ascii_lowercase());
    }
    text
}
