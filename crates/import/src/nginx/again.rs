//! Steps that run a second time. After a redirect within the server to another path nginx runs the steps of the server
//! again, and then those of the location that takes the path. A named location is entered without them.

use super::{
    at::is_step,
    block::Server,
    chain::Chain,
    condition::Condition,
    ifs,
    locations::Location,
    made::Stop,
    parse::Directive,
    referers,
    variables::{Query, Variables},
};
use crate::reach::{self, Piece};

/// A request on its way to another path.
pub(crate) struct Redirected<'p> {
    path: Path<'p>,
    query: Query<'p>,
    /// nginx asks for pages of errors with GET, unless the request is a HEAD.
    methods: &'static [Option<&'static str>],
    /// A step of the server made the error, and is reached again.
    is_from_server: bool,
}

enum Path<'p> {
    Known(&'p str),
    /// A file of a directory that is known in part.
    In(Vec<Piece<'p>>, &'p str),
}

impl<'p> Redirected<'p> {
    /// To what a line of the file names.
    pub(super) fn to(target: &'p str) -> Self {
        let (path, query) = split(target);
        Redirected { path: Path::Known(path), query, methods: &[None], is_from_server: false }
    }

    /// To a file of the directory that is asked for.
    pub(crate) fn to_file(directory: Vec<Piece<'p>>, name: &'p str) -> Self {
        let path = Path::In(directory, name);
        Redirected { path, query: Query::Kept, methods: &[None], is_from_server: false }
    }

    pub(crate) fn for_page(self, is_from_server: bool) -> Self {
        Redirected { methods: &[Some("GET"), Some("HEAD")], is_from_server, ..self }
    }

    /// The variables behind the steps of the server, and of the location that the path stays in. The error is a step that may
    /// decide otherwise than it did for the first path.
    pub(super) fn variables<'a>(
        &self,
        server: &Server<'_, 'a>,
        stays_in: Option<&Location<'a>>,
        variables: &Variables<'a>,
    ) -> Result<Variables<'a>, &'a Directive> {
        let mut made = variables.clone();
        for method in self.methods {
            let mut first = server.variables.clone();
            let mut second = variables.clone();
            let path = match self.path {
                Path::Known(path) => Some(path),
                Path::In(..) => None,
            };
            second.redirect(path, self.query);
            made = second.clone();
            if let Some(method) = method {
                second.set("request_method", method);
            }
            let blocks = [(&server.directive.block, server.chain())]
                .into_iter()
                .chain(stays_in.map(|location| (&location.directive.block, location.chain.clone())));
            for (block, chain) in blocks {
                for variables in [&mut first, &mut second, &mut made] {
                    look_at_referers(variables, &chain, server.directive);
                }
                if let Some(step) = self.decided_by(block, &mut first, &mut second, &mut made) {
                    return Err(step);
                }
            }
        }
        Ok(made)
    }

    fn decided_by<'a>(
        &self,
        block: &'a [Directive],
        first: &mut Variables<'a>,
        second: &mut Variables<'a>,
        made: &mut Variables<'a>,
    ) -> Option<&'a Directive> {
        for step in block.iter().filter(|directive| is_step(&directive.name)) {
            match step.name.as_str() {
                "set" => [&mut *first, second, made].into_iter().for_each(|variables| variables.set_as(step)),
                "rewrite" if self.may_match(step) => return Some(step),
                "rewrite" => {}
                "if" => {
                    let (held, holds) = (ifs::condition(step, first), ifs::condition(step, second));
                    let answers = step.block.iter().any(ends);
                    let may_hold = holds != Ok(Condition::Never);
                    let is_alike = held == holds && !(self.is_from_server && answers);
                    let leads_on = step.all("rewrite").any(|inner| self.may_match(inner));
                    if may_hold && (!is_alike || leads_on) {
                        return Some(step);
                    }
                    for set in step.all("set") {
                        [&mut *first, second, made].into_iter().for_each(|variables| variables.forget(set));
                    }
                }
                "return" if self.is_from_server => return Some(step),
                _ => return None,
            }
        }
        None
    }

    fn may_match(&self, rewrite: &Directive) -> bool {
        match &self.path {
            Path::Known(path) => reach::may_match(rewrite.argument(0), &[Piece::Text(path)]),
            Path::In(directory, name) => reach::may_match_with(rewrite.argument(0), directory, name),
        }
    }
}

/// Whether nginx leaves the steps here.
fn ends(step: &Directive) -> bool {
    ["return", "rewrite"].contains(&step.name.as_str())
}

fn look_at_referers<'a>(variables: &mut Variables<'a>, chain: &Chain<'a>, server: &Directive) {
    match referers::invalid(chain, server) {
        Ok(Some(invalid)) => variables.set_flag("invalid_referer", invalid),
        Ok(None) => variables.set("invalid_referer", ""),
        // It closes what looks at it.
        Err(_) => variables.unclear("invalid_referer", "its list is not converted"),
    }
}

/// The path that a redirect within the server leads to, and the arguments that it has there.
pub(super) fn split(target: &str) -> (&str, Query<'_>) {
    if let Some(path) = target.strip_suffix("$is_args$args") {
        return (path, Query::Kept);
    }
    match target.split_once('?') {
        None => (target, Query::Is("")),
        Some((path, "$args" | "$query_string")) => (path, Query::Kept),
        Some((path, query)) if query.contains('$') => (path, Query::Unknown),
        Some((path, query)) => (path, Query::Is(query)),
    }
}

/// Why a place is closed whose redirect meets such a step.
pub(super) fn decided(step: &Directive, target: &str) -> Stop {
    Stop::closed(format!(
        "`{}` of line {} decides on `{target}` as well, to which it redirects",
        step.title(),
        step.at.line
    ))
}
