//! One function per command: keyword arguments in, the command's code and its payload out.

use std::fmt::Write as _;

use toml::Value;

use crate::table::{self, Field, Kind, Layout};

pub(crate) fn code(layouts: &[Layout]) -> String {
    let by_hand = table::by_hand();
    let commands = table::read("commands.toml");
    let entries = commands["command"].as_array().expect("an array");
    let mut code = String::new();
    let mut names = Vec::new();
    for entry in entries {
        let command = entry["name"].as_str().expect("a name");
        if by_hand.iter().any(|name| name == command) {
            continue;
        }
        let name = format!("encode_{}", table::snake_case(command));
        let payload = entry.get("payload").and_then(Value::as_str);
        code += &encoder(layouts, command, &name, payload);
        names.push(name);
    }
    code + &crate::registration(&names, &[])
}

fn encoder(layouts: &[Layout], command: &str, name: &str, payload: Option<&str>) -> String {
    let mut encoder = Encoder {
        layouts,
        arguments: Vec::new(),
    };
    let value = payload.map(|payload| {
        let (name, _) = payload.split_once('<').unwrap_or((payload, ""));
        format!("({})", encoder.construct(name))
    });
    let (mut parameters, mut signature) = (String::new(), String::from("*"));
    for (name, kind, default) in &encoder.arguments {
        write!(parameters, ", {name}: {kind}").expect("writing to a string");
        write!(signature, ", {name}").expect("writing to a string");
        if let Some(default) = default {
            write!(signature, " = {default}").expect("writing to a string");
        }
    }
    if encoder.arguments.is_empty() {
        signature.clear();
    }
    format!(
        "#[pyfunction]
#[pyo3(signature = ({signature}))]
fn {name}<'py>(python: Python<'py>{parameters}) -> PyResult<Encoded<'py>> {{
    encoded(python, &Command::{command}{})
}}\n\n",
        value.unwrap_or_default()
    )
}

struct Encoder<'a> {
    layouts: &'a [Layout],
    /// Name, type and default of each argument.
    arguments: Vec<(String, String, Option<String>)>,
}

impl Encoder<'_> {
    /// Return the expression of a payload, and collect its arguments.
    fn construct(&mut self, name: &str) -> String {
        let layout = table::find(self.layouts, name);
        let mut members = String::new();
        for field in &layout.fields {
            let value = self.value(field);
            let member = field.member();
            let value = if value == member {
                value
            } else {
                format!("{member}: {value}")
            };
            write!(members, "{value}, ").expect("writing to a string");
        }
        format!("wire::{name} {{ {members}}}")
    }

    fn value(&mut self, field: &Field) -> String {
        let name = &field.alias;
        let (kind, value) = match &field.kind {
            Kind::Nested(nested) => return self.construct(nested),
            Kind::Consumer => {
                self.argument("consumer", "Name", Some("Name::Number(1)"));
                self.argument("is_group", "bool", Some("false"));
                return "consumer.consumer(is_group)?".to_owned();
            }
            Kind::Polling => {
                self.argument("strategy", "&str", Some("\"next\""));
                self.argument("value", "u64", Some("0"));
                return "arguments::strategy(strategy, value)?".to_owned();
            }
            Kind::OptionalPartition => {
                self.argument(name, "Option<u32>", Some("None"));
                return name.clone();
            }
            Kind::List(item) => {
                let item = table::find(self.layouts, item);
                let members: Vec<String> = item.fields.iter().map(Field::member).collect();
                let members = members.join(", ");
                let kind = format!("Vec<{}>", table::tuple_of(item));
                self.argument(name, &kind, None);
                let wire = &item.name;
                return format!(
                    "{name}.into_iter().map(|({members})| wire::{wire} {{ {members} }}).collect()"
                );
            }
            Kind::Number(number) => (number.as_str(), name.clone()),
            Kind::Bool | Kind::Flag => ("bool", name.clone()),
            Kind::Text => ("&str", name.clone()),
            Kind::Bytes => ("PyBackedBytes", format!("&{name}")),
            Kind::Identifier => ("Name", format!("{name}.checked(\"{name}\")?")),
            Kind::Name => ("&str", format!("arguments::name(\"{name}\", {name})?")),
            Kind::Password => ("&str", format!("arguments::password(\"{name}\", {name})?")),
            Kind::OptionalName => (
                "Option<&str>",
                format!("{name}.map(|text| arguments::name(\"{name}\", text)).transpose()?"),
            ),
            Kind::Unchecked(codes) => (
                "&str",
                format!("arguments::{}({name})?", table::snake_case(codes)),
            ),
            Kind::OptionalUnchecked(codes) => (
                "Option<&str>",
                format!(
                    "{name}.map(arguments::{}).transpose()?",
                    table::snake_case(codes)
                ),
            ),
            Kind::OptionalPermissions => (
                "Option<PyRef<'py, Permissions>>",
                format!("{name}.map(|granted| granted.to_wire())"),
            ),
            Kind::OptionalNumber | Kind::Status | Kind::Code(_) | Kind::Counted { .. } => {
                panic!("{name}: write the encoder by hand")
            }
        };
        self.argument(name, kind, field.default.as_deref());
        value
    }

    fn argument(&mut self, name: &str, kind: &str, default: Option<&str>) {
        let default = default.map(str::to_owned);
        self.arguments
            .push((name.to_owned(), kind.to_owned(), default));
    }
}
