//! `convert`: documents of older versions as version 3 has them.

use calico_core::Few;
use calico_core::resource::{Fault, Resource, Scope, v1};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::args::FileArgs;
use crate::context::Context;
use crate::failure::{Failure, InputFault};
use crate::{input, output};

/// Arguments of `convert`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    input: FileArgs,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = DocumentFormat::Yaml)]
    output: DocumentFormat,
    /// Print what was converted though it breaks a rule of version 3
    #[arg(long)]
    ignore_validation: bool,
}

/// How documents are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DocumentFormat {
    #[value(alias = "yml")]
    Yaml,
    Json,
}

pub(crate) fn convert(args: &ConvertArgs, context: &mut Context<'_>) -> Result<(), Failure> {
    let documents = input::documents(&args.input.files, &args.input.options, context.stdin)?;
    let namespace = args.input.options.namespace();
    let mut converted = Vec::with_capacity(documents.len());
    let (mut faults, mut invalid) = (Few::default(), Vec::new());
    for document in documents {
        match v1::convert(&document.value) {
            Ok(mut resource) => {
                set_namespace(&mut resource, namespace);
                let value = resource.document();
                let checked = Resource::decode_strict(resource.kind(), &value, None);
                invalid.extend(checked.err().into_iter().flatten());
                converted.push(value);
            }
            Err(found) => {
                for fault in found {
                    faults.add(|| InputFault::Older { place: Box::new(document.place(&fault)), fault });
                }
            }
        }
    }
    if !faults.is_empty() {
        return Err(Failure::Input(faults));
    }
    if !args.ignore_validation && !invalid.is_empty() {
        let faults: Vec<_> = Fault::few(invalid).iter().map(ToString::to_string).collect();
        return Err(Failure::message(format_args!(
            "Converted manifest resource(s) failed validation: {}\nRe-run the command with '--ignore-validation' flag to see the converted output.",
            faults.join("\n  ")
        )));
    }
    let value = match converted.len() {
        1 => converted.remove(0),
        _ => json!({ "kind": "List", "apiVersion": "v1", "items": converted }),
    };
    context.stdout.write_all(text(args.output, value).as_bytes())?;
    Ok(())
}

fn text(format: DocumentFormat, value: Value) -> String {
    match format {
        DocumentFormat::Yaml => output::yaml(value),
        DocumentFormat::Json => output::json(&value),
    }
}

fn set_namespace(resource: &mut Resource, namespace: Option<&str>) {
    let is_namespaced = resource.kind().scope() == Scope::Namespaced;
    if let (true, Some(namespace), Some(metadata)) = (is_namespaced, namespace, resource.metadata_mut()) {
        metadata.namespace.get_or_insert_with(|| namespace.to_owned());
    }
}
