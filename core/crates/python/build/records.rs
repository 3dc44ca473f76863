//! Records of responses, which Python reads, with the functions that decode them.

use std::fmt::Write as _;

use crate::table::{self, Enumerations, Field, Kind, Layout};

pub(crate) fn code(layouts: &[Layout], enumerations: &Enumerations) -> String {
    let mut code = String::new();
    let (mut functions, mut classes) = (Vec::new(), Vec::new());
    for layout in layouts {
        let Some(record) = layout.text("record") else {
            continue;
        };
        let made = Made {
            layouts,
            enumerations,
            record,
        };
        if layout.text("record_doc").is_some() {
            code += &made.class(layout);
            classes.push(record.to_owned());
        } else {
            code += &made.details(layout);
        }
        if let Some(function) = layout.text("decode") {
            let (name, decoder) = made.decoder(layout, function);
            code += &decoder;
            functions.push(name);
        }
    }
    code + &crate::registration(&functions, &classes)
}

struct Made<'a> {
    layouts: &'a [Layout],
    enumerations: &'a Enumerations,
    record: &'a str,
}

impl Made<'_> {
    /// Return the class and its conversion. A list that only the details have is empty after it.
    fn class(&self, layout: &Layout) -> String {
        let record = self.record;
        let more = (self.layouts.iter())
            .filter(|other| other.name != layout.name && other.text("record") == Some(record))
            .find_map(counted);
        let (mut members, mut values) = (String::new(), String::new());
        for field in layout.fields.iter().chain(more) {
            let (kind, value) = self.member(field);
            let name = &field.alias;
            write!(
                members,
                "    /// {}\n    pub(crate) {name}: {kind},\n",
                field.doc
            )
            .expect("writing to a string");
            let value = match more {
                Some(more) if more.name == field.name => "Vec::new()".to_owned(),
                _ => value,
            };
            writeln!(values, "            {name}: {value},").expect("writing to a string");
        }
        format!(
            "/// {}
#[pyclass(frozen, get_all, module = \"headrace_core\")]
#[derive(Clone)]
pub(crate) struct {record} {{
{members}}}

readable!({record}: {});

impl From<{}> for {record} {{
    fn from(wire: {}) -> Self {{
        Self {{
{values}        }}
    }}
}}\n\n",
            layout.text("record_doc").expect("a record is described"),
            layout.text("shows").expect("a record has a text"),
            self.wire(layout),
            self.wire(layout),
        )
    }

    fn details(&self, layout: &Layout) -> String {
        let record = self.record;
        let more = counted(layout).expect("details have a list");
        let header = &layout.fields[0].name;
        let (_, value) = self.member(more);
        format!(
            "impl From<{0}> for {record} {{
    fn from(wire: {0}) -> Self {{
        Self {{ {1}: {value}, ..wire.{header}.into() }}
    }}
}}\n\n",
            self.wire(layout),
            more.alias
        )
    }

    /// Return type and value of an attribute.
    fn member(&self, field: &Field) -> (String, String) {
        let value = format!("wire.{}", field.member());
        match &field.kind {
            Kind::Number(number) if field.zero_is_none => (
                format!("Option<{number}>"),
                format!("Some({value}).filter(|&number| number != 0)"),
            ),
            Kind::Number(number) => (number.clone(), value),
            Kind::Bool | Kind::Flag => ("bool".to_owned(), value),
            Kind::OptionalNumber => ("Option<u32>".to_owned(), value),
            Kind::Name | Kind::Text => ("String".to_owned(), format!("{value}.to_owned()")),
            Kind::Code(name) => {
                let (_, values) = (self.enumerations.iter())
                    .find(|(enumeration, _)| enumeration == name)
                    .expect("an enumeration");
                let arms: Vec<String> = (values.iter())
                    .map(|(value, text)| format!("headrace_wire::{name}::{value} => \"{text}\", "))
                    .collect();
                (
                    "&'static str".to_owned(),
                    format!("match {value} {{ {}}}", arms.concat()),
                )
            }
            Kind::List(item) | Kind::Counted { item, .. } => self.items(item, &value),
            _ => panic!("{}: write the record by hand", field.name),
        }
    }

    fn items(&self, item: &str, value: &str) -> (String, String) {
        if item == "u32" {
            return ("Vec<u32>".to_owned(), value.to_owned());
        }
        let records = format!("{value}.into_iter().map(Into::into).collect()");
        let Some(layout) = self.layouts.iter().find(|layout| layout.name == item) else {
            return (format!("Vec<{item}>"), records);
        };
        if let Some(record) = layout.text("record") {
            return (format!("Vec<{record}>"), records);
        }
        let values: Vec<String> = (layout.fields.iter())
            .map(|field| format!("item.{}", field.name))
            .collect();
        (
            format!("Vec<{}>", table::tuple_of(layout)),
            format!(
                "{value}.into_iter().map(|item| ({})).collect()",
                values.join(", ")
            ),
        )
    }

    /// Return name and code of a function that decodes a payload.
    fn decoder(&self, layout: &Layout, function: &str) -> (String, String) {
        let record = self.record;
        let wire = self.wire(layout);
        let (name, result, body) = if let Some(name) = function.strip_suffix('?') {
            let body = format!(
                "if payload.is_empty() {{ return Ok(None); }}
    let decoded = <{wire}>::decode(payload).map_err(malformed)?;
    Ok(Some(decoded.into()))"
            );
            (name, format!("Option<{record}>"), body)
        } else if let Some(name) = function.strip_prefix('[') {
            let body = format!(
                "let decoded = decode_list::<{wire}>(payload).map_err(malformed)?;
    Ok(decoded.into_iter().map(Into::into).collect())"
            );
            (name.trim_end_matches(']'), format!("Vec<{record}>"), body)
        } else {
            let body = format!(
                "let decoded = <{wire}>::decode(payload).map_err(malformed)?;
    Ok(decoded.into())"
            );
            (function, record.to_owned(), body)
        };
        let name = format!("decode_{name}");
        let code = format!(
            "#[pyfunction]\npub(crate) fn {name}(payload: &[u8]) -> PyResult<{result}> {{\n    {body}\n}}\n\n"
        );
        (name, code)
    }

    fn wire(&self, layout: &Layout) -> String {
        let life = if table::borrows(self.layouts, &layout.name) {
            "<'_>"
        } else {
            ""
        };
        format!("wire::{}{life}", layout.name)
    }
}

/// Return the list of the details that the header counts.
fn counted(layout: &Layout) -> Option<&Field> {
    (layout.fields.iter()).find(|field| matches!(field.kind, Kind::Counted { .. }))
}
