//! What becomes of a request in a location: its cases, one after the other.

use super::super::{
    arrived::arrived,
    branch::{Branch, all_when},
    chain::Kind,
    condition::Condition,
    content::{content, refused},
    locations::Location,
    program::{self, interleaved},
    real_ip,
    variables::Variables,
};
use crate::{
    Report,
    nginx::{
        at::At,
        block::{Block, Server},
        context::Context,
        made::{Made, Stop},
        places::{LocationMatch, safe_uri},
    },
};

/// Maps that are looked through for one block.
const MAX_SPLITS: usize = 3;

impl<'a> Server<'_, 'a> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn location(
        &self,
        index: usize,
        location: &Location<'a>,
        context: &Context<'a>,
        variables: &Variables<'a>,
        name: &str,
        regexes: &[usize],
        report: &mut Report,
    ) -> Block {
        let mut own = Report::default();
        let mut variables = variables.clone();
        // For maps of the address, too; where it is not converted, the location is closed.
        variables.moved_addresses = !matches!(real_ip::plugin(&location.chain), Ok(None));
        let branches = match &location.fault {
            Some(why) => vec![Branch::closed(why.clone())],
            None => self.cases(index, location, context, &variables, MAX_SPLITS, &mut own),
        };
        let differs = !own.is_exact();
        report.absorb(own);
        let mut uris = vec![safe_uri(&location.place)];
        let mut condition = Condition::Always;
        let mut rank = 0;
        if let LocationMatch::Regex(pattern) = &location.place {
            uris = self.locations.tried_below(location);
            condition = Condition::test("uri", "~~", pattern.clone());
            rank = regexes.len() - regexes.iter().position(|one| *one == index).unwrap_or(0);
        }
        Block {
            name: self.name_of(name, location),
            subject: location.directive.title(),
            at: location.directive.at.clone(),
            uris,
            condition,
            rank,
            branches,
            is_location: true,
            differs,
        }
    }

    /// The cases of a location; those of maps one after the other.
    fn cases(
        &self,
        index: usize,
        location: &Location<'a>,
        context: &Context<'a>,
        variables: &Variables<'a>,
        splits: usize,
        report: &mut Report,
    ) -> Vec<Branch> {
        let mut scratch = Report::default();
        match self.whole(index, location, context, variables, &mut scratch) {
            Ok(branches) => {
                report.absorb(scratch);
                branches
            }
            Err(Stop::Closed(why)) => vec![Branch::closed(why)],
            Err(Stop::Split(map)) if splits > 0 => match variables.split(&map) {
                Ok(cases) => {
                    let mut all = Vec::new();
                    for (condition, variables) in cases {
                        let made = self.cases(index, location, context, &variables, splits - 1, report);
                        all.extend(all_when(made, &condition));
                    }
                    all
                }
                Err(Stop::Closed(why)) => vec![Branch::closed(why)],
                Err(Stop::Split(map)) => vec![Branch::closed(format!("`${map}` is made by a map of a map"))],
            },
            Err(Stop::Split(map)) => vec![Branch::closed(format!("`${map}` is one map too many"))],
        }
    }

    fn whole(
        &self,
        index: usize,
        location: &Location<'a>,
        context: &Context<'a>,
        variables: &Variables<'a>,
        report: &mut Report,
    ) -> Made<Vec<Branch>> {
        let chain = &location.chain;
        let at = At {
            server: self,
            context,
            place: &location.place,
            redirects: 0,
            is_page: false,
            is_server: false,
            arrived,
        };
        if chain.one("internal").is_some() {
            return Ok(vec![refused(404, &at, chain, variables, report)?]);
        }
        let block = location.directive.block.as_slice();
        let steps = program::run(block, &at, chain, variables, report)?;
        let rest = |variables: &Variables<'a>, has_settings: bool, report: &mut Report| {
            let mut rest = Vec::new();
            if let Some((condition, step)) = steps.settings.as_ref().filter(|_| has_settings) {
                let inner = chain.inner(Kind::Unnamed, &step.block);
                inner.take(&["set", "rewrite", "return", "if", "break", "internal"]);
                rest.extend(all_when(content(&at, &inner, variables, report)?, condition));
            }
            // What is left behind the steps may be closed alone.
            rest.extend(match content(&at, chain, variables, report) {
                Err(Stop::Closed(why)) => vec![Branch::closed(why)],
                made => made?,
            });
            Ok(rest)
        };
        let mut branches = interleaved(&steps, Some(index), &rest, &at, block, report)?;
        if !steps.ended {
            branches.extend(rest(&steps.variables, true, report)?);
        }
        Ok(branches)
    }
}
