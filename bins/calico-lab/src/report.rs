//! How results are printed.

use std::io::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

use crate::error::{Context, LabError};

/// Prints one JSON document on standard output.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), LabError> {
    let failed = || "cannot write to standard output".into();
    let mut output = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut output, document).context(failed)?;
    output.write_all(b"\n").context(failed)
}

/// An empty table with these headings.
pub(crate) fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic).set_header(headings);
    table
}
