//! Tells a release from which commit it is built: as `CALICO_GIT_COMMIT` says, else as the repository does, else nothing.
//!
//! Other builds do not ask the repository, or each commit would build the program anew.

#[path = "build/commit.rs"]
mod commit;

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/commit.rs");
    println!("cargo::rerun-if-env-changed=CALICO_GIT_COMMIT");
    let given = env::var("CALICO_GIT_COMMIT").ok().filter(|commit| !commit.trim().is_empty());
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let found = || {
        // The repository of this workspace, and no other that it may lie in.
        let package = env::var("CARGO_MANIFEST_DIR").ok().filter(|_| is_release)?;
        let found = commit::of(&Path::new(&package).join("../../.git"))?;
        for path in &found.depends_on {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        found.commit
    };
    if let Some(commit) = given.or_else(found) {
        println!("cargo::rustc-env=CALICO_GIT_COMMIT={}", commit.trim());
    }
}
