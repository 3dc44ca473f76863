//! Samples of every command and response for tests: methods of `samples::Values` with the names of the types.

use toml::Value;

use crate::responses::{Content, Form};
use crate::table::{self, Field, Kind, Layout, snake_case};

pub(crate) fn code(commands: &[Value]) -> String {
    let (layouts, _) = table::layouts();
    let types: Vec<String> = (layouts.iter())
        .map(|layout| sample(&layouts, layout))
        .collect();
    let (mut requests, mut responses) = (Vec::new(), Vec::new());
    for entry in commands {
        let name = crate::text_of(entry, "name");
        let payload = entry.get("payload").map(|payload| {
            let payload = payload.as_str().expect("a type");
            let (payload, _) = payload.split_once('<').unwrap_or((payload, ""));
            format!("(self.{}())", snake_case(payload))
        });
        let payload = payload.unwrap_or_default();
        requests.push(format!(
            "            CommandCode::{name} => Command::{name}{payload},\n"
        ));
        let response = entry.get("response").map(|response| {
            let content = Content::parse(response.as_str().expect("a content"));
            let (item, _) = content.item.split_once('<').unwrap_or((content.item, ""));
            let value = match content.form {
                Form::One => format!("self.{}()", snake_case(item)),
                Form::List => many(&format!("self.{}()", snake_case(item))),
                Form::Bytes => "&self.bytes".to_owned(),
            };
            format!("{}({value})", content.variant)
        });
        let response = response.unwrap_or_else(|| "Empty".to_owned());
        responses.push(format!(
            "            CommandCode::{name} => Response::{response},\n"
        ));
    }
    format!(
        "impl Values {{
{}
    pub(crate) fn command(&self, code: CommandCode) -> Command<'_> {{
        match code {{
{}        }}
    }}

    #[allow(clippy::match_same_arms, reason = \"one arm for each command\")]
    pub(crate) fn response(&self, code: CommandCode) -> Response<'_> {{
        match code {{
{}        }}
    }}
}}\n",
        types.concat(),
        requests.concat(),
        responses.concat()
    )
}

fn sample(layouts: &[Layout], layout: &Layout) -> String {
    let members: Vec<String> = (layout.fields.iter().enumerate())
        .map(|(index, field)| format!("{}: {}, ", field.member(), value(layout, field, index)))
        .collect();
    let life = if table::borrows(layouts, &layout.name) {
        "<'_>"
    } else {
        ""
    };
    format!(
        "    pub(crate) fn {}(&self) -> {1}{life} {{\n        {1} {{ {2}}}\n    }}\n\n",
        snake_case(&layout.name),
        layout.name,
        members.concat()
    )
}

fn value(layout: &Layout, field: &Field, index: usize) -> String {
    match &field.kind {
        Kind::Number(number) => match number.as_str() {
            "u8" => format!("self.small.rotate_left({index})"),
            "u16" => format!("u16::from(self.small.rotate_left({index}))"),
            "u32" => format!("self.medium.rotate_left({index})"),
            "u64" => format!("self.large.rotate_left({index})"),
            "u128" => format!("u128::from(self.large.rotate_left({index})) << 60"),
            _ => "self.ratio".to_owned(),
        },
        Kind::Bool | Kind::Flag => format!("self.flag({index})"),
        Kind::Name => "&self.name".to_owned(),
        Kind::OptionalName => format!("self.flag({index}).then_some(&*self.name)"),
        Kind::Password => "&self.password".to_owned(),
        Kind::Text => "&self.text".to_owned(),
        Kind::Bytes => "&self.bytes".to_owned(),
        Kind::Identifier => format!("self.identifier({index})"),
        Kind::Consumer => "self.consumer()".to_owned(),
        Kind::OptionalPartition | Kind::OptionalNumber => {
            format!("self.flag({index}).then_some(self.medium >> 1)")
        }
        Kind::Polling => "self.strategy".to_owned(),
        Kind::OptionalPermissions => "self.permissions.clone()".to_owned(),
        Kind::Status => "Status(self.medium)".to_owned(),
        Kind::Code(name) => format!("self.pick(crate::{name}::ALL)"),
        Kind::Unchecked(_) => "self.small".to_owned(),
        Kind::OptionalUnchecked(_) => format!("self.flag({index}).then_some(self.small)"),
        Kind::List(item) if item == "u32" => "self.numbers.clone()".to_owned(),
        Kind::List(item) | Kind::Counted { item, .. } => {
            many(&format!("self.{}()", snake_case(item)))
        }
        Kind::Nested(name) => match crate::layouts::counted_in(layout, &field.name) {
            Some((nested, count, _)) => {
                format!(
                    "{nested} {{ {count}: self.count(), ..self.{}() }}",
                    snake_case(nested)
                )
            }
            None => format!("self.{}()", snake_case(name)),
        },
    }
}

fn many(item: &str) -> String {
    format!("(0..self.items).map(|_| {item}).collect()")
}
