//! Names of routes. They are made of what a block says, and not of where it stands in the file: a line more or less renames
//! no other route.

use super::{block::Server, locations::Location, parse::Directive};
use crate::names::{folded, words_of_path};

const LONGEST_SERVER: usize = 24;

impl Server<'_, '_> {
    /// `shop.example-orders-1f3a`
    pub(super) fn name_of(&self, server: &str, location: &Location) -> String {
        let outer = location.inside.iter().filter_map(|index| self.locations.all.get(*index));
        let titles: Vec<String> = outer.map(|outer| outer.directive.title()).collect();
        let own = location.directive.title();
        let path = location.directive.arguments.last().map(String::as_str).unwrap_or_default();
        self.name(server, &words_of_path(path), &[titles, vec![own]].concat())
    }

    /// Of what belongs to the server itself.
    pub(super) fn own_name(&self, server: &str, words: &str) -> String {
        self.name(server, words, &[])
    }

    fn name(&self, server: &str, words: &str, titles: &[String]) -> String {
        let identity = [identity(self.directive), titles.join("\n")].join("\n");
        let server: String = server.chars().take(LONGEST_SERVER).collect();
        format!("{server}-{words}-{:04x}", folded(&identity))
    }
}

/// Servers of the same name differ by their sockets.
fn identity(server: &Directive) -> String {
    let names = server.all("server_name").flat_map(|names| names.arguments.iter().map(String::as_str));
    let names: Vec<&str> = names.take(1).collect();
    let mut sockets: Vec<&str> = server.all("listen").map(|listen| listen.argument(0)).collect();
    sockets.sort();
    format!("{} {}", names.concat(), sockets.join(" "))
}
