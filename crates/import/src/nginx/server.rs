//! A server and its locations as routes.
//!
//! Each block has a band of priorities, in which its cases stand in their order. Bands of regular expressions lie above those of
//! prefixes, that of the server's own steps on top.

mod cases;

use super::{
    arrived::arrived,
    at::{At, is_step},
    block::{Block, Server},
    branch::Branch,
    chain::{Chain, Kind},
    condition::Condition,
    content::content,
    context::Context,
    locations::Location,
    made::{Made, Stop},
    parse::Directive,
    places::{LocationMatch, safe_uri},
    program::{self, interleaved},
    variables::Variables,
};
use crate::Report;

impl<'a> Server<'_, 'a> {
    pub(crate) fn chain(&self) -> Chain<'a> {
        self.http.inner(Kind::Server, &self.directive.block)
    }

    /// All blocks with their cases.
    pub(crate) fn blocks(
        &self,
        context: &Context<'a>,
        name: &str,
        is_default: bool,
        report: &mut Report,
    ) -> Vec<Block> {
        let mut blocks = Vec::new();
        let chain = self.chain();
        let place = LocationMatch::Prefix { path: "/".to_owned(), ends: false };
        let at = At {
            server: self,
            context,
            place: &place,
            redirects: 0,
            is_page: false,
            is_server: true,
            arrived,
        };
        let regexes = self.locations.regexes();
        let own = Block {
            name: self.own_name(name, "server"),
            subject: format!("server {name}"),
            at: self.directive.at.clone(),
            uris: self.all_uris(),
            condition: Condition::Always,
            rank: regexes.len() + 1,
            branches: Vec::new(),
            is_location: false,
            differs: false,
        };
        let (branches, ended, variables) = self.own_steps(&chain, &at, report);
        if !branches.is_empty() || ended {
            blocks.push(Block { branches, ..own });
        }
        if ended {
            return blocks;
        }
        let variables = variables.as_ref().unwrap_or(self.variables);
        for directive in &self.locations.unknown {
            report.closed(
                &directive.at,
                &directive.title(),
                "its place is not understood; its paths answer as the others do not",
            );
        }
        for (index, location) in self.locations.all.iter().enumerate() {
            if location.is_named() || self.locations.is_covered(index) {
                continue;
            }
            blocks.push(self.location(index, location, context, variables, name, &regexes, report));
        }
        let has_root = |location: &Location| {
            matches!(&location.place, LocationMatch::Prefix { path, .. } if path == "/")
                && location.inside.is_empty()
        };
        if !self.locations.all.iter().any(has_root) {
            blocks.extend(self.rest(context, variables, name, is_default, report));
        }
        blocks
    }

    fn all_uris(&self) -> Vec<String> {
        let locations = &self.locations;
        let mut uris: Vec<String> = locations.all.iter().map(|location| safe_uri(&location.place)).collect();
        let bare = locations.all.iter().filter_map(|location| super::locations::bare(locations, location));
        uris.extend(bare.map(str::to_owned));
        uris.push("/*".to_owned());
        uris.sort();
        uris.dedup();
        uris
    }

    /// What the server does before any location is looked for; whether nothing is left, and the variables behind it.
    fn own_steps(
        &self,
        chain: &Chain<'a>,
        at: &At<'_, 'a>,
        report: &mut Report,
    ) -> (Vec<Branch>, bool, Option<Variables<'a>>) {
        let block = &self.directive.block;
        if self.directive.one("ssl_reject_handshake").is_some_and(|reject| reject.argument(0) == "on") {
            return (vec![Branch::status(444)], true, None);
        }
        let steps =
            self.clear_referers().and_then(|()| program::run(block, at, chain, self.variables, report));
        let made = steps.and_then(|steps| {
            if steps.settings.is_some() {
                return Err(Stop::closed("an `if` with settings in a server is not converted"));
            }
            let branches = interleaved(&steps, None, &|_, _, _| Ok(Vec::new()), at, block, report)?;
            Ok((branches, steps))
        });
        match made {
            Ok((branches, steps)) => (branches, steps.ended, Some(steps.variables)),
            Err(Stop::Closed(why)) => (vec![Branch::closed(why)], true, None),
            Err(Stop::Split(map)) => (
                vec![Branch::closed(format!("`${map}` is made by a map, in a step of the server"))],
                true,
                None,
            ),
        }
    }

    /// `$invalid_referer` keeps the value that it has when a step of the server looks at it.
    fn clear_referers(&self) -> Made<()> {
        let looks = |step: &Directive| is_step(&step.name) && step.mentions("invalid_referer");
        let lists = |location: &Location| location.directive.holds("valid_referers");
        if self.directive.block.iter().any(looks) && self.locations.all.iter().any(lists) {
            let why = "`$invalid_referer` in a server, and `valid_referers` in a location, is not converted";
            return Err(Stop::closed(why));
        }
        Ok(())
    }

    /// What no location takes.
    fn rest(
        &self,
        context: &Context<'a>,
        variables: &Variables<'a>,
        name: &str,
        is_default: bool,
        report: &mut Report,
    ) -> Option<Block> {
        let place = LocationMatch::Prefix { path: "/".to_owned(), ends: false };
        let chain = self.chain();
        // They ran before a location was looked for.
        chain.take(&program::STEPS);
        let block = |branches: Vec<Branch>| Block {
            name: self.own_name(name, "else"),
            subject: format!("server {name}"),
            at: self.directive.at.clone(),
            uris: vec!["/*".to_owned()],
            condition: Condition::Always,
            rank: 0,
            branches,
            is_location: false,
            differs: false,
        };
        if chain.one("root").is_none() {
            // Its hosts must not end up at the default server.
            return (!is_default || !self.locations.all.is_empty()).then(|| block(vec![Branch::status(404)]));
        }
        let at = At {
            server: self,
            context,
            place: &place,
            redirects: 0,
            is_page: false,
            is_server: false,
            arrived,
        };
        let branches = content(&at, &chain, variables, report).unwrap_or_else(|stop| match stop {
            Stop::Closed(why) => vec![Branch::closed(why)],
            Stop::Split(map) => vec![Branch::closed(format!("`${map}` is made by a map"))],
        });
        Some(block(branches))
    }
}
