//! Changes of one document, in the three languages that Kubernetes' tools know.
//!
//! In comes the text of a patch, JSON or YAML, and a document as `get` shows it; out comes the document as it is to be. Whether that is
//! right, nobody here knows: it is checked as a manifest is.

mod strategic;

use std::fmt;

use calico_cmd::manifest::{self, Document, Place};
use calico_core::resource::Fault;
use clap::ValueEnum;
use json_patch::{Patch as JsonPatch, PatchError};
use serde_json::Value;

use crate::failure::{Failure, InputFault};

/// What a patch is called in messages.
const SOURCE: &str = "the patch";

/// The language of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// Kubernetes' merge: as merge, and with its directives ($patch, $retainKeys, $deleteFromPrimitiveList)
    Strategic,
    /// RFC 7396: members replace members, null removes, lists are replaced whole
    Merge,
    /// RFC 6902: a list of operations
    Json,
}

/// A patch, read.
#[derive(Debug)]
pub(crate) struct Patch {
    change: Change,
    /// As written, for the places of faults.
    pub(crate) written: Document,
    /// Every operation of a list, as written.
    operations: Vec<Document>,
}

#[derive(Debug)]
enum Change {
    Strategic(Value),
    Merge(Value),
    Json(JsonPatch),
}

/// A patch that does not fit the document.
#[derive(Debug)]
pub(crate) enum Misfit {
    Strategic(String),
    Json(PatchError),
}

impl Patch {
    /// Reads a patch.
    pub(crate) fn read(text: &str, language: Language) -> Result<Self, Failure> {
        let refused = |reason: &str| Failure::message(format_args!("failed to execute command: {SOURCE} {reason}"));
        let mut documents = manifest::read(SOURCE, text)
            .map_err(|error| Failure::Input([InputFault::Syntax(Box::new(error))].into_iter().collect()))?
            .into_iter();
        let written = documents.next().ok_or_else(|| refused("is empty"))?;
        if language == Language::Json {
            let is_list = written.item.is_some();
            let operations = std::iter::once(&written.value).chain(documents.as_slice().iter().map(|next| &next.value));
            if !is_list || documents.as_slice().iter().any(|next| next.number != written.number) {
                return Err(refused("of type json must be one list of operations: [{\"op\": …, \"path\": …}]"));
            }
            let change: JsonPatch = serde_json::from_value(operations.cloned().collect())
                .map_err(|error| refused(&format!("is no list of operations (RFC 6902): {error}")))?;
            let operations = std::iter::once(written.clone()).chain(documents).collect();
            return Ok(Self { change: Change::Json(change), written, operations });
        }
        if documents.next().is_some() || written.item.is_some() || !written.value.is_object() {
            return Err(refused("must be one object; a list of operations is a patch of type json (-t json)"));
        }
        let value = written.value.clone();
        let change = if language == Language::Merge { Change::Merge(value) } else { Change::Strategic(value) };
        Ok(Self { change, written, operations: Vec::new() })
    }

    /// Where what is at fault was written: of a list of operations, in the last that is about it.
    pub(crate) fn place(&self, fault: &Fault) -> Place {
        let wanted = fault.path.replace('[', ".").replace(']', "");
        for operation in self.operations.iter().rev() {
            let pointer = operation.value.get("path").and_then(Value::as_str).unwrap_or_default();
            let tokens: Vec<_> =
                pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
            let path = tokens.join(".");
            let within = wanted.strip_prefix(&path).filter(|rest| rest.is_empty() || rest.starts_with('.'));
            let around = path.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with('.'));
            if within.is_none() && !around {
                continue;
            }
            // What lies deeper in the value is told by the fault's own path, indices in brackets.
            let depth = within.map_or(0, str::len);
            let rest = fault.path.char_indices().map(|(at, _)| fault.path.split_at(at).1);
            let rest = rest
                .into_iter()
                .find(|rest| rest.replace('[', ".").replace(']', "").len() == depth)
                .unwrap_or_default();
            let mut inner = fault.clone();
            inner.path = format!("value{rest}");
            return operation.place(&inner);
        }
        self.written.place(fault)
    }

    /// Where the part was written that does not fit.
    pub(crate) fn place_of(&self, misfit: &Misfit) -> Place {
        match misfit {
            Misfit::Json(error) => {
                let operation = self.operations.get(error.operation).unwrap_or(&self.written);
                operation.place(&Fault::value("path", None, ""))
            }
            Misfit::Strategic(reason) => {
                let path = reason.split_once(": ").map_or("", |(path, _)| path);
                self.written.place(&Fault::value(path, None, ""))
            }
        }
    }

    /// Changes the document.
    pub(crate) fn apply(&self, document: &mut Value) -> Result<(), Misfit> {
        match &self.change {
            Change::Strategic(patch) => strategic::merge(document, patch).map_err(Misfit::Strategic),
            Change::Merge(patch) => {
                json_patch::merge(document, patch);
                Ok(())
            }
            Change::Json(patch) => json_patch::patch(document, patch).map_err(Misfit::Json),
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strategic(reason) => write!(f, "performing strategic merge patch: {reason}"),
            Self::Json(error) => write!(f, "performing JSON patch: {error}"),
        }
    }
}
