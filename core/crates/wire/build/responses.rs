//! Enumeration `Response` from `proto/commands.toml`, with its dispatch to the codecs of the contents.

use std::fmt::Write as _;

use toml::Value;

use crate::text_of;

/// Content of responses: one variant, which several commands can share.
pub(crate) struct Content<'a> {
    pub(crate) variant: &'a str,
    /// Type of the content, or of its items.
    pub(crate) item: &'a str,
    pub(crate) form: Form,
    /// Commands with this content.
    commands: Vec<&'a str>,
}

pub(crate) enum Form {
    One,
    List,
    /// Bytes without a codec.
    Bytes,
}

impl<'a> Content<'a> {
    /// Parse `Variant(Type)`.
    pub(crate) fn parse(text: &'a str) -> Self {
        let parts = text.strip_suffix(')').and_then(|text| text.split_once('('));
        let (variant, content) = parts.unwrap_or_else(|| panic!("{text} is not Variant(Type)"));
        let list = (content.strip_prefix("Vec<")).and_then(|item| item.strip_suffix('>'));
        let (item, form) = match list {
            Some(item) => (item, Form::List),
            None if content.starts_with('&') => (content, Form::Bytes),
            None => (content, Form::One),
        };
        Self {
            variant,
            item,
            form,
            commands: Vec::new(),
        }
    }

    fn declaration(&self) -> String {
        let item = self.item;
        let content = match self.form {
            Form::One => format!("super::{item}"),
            Form::List => format!("Vec<super::{item}>"),
            Form::Bytes => item.to_owned(),
        };
        let commands: Vec<String> = (self.commands.iter())
            .map(|name| format!("`{name}`"))
            .collect();
        format!(
            "    /// Response to {}.\n    {}({content}),\n",
            commands.join(" and "),
            self.variant
        )
    }

    fn decode_arm(&self) -> String {
        let variant = self.variant;
        let decode = match self.form {
            Form::One => {
                let (name, _) = self.item.split_once('<').unwrap_or((self.item, ""));
                format!("super::{name}::decode(payload).map(Self::{variant})")
            }
            Form::List => format!("decode_list(payload).map(Self::{variant})"),
            Form::Bytes => format!("Ok(Self::{variant}(payload))"),
        };
        format!("            {} => {decode},\n", patterns(&self.commands))
    }

    fn encode_arm(&self) -> String {
        let encode = match self.form {
            Form::One => "content.encode(out)",
            Form::List => "encode_list(content, out)",
            Form::Bytes => "out.extend_from_slice(content)",
        };
        format!("            Self::{}(content) => {encode},\n", self.variant)
    }
}

fn patterns(commands: &[&str]) -> String {
    let patterns: Vec<String> = (commands.iter())
        .map(|name| format!("CommandCode::{name}"))
        .collect();
    patterns.join(" | ")
}

pub(crate) fn code_of(entries: &[Value]) -> String {
    let mut contents: Vec<Content<'_>> = Vec::new();
    let mut without = Vec::new();
    for entry in entries {
        let name = text_of(entry, "name");
        if entry.get("response").is_none() {
            without.push(name);
            continue;
        }
        let content = Content::parse(text_of(entry, "response"));
        let same = |known: &Content<'_>| known.variant == content.variant;
        let index = contents.iter().position(same).unwrap_or(contents.len());
        if let Some(known) = contents.get(index) {
            assert!(
                known.item == content.item,
                "{} has two types",
                content.variant
            );
        } else {
            contents.push(content);
        }
        contents[index].commands.push(name);
    }
    let mut code = String::new();
    write!(
        code,
        "/// Payload of a successful response, by content.
#[derive(Debug, Clone, PartialEq)]
pub enum Response<'a> {{
    /// Empty payload: response to commands that change something, and to a query whose object does not exist.
    Empty,
{}}}

impl<'a> Response<'a> {{
    fn decode_content(code: CommandCode, payload: &'a [u8]) -> Result<Self, Malformed> {{
        match code {{
{}            {} => Self::decode_empty(payload),
        }}
    }}

    /// Append the payload.
    ///
    /// # Panics
    /// On a name of 0 or of more than 255 bytes, which neither the catalog nor decoding accepts.
    pub fn encode(&self, out: &mut Vec<u8>) {{
        match self {{
            Self::Empty => {{}}
{}        }}
    }}
}}
",
        contents.iter().map(Content::declaration).collect::<String>(),
        contents.iter().map(Content::decode_arm).collect::<String>(),
        patterns(&without),
        contents.iter().map(Content::encode_arm).collect::<String>(),
    )
    .expect("writing to a string");
    code
}
