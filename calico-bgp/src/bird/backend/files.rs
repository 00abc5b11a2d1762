//! One file, replaced as a whole or not at all, and never by what BIRD does not read.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::BgpError;

/// A file beside the one that it is to replace.
#[derive(Debug)]
pub(super) struct Staged {
    path: PathBuf,
    target: PathBuf,
}

/// Whether the file says this already. One that cannot be read says nothing.
pub(super) fn says(path: &Path, text: &str) -> bool {
    std::fs::read(path).is_ok_and(|known| known == text.as_bytes())
}

/// Writes the text beside its place, durably. Passwords are in it: only its owner may read it.
pub(super) fn stage(target: &Path, text: &str) -> Result<Staged, BgpError> {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let path = target.with_file_name(name);
    let write = || {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    match write() {
        Ok(()) => Ok(Staged { path, target: target.to_owned() }),
        Err(source) => Err(BgpError::Write { path, source }),
    }
}

impl Staged {
    /// Where it is until it takes its place.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes its place.
    pub(super) fn commit(self) -> Result<(), BgpError> {
        let done = std::fs::rename(&self.path, &self.target).and_then(|()| {
            let directory = self.target.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
        });
        done.map_err(|source| BgpError::Write { path: self.target.clone(), source })
    }

    /// What the program says against it: `bird -p`. Without the program, nobody can say anything.
    pub(super) fn refusal(&self, program: &Path) -> Option<String> {
        let mut command = Command::new(program);
        command.arg("-p").arg("-c").arg(&self.path).stdin(Stdio::null());
        match command.output() {
            Ok(outcome) if !outcome.status.success() => {
                let said = String::from_utf8_lossy(&outcome.stderr);
                Some(format!("{} -p: {}", program.display(), said.trim()))
            }
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(program = %program.display(), %error, "BIRD's configuration is not checked");
                None
            }
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After it took its place there is nothing here any more.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let directory = tempfile::TempDir::new().unwrap();
        let target = directory.path().join("bird.cfg");
        // Left behind by one that was killed.
        std::fs::write(directory.path().join("bird.cfg.new"), "half").unwrap();
        stage(&target, "first").unwrap().commit().unwrap();
        assert!(says(&target, "first") && !says(&target, "first "));
        assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        drop(stage(&target, "second").unwrap());
        assert!(says(&target, "first"));
        let names: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["bird.cfg"]);
        let error = stage(&directory.path().join("missing/bird.cfg"), "x").unwrap_err();
        assert!(error.to_string().contains("missing/bird.cfg.new"), "{error}");
    }
}
