//! The commit that is checked out, by git's files: a machine that builds need not have git.

use std::fs;
use std::path::{Path, PathBuf};

/// Characters of a commit that are shown.
const SHOWN: usize = 12;

/// What is checked out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The commit, unless there is none yet or it cannot be found out.
    pub(crate) commit: Option<String>,
    /// What changes with it. All of it exists, or each build would begin anew.
    pub(crate) depends_on: Vec<PathBuf>,
}

/// Reads the repository; `None` if there is none.
pub(crate) fn of(git: &Path) -> Option<Found> {
    // A further work tree has a file that names its directory.
    let directory = match fs::read_to_string(git) {
        Ok(text) => git.parent()?.join(text.strip_prefix("gitdir:")?.trim()),
        Err(_) => git.to_owned(),
    };
    let head = directory.join("HEAD");
    let text = fs::read_to_string(&head).ok()?;
    let Some(name) = text.strip_prefix("ref:").map(str::trim) else {
        return Some(Found { commit: shown(&text), depends_on: vec![head] });
    };
    // Branches are where the first work tree has them.
    let common = fs::read_to_string(directory.join("commondir"));
    let common = common.map_or_else(|_| directory.clone(), |path| directory.join(path.trim()));
    let (branch, packed) = (common.join(name), common.join("packed-refs"));
    let commit = fs::read_to_string(&branch).ok().or_else(|| {
        let list = fs::read_to_string(&packed).ok()?;
        list.lines().find_map(|line| Some(line.strip_suffix(name)?.trim_end().to_owned()))
    });
    // The branch, or where it would appear.
    let appears = branch.ancestors().find(|path| path.exists()).map(Path::to_owned);
    let packed = Some(packed).filter(|packed| packed.exists());
    let depends_on = [Some(head), appears, packed].into_iter().flatten().collect();
    Some(Found { commit: commit.and_then(|commit| shown(&commit)), depends_on })
}

fn shown(commit: &str) -> Option<String> {
    let commit = commit.trim();
    let is_commit = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    commit.get(..SHOWN).filter(|_| is_commit).map(str::to_owned)
}
