//! Types of payloads and responses, with their codecs, from `proto/layouts.toml`.

use std::fmt::Write as _;

use crate::table::{self, Field, Kind, Layout};

/// Return the code of the payloads, and of the responses.
pub(crate) fn code() -> (String, String) {
    let (layouts, _) = table::layouts();
    let known = Known(&layouts);
    let code = |is_payload| {
        (layouts.iter())
            .filter(|layout| layout.is_payload == is_payload)
            .map(|layout| known.code_of(layout))
            .collect()
    };
    (code(true), code(false))
}

struct Known<'a>(&'a [Layout]);

impl Known<'_> {
    fn code_of(&self, layout: &Layout) -> String {
        let name = &layout.name;
        let (life, anonymous) = if table::borrows(self.0, name) {
            ("<'a>", "<'_>")
        } else {
            ("", "")
        };
        let derives = self.derives(layout);
        let members: Vec<String> = (layout.fields.iter())
            .map(|field| {
                format!(
                    "    /// {}\n    pub {}: {},\n",
                    field.doc,
                    field.member(),
                    self.type_of(&field.kind)
                )
            })
            .collect();
        let reads: String = layout
            .fields
            .iter()
            .map(|field| self.read(layout, field))
            .collect();
        let names: String = layout
            .fields
            .iter()
            .map(|field| field.member() + ", ")
            .collect();
        let writes: String = layout
            .fields
            .iter()
            .map(|field| write_of(layout, field))
            .collect();
        let (implementation, failure, more) = if layout.is_payload {
            (
                format!("Payload<'a> for {name}{life}"),
                "Status",
                payload_methods(layout),
            )
        } else {
            (
                format!("Part<'a> for {name}{life}"),
                "Malformed",
                String::new(),
            )
        };
        let mut code = format!(
            "/// {}\n///\n/// Layout: {}.\n#[derive({derives})]\npub struct {name}{life} {{\n{}}}\n
impl<'a> {implementation} {{
    fn read(input: &mut Reader<'a>) -> Result<Self, {failure}> {{
{reads}        Ok(Self {{ {names}}})
    }}

    fn write(&self, out: &mut Writer<'_>) {{
{writes}    }}
{more}}}\n\n",
            layout.doc,
            layout_of(layout),
            members.concat()
        );
        if !layout.is_payload {
            writeln!(code, "payload!({name}{life});\n").expect("writing to a string");
        }
        for field in &layout.fields {
            code += &accessor(layout, field, anonymous);
        }
        code += &debug_of(layout, anonymous);
        code
    }

    fn derives(&self, layout: &Layout) -> String {
        let name = &layout.name;
        let derives = [
            ("Clone", true),
            (
                "Copy",
                self.all(name, |kind| {
                    !matches!(
                        kind,
                        Kind::List(_) | Kind::Counted { .. } | Kind::OptionalPermissions
                    )
                }),
            ),
            ("Debug", layout.fields.iter().all(|field| !field.is_secret)),
            ("PartialEq", true),
            (
                "Eq",
                self.all(
                    name,
                    |kind| !matches!(kind, Kind::Number(number) if number == "f32"),
                ),
            ),
        ];
        let derives: Vec<&str> = (derives.iter())
            .filter_map(|(derive, applies)| applies.then_some(*derive))
            .collect();
        derives.join(", ")
    }

    /// Return whether a condition holds for all fields, also those of nested types.
    fn all(&self, name: &str, condition: fn(&Kind) -> bool) -> bool {
        self.0
            .iter()
            .find(|layout| layout.name == name)
            .is_none_or(|layout| {
                (layout.fields.iter()).all(|field| {
                    condition(&field.kind)
                        && match &field.kind {
                            Kind::Nested(name)
                            | Kind::List(name)
                            | Kind::Counted { item: name, .. } => self.all(name, condition),
                            _ => true,
                        }
                })
            })
    }

    fn named(&self, name: &str) -> String {
        let life = if table::borrows(self.0, name) {
            "<'a>"
        } else {
            ""
        };
        if name == "Quota" {
            format!("crate::{name}{life}")
        } else {
            format!("{name}{life}")
        }
    }

    fn type_of(&self, kind: &Kind) -> String {
        match kind {
            Kind::Number(name) => name.clone(),
            Kind::Bool | Kind::Flag => "bool".to_owned(),
            Kind::Name | Kind::Password | Kind::Text => "&'a str".to_owned(),
            Kind::OptionalName => "Option<&'a str>".to_owned(),
            Kind::Bytes => "&'a [u8]".to_owned(),
            Kind::Identifier => "Identifier<'a>".to_owned(),
            Kind::Consumer => "Consumer<'a>".to_owned(),
            Kind::OptionalPartition | Kind::OptionalNumber => "Option<u32>".to_owned(),
            Kind::Polling => "crate::PollingStrategy".to_owned(),
            Kind::OptionalPermissions => "Option<crate::permissions::Permissions>".to_owned(),
            Kind::Status => "crate::Status".to_owned(),
            Kind::Code(name) => format!("crate::{name}"),
            Kind::Unchecked(_) => "u8".to_owned(),
            Kind::OptionalUnchecked(_) => "Option<u8>".to_owned(),
            Kind::List(name) | Kind::Counted { item: name, .. } => {
                format!("Vec<{}>", self.named(name))
            }
            Kind::Nested(name) => self.named(name),
        }
    }

    fn read(&self, layout: &Layout, field: &Field) -> String {
        let read = match &field.kind {
            Kind::Number(name) => format!("input.{name}()?"),
            Kind::Bool => "input.bool()?".to_owned(),
            Kind::Flag => "input.flag()?".to_owned(),
            Kind::Name => "input.name()?".to_owned(),
            Kind::OptionalName => "input.optional(Reader::name)?".to_owned(),
            Kind::Password => "input.password()?".to_owned(),
            Kind::Text => "input.str32()?".to_owned(),
            Kind::Bytes => "input.bytes32()?".to_owned(),
            Kind::Identifier => "input.identifier()?".to_owned(),
            Kind::Consumer => "Consumer::read(input)?".to_owned(),
            Kind::OptionalPartition => "input.optional_partition()?".to_owned(),
            Kind::OptionalNumber => {
                "Some(input.u32()?).filter(|&number| number != u32::MAX)".to_owned()
            }
            Kind::Polling => "crate::PollingStrategy::read(input)?".to_owned(),
            Kind::OptionalPermissions => {
                "crate::permissions::Permissions::read_optional(input)?".to_owned()
            }
            Kind::Status => "crate::Status(input.u32()?)".to_owned(),
            Kind::Code(name) => format!("crate::{name}::try_from(input.u8()?)?"),
            Kind::Unchecked(_) => "input.u8()?".to_owned(),
            Kind::OptionalUnchecked(_) => "input.optional(Reader::u8)?".to_owned(),
            Kind::List(name) if !layout.is_payload => {
                format!(
                    "{{ let count = input.u32()?; read_counted::<{}>(input, count)? }}",
                    self.named(name)
                )
            }
            Kind::List(name) if name == "u32" => "counted(input, Reader::u32)?".to_owned(),
            Kind::List(name) => format!("counted(input, {name}::read)?"),
            Kind::Counted { count, .. } => format!("read_counted(input, {count})?"),
            Kind::Nested(name) if name == "Quota" => "crate::Quota::read(input)?".to_owned(),
            Kind::Nested(name) => format!("{name}::read(input)?"),
        };
        format!("        let {} = {read};\n", field.member())
    }
}

fn layout_of(layout: &Layout) -> String {
    let mut parts = Vec::new();
    for field in &layout.fields {
        let name = field.member();
        let part = match &field.kind {
            Kind::Number(number) => format!("{number} {name}"),
            Kind::Bool | Kind::Flag | Kind::Code(_) | Kind::Unchecked(_) => {
                format!("u8 {name}")
            }
            Kind::Name => format!("Name {name}"),
            Kind::OptionalName => format!("u8 has_{0} [· Name {0}]", field.name),
            Kind::OptionalUnchecked(_) => format!("u8 has_{0} [· u8 {0}]", field.name),
            Kind::Password => format!("Pass {name}"),
            Kind::Text => format!("Str32 {name}"),
            Kind::Bytes => format!("u32 length · u8 {name}[length]"),
            Kind::Identifier => format!("Ident {name}"),
            Kind::Consumer => "Consumer".to_owned(),
            Kind::OptionalPartition => "OptPartition".to_owned(),
            Kind::Polling => "Polling".to_owned(),
            Kind::OptionalPermissions => {
                "u8 has_permissions [· u32 length · Permissions]".to_owned()
            }
            Kind::OptionalNumber | Kind::Status => format!("u32 {name}"),
            Kind::List(item) => format!("u32 count · {item} {name}[count]"),
            Kind::Counted { item, count } => format!("{item} {name}[{count}]"),
            Kind::Nested(item) => format!("{item} {name}"),
        };
        parts.push(part);
    }
    format!("`{}`", parts.join(" · "))
}
fn write_of(layout: &Layout, field: &Field) -> String {
    let member = field.member();
    let write = match &field.kind {
        Kind::Number(name) => format!("out.{name}(self.{member});"),
        Kind::Bool | Kind::Flag => format!("out.bool(self.{member});"),
        Kind::Name => format!("out.name(self.{member});"),
        Kind::OptionalName => format!("out.optional(self.{member}, Writer::name);"),
        Kind::Password => format!("out.password(self.{member});"),
        Kind::Text => format!("out.str32(self.{member});"),
        Kind::Bytes => format!("out.bytes32(self.{member});"),
        Kind::Identifier => format!("out.identifier(self.{member});"),
        Kind::Consumer => format!("self.{member}.write(out);"),
        Kind::OptionalPartition => format!("out.optional_partition(self.{member});"),
        Kind::OptionalNumber => format!("out.u32(self.{member}.unwrap_or(u32::MAX));"),
        Kind::Polling => format!("out.polling(self.{member});"),
        Kind::OptionalPermissions => {
            format!("crate::permissions::Permissions::write_optional(self.{member}.as_ref(), out);")
        }
        Kind::Status => format!("out.u32(self.{member}.0);"),
        Kind::Code(_) => format!("out.u8(self.{member}.code());"),
        Kind::Unchecked(_) => format!("out.u8(self.{member});"),
        Kind::OptionalUnchecked(_) => format!("out.optional(self.{member}, Writer::u8);"),
        Kind::List(name) => {
            let item = if name == "u32" {
                "out.u32(*item);"
            } else {
                "item.write(out);"
            };
            format!(
                "out.count(self.{member}.len());\n        for item in &self.{member} {{ {item} }}"
            )
        }
        Kind::Counted { .. } => format!("write_all(&self.{member}, out);"),
        Kind::Nested(_) => match counted_in(layout, &member) {
            // The number of the items that follow, so that the two always agree.
            Some((nested, count, items)) => format!(
                "{nested} {{ {count}: out.count_of(&self.{items}), ..self.{member} }}.write(out);"
            ),
            None => format!("self.{member}.write(out);"),
        },
    };
    format!("        {write}\n")
}

/// Return type, count and items of a member that has the number of the items of another field.
pub(crate) fn counted_in<'a>(
    layout: &'a Layout,
    member: &str,
) -> Option<(&'a str, &'a str, &'a str)> {
    let nested = layout.fields.iter().find_map(|field| match &field.kind {
        Kind::Nested(name) if field.name == member => Some(&**name),
        _ => None,
    })?;
    layout.fields.iter().find_map(|field| match &field.kind {
        Kind::Counted { count, .. } => {
            let (of, count) = count
                .split_once('.')
                .expect("a count is a field of a member");
            (of == member).then_some((nested, count, &*field.name))
        }
        _ => None,
    })
}

/// Return the methods of a payload that name its consumer, its path and its target, if it has them.
fn payload_methods(layout: &Layout) -> String {
    let mut methods = Vec::new();
    let has = |name: &str| {
        let field = layout.fields.iter().find(|field| field.name == name);
        field.is_some_and(|field| matches!(field.kind, Kind::Identifier))
    };
    let nested = layout.fields.iter().find_map(|field| match &field.kind {
        Kind::Nested(name) if name != "Quota" => Some(&field.name),
        _ => None,
    });
    let consumer = layout
        .fields
        .iter()
        .any(|field| matches!(field.kind, Kind::Consumer));
    if consumer || nested.is_some() {
        let value = nested.map_or("Some(self.consumer)".to_owned(), |name| {
            format!("self.{name}.consumer()")
        });
        methods.push(format!(
            "\n    fn consumer(&self) -> Option<Consumer<'a>> {{\n        {value}\n    }}\n"
        ));
    }
    if has("stream") || nested.is_some() {
        let value = match nested {
            Some(name) => format!("self.{name}.target()"),
            None if has("topic") => "(Some(self.stream), Some(self.topic))".to_owned(),
            None => "(Some(self.stream), None)".to_owned(),
        };
        methods.push(format!(
            "\n    fn target(&self) -> Target<'a> {{\n        {value}\n    }}\n"
        ));
    }
    if let Some(path) = layout.text("path") {
        methods.push(format!("\n    fn path(&self) -> Option<Path<'a>> {{\n        Some(Path::{path}(*self))\n   }}\n"));
    }
    methods.concat()
}

/// Return `Debug` without secrets, for types that have some.
fn debug_of(layout: &Layout, life: &str) -> String {
    if layout.fields.iter().all(|field| !field.is_secret) {
        return String::new();
    }
    let shown: Vec<String> = (layout.fields.iter())
        .filter(|field| !field.is_secret)
        .map(|field| format!(".field(\"{0}\", &self.{0})", field.member()))
        .collect();
    format!(
        "impl core::fmt::Debug for {0}{life} {{
    /// Omits secrets, so that a log never reveals them.
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {{
        formatter.debug_struct(\"{0}\"){1}.finish_non_exhaustive()
    }}
}}\n\n",
        layout.name,
        shown.concat()
    )
}

/// Return the method that checks a code, for fields with an unchecked one.
fn accessor(layout: &Layout, field: &Field, life: &str) -> String {
    let (name, result, value) = match &field.kind {
        Kind::Unchecked(name) => (
            name,
            format!("crate::{name}"),
            format!("Ok(crate::{name}::try_from(self.{})?)", field.member()),
        ),
        Kind::OptionalUnchecked(name) => (
            name,
            format!("Option<crate::{name}>"),
            format!(
                "self.{}.map(|code| crate::{name}::try_from(code).map_err(Status::from)).transpose()",
                field.member()
            ),
        ),
        _ => return String::new(),
    };
    format!(
        "impl {}{life} {{
    /// Value of [`{name}`](crate::{name}). Fails with [`Status::INVALID_COMMAND`] on an unknown code.
    pub fn {}(&self) -> Result<{result}, Status> {{
        {value}
    }}
}}\n\n",
        layout.name, field.name
    )
}
