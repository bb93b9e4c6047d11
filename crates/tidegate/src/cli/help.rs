//! The command line as it is declared, where each verb shows only those of the shared arguments that mean something to it.

use clap::{Arg, Command};

/// The shared arguments.
const SHARED: [&str; 3] = ["prefix", "config", "listen"];

/// What each verb reads of them. The others are accepted: scripts may give them to every verb.
const READ: &[(&str, &[&str])] = &[
    ("init", &["prefix"]),
    ("run", &SHARED),
    ("start", &SHARED),
    ("test", &SHARED),
    ("serve", &["listen"]),
    ("proxy", &["listen"]),
    ("echo", &["listen"]),
    ("stop", &["prefix"]),
    ("quit", &["prefix"]),
    ("reload", &["prefix", "config"]),
    ("upgrade", &["prefix"]),
    ("health", &["prefix", "config"]),
    ("routes", &["prefix", "config"]),
    ("connections", &["prefix"]),
    ("explain", &["prefix", "config"]),
    ("config", &["prefix", "config"]),
    ("doctor", &["prefix", "config"]),
    ("import", &["prefix", "config"]),
];

/// Verbs that listen for something else than a gateway's clients.
const LISTEN: &[(&str, &str)] = &[
    ("serve", "Port or address to listen on, overriding --port"),
    ("proxy", "Port or address to listen on; a bare port is one of 127.0.0.1 [default: 127.0.0.1:8080]"),
    ("echo", "Port or address to listen on, overriding --port; a bare port is one of 127.0.0.1"),
];

pub(super) fn of_verbs(mut command: Command) -> Command {
    let shared: Vec<_> =
        command.get_arguments().filter(|one| SHARED.contains(&one.get_id().as_str())).cloned().collect();
    let verbs: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for verb in verbs {
        let read = READ.iter().find(|(name, _)| *name == verb).map_or(&[][..], |(_, read)| read);
        command = command.mut_subcommand(&verb, |mut sub| {
            for argument in &shared {
                // One of the verb's own with that name is another thing.
                let is_own = sub.get_arguments().any(|own| own.get_id() == argument.get_id());
                if let Some(argument) = in_place_of(argument, &verb, read).filter(|_| !is_own) {
                    sub = sub.arg(argument);
                }
            }
            sub
        });
    }
    command
}

/// What a verb shows in place of a shared argument; `None`: that argument.
fn in_place_of(argument: &Arg, verb: &str, read: &[&str]) -> Option<Arg> {
    let id = argument.get_id().as_str();
    if !read.contains(&id) {
        return Some(argument.clone().hide(true));
    }
    let (_, help) = LISTEN.iter().find(|(name, _)| *name == verb && id == "listen")?;
    Some(argument.clone().help(*help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    #[test]
    fn verbs_show_what_they_read() {
        let mut command = command();
        command.build();
        for (verb, shown) in
            [("run", &SHARED[..]), ("stop", &["prefix"]), ("version", &[]), ("echo", &["listen"])]
        {
            let verb = command.find_subcommand(verb).expect("a verb");
            for name in SHARED {
                let is_shown = verb.get_arguments().any(|one| one.get_id() == name && !one.is_hide_set());
                assert_eq!(is_shown, shown.contains(&name), "{} {name}", verb.get_name());
            }
        }
        for (name, _) in READ {
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_argument_has_a_sentence() {
        let mut command = command();
        command.build();
        let mut wrong = Vec::new();
        let mut all: Vec<(String, &Command)> = vec![("tidegate".to_owned(), &command)];
        while let Some((name, command)) = all.pop() {
            if command.is_hide_set() || command.get_name() == "help" {
                continue;
            }
            let without =
                command.get_arguments().filter(|one| !one.is_hide_set() && one.get_help().is_none());
            wrong.extend(without.map(|one| format!("{name}: {}", one.get_id())));
            all.extend(command.get_subcommands().map(|sub| (format!("{name} {}", sub.get_name()), sub)));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
