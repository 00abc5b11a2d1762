//! Where a release learns its commit: repositories in each of their forms.

#[path = "../../build/commit.rs"]
mod of_build;

use std::path::Path;

use self::of_build::{Found, of};

const FIRST: &str = "0123456789abcdef0123456789abcdef01234567";
const SECOND: &str = "89abcdef0123456789abcdef0123456789abcdef";

fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// The files of a repository, the commit that they say, and what is looked at again after a change.
type Case<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>, &'a [&'a str]);

#[test]
fn a_commit_is_found_in_each_form_of_a_repository() {
    let packed = format!("# pack-refs with: peeled\n{FIRST} refs/heads/x/main\n{SECOND} refs/heads/main\n");
    let loose = format!("{FIRST}\n");
    let cases: [Case<'_>; 6] = [
        (&[("HEAD", "ref: refs/heads/main\n"), ("refs/heads/main", &loose)], Some(FIRST), &["HEAD", "refs/heads/main"]),
        (
            &[("HEAD", "ref: refs/heads/main\n"), ("refs/heads/other", &loose), ("packed-refs", &packed)],
            Some(SECOND),
            &["HEAD", "refs/heads", "packed-refs"],
        ),
        (
            &[("HEAD", "ref: refs/heads/main\n"), ("refs/heads/main", &loose), ("packed-refs", &packed)],
            Some(FIRST),
            &["HEAD", "refs/heads/main", "packed-refs"],
        ),
        (&[("HEAD", &loose)], Some(FIRST), &["HEAD"]),
        (&[("HEAD", "ref: refs/heads/main\n"), ("refs/x", "")], None, &["HEAD", "refs"]),
        (&[("HEAD", "nonsense")], None, &["HEAD"]),
    ];
    for (files, commit, depends_on) in cases {
        let directory = tempfile::tempdir().unwrap();
        let git = directory.path().join(".git");
        write(&git, files);
        let depends_on = depends_on.iter().map(|name| git.join(name)).collect();
        let commit = commit.map(|commit| commit[..12].to_owned());
        assert_eq!(of(&git), Some(Found { commit, depends_on }), "{files:?}");
    }
}

#[test]
fn a_further_work_tree_has_branches_where_the_first_one_has() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let loose = format!("{SECOND}\n");
    write(
        root,
        &[
            ("main/.git/refs/heads/topic", &loose),
            ("main/.git/worktrees/topic/HEAD", "ref: refs/heads/topic\n"),
            ("main/.git/worktrees/topic/commondir", "../..\n"),
            ("topic/.git", "gitdir: ../main/.git/worktrees/topic\n"),
        ],
    );
    let found = of(&root.join("topic/.git")).unwrap();
    assert_eq!(found.commit.as_deref(), Some(&SECOND[..12]));
    assert!(found.depends_on.iter().all(|path| path.exists()), "{found:?}");
}

#[test]
fn without_a_repository_there_is_no_commit_and_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(of(&directory.path().join(".git")), None);
}
