//! `tidegate manual`: a page for the program and one for each verb, for packages.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::{Args, Command};

#[derive(Args)]
pub(super) struct Arguments {
    /// Folder for the pages
    folder: PathBuf,
}

/// `command`: the whole command line, as it is declared.
pub(super) fn run(arguments: &Arguments, command: Command) -> anyhow::Result<()> {
    let folder = &arguments.folder;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    clap_mangen::generate_to(command, folder).with_context(|| format!("cannot write to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_that_help_lists_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        run(&Arguments { folder: folder.path().to_owned() }, crate::cli::command()).unwrap();
        for verb in crate::cli::command().get_subcommands() {
            let page = folder.path().join(format!("tidegate-{}.1", verb.get_name()));
            assert_eq!(page.exists(), !verb.is_hide_set(), "{}", page.display());
        }
        let page = fs::read_to_string(folder.path().join("tidegate-config-export.1")).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
}
