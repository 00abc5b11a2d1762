//! Which form of output was asked for.

use std::ffi::OsStr;

use calico_core::resource::Kind;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};

use super::Found;
use super::jsonpath::JsonPath;
use super::template::Template;

/// How resources are shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Format {
    Table,
    Wide,
    Yaml,
    Json,
    Name,
    /// Tables of these columns.
    Columns(Vec<String>),
    JsonPath(JsonPath),
    Template(Template),
}

impl Format {
    /// Whether it shows whole documents.
    pub(crate) const fn is_document(&self) -> bool {
        matches!(self, Self::Yaml | Self::Json)
    }

    /// Whether it shows the cluster's AS number for something that was found.
    pub(crate) fn tells_as_number(&self, found: &[Found]) -> bool {
        match self {
            Self::Template(_) => true,
            Self::Wide | Self::Columns(_) => found.iter().any(|found| found.kind == Kind::Node),
            _ => false,
        }
    }
}

/// What may be typed, and what it means. Those that end with `=` want more.
const FORMATS: [(&str, &str); 9] = [
    ("table", "The most important fields"),
    ("wide", "More fields"),
    ("yaml", "Everything; apply reads it"),
    ("json", "Everything; apply reads it"),
    ("name", "KIND/NAME, one a line"),
    ("custom-columns=", "Columns of these headings, separated by commas: custom-columns=NAME,CIDR"),
    (
        "jsonpath=",
        "Fields, as Kubernetes' tools write them: jsonpath='{range .items[*]}{.metadata.name}{\"\\n\"}{end}'; several resources \
         are one list with items. There are names, ['names'], [numbers], [from:to:step], *, .. and filters of one comparison, \
         [?(@.spec.order>5)]",
    ),
    (
        "go-template=",
        "A Go template over the list of what was found: go-template='{{range .}}{{range .Items}}{{.Name}} {{end}}{{end}}'. Part of \
         the language: fields, variables, if, range, with, pipelines, and the functions and, or, not, eq, ne, lt, le, gt, ge, \
         len, index, slice, print, println, printf, join, joinAndTruncate and config. Fields are those of the yaml output, in \
         any case; .ObjectMeta is metadata; an absent field prints nothing",
    ),
    ("go-template-file=", "The same, from a file"),
];

/// Reads the option's value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = Format;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<Format, clap::Error> {
        let text = StringValueParser::new().parse_ref(command, argument, value)?;
        let refused = |reason: String| {
            let text = format!("{reason}\n\nFor more information, try '--help'.\n");
            clap::Error::raw(ErrorKind::ValueValidation, text).with_cmd(command)
        };
        parse(&text).map_err(refused)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |(name, help): (&'static str, &'static str)| PossibleValue::new(name).help(help);
        Some(Box::new(FORMATS.into_iter().map(value)))
    }
}

fn parse(text: &str) -> Result<Format, String> {
    match text {
        "table" | "ps" => return Ok(Format::Table),
        "wide" => return Ok(Format::Wide),
        "yaml" | "yml" => return Ok(Format::Yaml),
        "json" => return Ok(Format::Json),
        "name" => return Ok(Format::Name),
        _ => {}
    }
    let (form, value) = text.split_once('=').unwrap_or((text, ""));
    let given = |what: &str| if value.is_empty() { Err(format!("need to specify {what}")) } else { Ok(value) };
    match form {
        "custom-columns" => {
            given("at least one column").map(|names| Format::Columns(names.split(',').map(str::to_owned).collect()))
        }
        "jsonpath" => given("a template").and_then(JsonPath::parse).map(Format::JsonPath),
        "go-template" => given("a template").and_then(Template::parse).map(Format::Template),
        "go-template-file" => {
            let file = given("a template file")?;
            let text = std::fs::read_to_string(file).map_err(|error| format!("open {file}: {error}"))?;
            Template::parse(&text).map(Format::Template).map_err(|reason| format!("{file}: {reason}"))
        }
        _ => {
            let known: Vec<_> = FORMATS.iter().map(|(name, _)| *name).collect();
            Err(format!("unrecognized output format '{text}'\n  known: {}", known.join(", ")))
        }
    }
}
