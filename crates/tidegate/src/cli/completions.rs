//! `tidegate completions`: scripts for shells.

use clap::{Args, Command};
use clap_complete::Shell;

use super::stdout;

#[derive(Args)]
pub(super) struct Arguments {
    /// Shell
    shell: Shell,
}

/// `command`: the whole command line, as it is declared.
pub(super) fn run(arguments: &Arguments, command: &mut Command) -> anyhow::Result<()> {
    // Into memory first: the generator panics when a pipe is closed early.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, command, "tidegate", &mut script);
    stdout::print(&String::from_utf8(script)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    #[test]
    fn every_verb_is_completed() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "tidegate", &mut script);
            let script = String::from_utf8(script).unwrap();
            for verb in command().get_subcommands() {
                assert!(script.contains(verb.get_name()), "{shell} lacks {}", verb.get_name());
            }
        }
    }

    #[test]
    fn the_arguments_are_sound() {
        command().debug_assert();
    }
}
