//! All that the demo found.

use std::process::ExitCode;

use serde::Serialize;

use super::scene::Scene;
use crate::record::Record;

/// What the demo found, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    pub(super) ok: bool,
    pub(super) scenes: Vec<Scene>,
    pub(super) cni_add_ms: Vec<f64>,
}

impl Findings {
    pub(super) fn new(scenes: Vec<Scene>, record: &Record) -> Self {
        let ok = scenes.iter().all(|scene| scene.ok);
        Self { ok, scenes, cni_add_ms: record.pods.iter().map(|attached| attached.add_ms).collect() }
    }

    pub(super) const fn exit_code(&self) -> ExitCode {
        if self.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
