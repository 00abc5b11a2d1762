//! How results are printed.

use std::io::ErrorKind;

use calico_cmd::output;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

use crate::error::{Context, LabError};

/// Prints results on standard output.
pub(crate) fn print(text: &str) -> Result<(), LabError> {
    output::print(text).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => LabError::ReaderGone,
        _ => LabError::Failed { what: "cannot write to standard output".into(), source: Some(error.into()) },
    })
}

/// Prints one JSON document on standard output.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), LabError> {
    let mut text = serde_json::to_string_pretty(document).context(|| "cannot write JSON".into())?;
    text.push('\n');
    print(&text)
}

/// An empty table with these headings.
pub(crate) fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic).set_header(headings);
    table
}
