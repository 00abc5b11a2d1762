//! Calico's programs, all of them in this one file: called by another name, this program is that other.
//!
//! `cargo run` builds one package only. So the lab links the others as libraries, and puts links to itself under their names where
//! hosts find them.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Context, LabError};
use crate::state::StateDir;

/// What this program can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The agent.
    Node,
    /// The CNI plugin.
    Cni,
    /// The IPAM plugin.
    Ipam,
    /// What operators type.
    Ctl,
    /// The lab itself.
    Lab,
}

impl Program {
    const OTHERS: [Self; 4] = [Self::Node, Self::Cni, Self::Ipam, Self::Ctl];

    /// What a program of this name, with or without directories before it, is. Any unknown name is the lab: its own file may be
    /// called anything.
    pub(crate) fn called(argument: &Path) -> Self {
        let name = argument.file_name().unwrap_or_default();
        Self::OTHERS.into_iter().find(|program| program.name() == name).unwrap_or(Self::Lab)
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Node => "calico-node",
            Self::Cni => "calico",
            Self::Ipam => "calico-ipam",
            Self::Ctl => "calicoctl",
            Self::Lab => "calico-lab",
        }
    }
}

/// Which files a network's programs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// This one, under all names.
    Own,
    /// Those that are shipped, which the build puts beside this one. They start faster: each is only what it must be.
    Shipped,
}

/// Puts links to the programs into the network's program directory.
pub(crate) fn link_all(state: &StateDir, source: Source) -> Result<(), LabError> {
    let own = std::env::current_exe().context(|| "cannot find this program's own file".into())?;
    for program in Program::OTHERS {
        let file = match source {
            Source::Own => own.clone(),
            Source::Shipped => own.with_file_name(program.name()),
        };
        if !file.exists() {
            return Err(LabError::new(format!("{} is not there: build it with\n  {BUILD}", file.display())));
        }
        let link = state.program(program.name());
        link_one(&file, &link).context(|| format!("cannot link {} to {}", link.display(), file.display()))?;
    }
    Ok(())
}

const BUILD: &str =
    "cargo build --release -p calico-node -p calico-cni -p calico-ipam -p calicoctl --no-default-features";

/// A hard link stays what it is when the program is built anew; across file systems a symbolic one must do.
fn link_one(own: &Path, link: &Path) -> io::Result<()> {
    match fs::hard_link(own, link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) => std::os::unix::fs::symlink(own, link),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_decide() {
        assert_eq!(Program::called(Path::new("/run/x/bin/calico-node")), Program::Node);
        assert_eq!(Program::called(Path::new("calico")), Program::Cni);
        assert_eq!(Program::called(Path::new("./calico-lab")), Program::Lab);
        assert_eq!(Program::called(Path::new("/tmp/renamed")), Program::Lab);
        assert_eq!(Program::called(Path::new("")), Program::Lab);
    }

    #[test]
    fn links_lead_here() {
        let directory = tempfile::tempdir().unwrap();
        let (own, link) = (directory.path().join("own"), directory.path().join("link"));
        fs::write(&own, "content").unwrap();
        link_one(&own, &link).unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "content");
        assert!(link_one(&own, &link).is_err());
    }
}
