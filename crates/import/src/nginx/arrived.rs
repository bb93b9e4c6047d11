//! What a location does with requests that nginx redirects to it within the server.

use super::{
    at::{At, is_step},
    branch::Branch,
    content::content,
    locations::Location,
    made::{Made, Stop},
    parse::Directive,
    program,
    rewrite::New,
    variables::Variables,
};
use crate::Report;

/// The cases of the location. The content of a place may ask for it: see [`super::at::Arrived`].
pub(super) fn arrived(
    location: &Location<'_>,
    at: &At<'_, '_>,
    variables: &Variables,
    report: &mut Report,
) -> Made<Vec<Branch>> {
    let (block, chain) = (&location.directive.block, &location.chain);
    chain.take(&["internal"]);
    let steps: Vec<&Directive> = block.iter().filter(|step| is_step(&step.name)).collect();
    match steps.as_slice() {
        [] => content(at, chain, variables, report),
        [step] if step.name == "return" => Ok(program::run(block, at, chain, variables, report)?.branches),
        [step] if location.is_named() && leads_all_paths_to_one(step) => {
            chain.take(&["rewrite"]);
            let new = New { pattern: step.argument(0), path: step.argument(1), ends: true };
            let cases = content(at, chain, &new.variables(variables), report)?;
            cases.into_iter().map(|case| new.changed(case)).collect()
        }
        _ => Err(Stop::closed(format!("`{}` has steps of its own", location.directive.title()))),
    }
}

/// `rewrite ^ /down.html break`
fn leads_all_paths_to_one(step: &Directive) -> bool {
    let takes_all = ["^", "^/", ".*", "^.*$", "^(.*)$", "^/.*$", "^/(.*)$"].contains(&step.argument(0));
    let path = step.argument(1);
    let is_literal = path.starts_with('/') && !path.contains(['$', '?', '\\']);
    step.name == "rewrite" && step.argument(2) == "break" && takes_all && is_literal
}
