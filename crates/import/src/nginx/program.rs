//! The steps of the rewrite phase: `set`, `if`, `rewrite`, `return`, `break`, one after the other.

use std::rc::Rc;

use super::{
    at::{At, is_step},
    branch::{Branch, all_when},
    chain::{Chain, Handler, Kind},
    condition::Condition,
    ifs,
    made::{Made, Stop},
    parse::Directive,
    real_ip, referers,
    returns::returned,
    rewrite::{self, Rest, Rewrite},
    variables::{Variables, names::changes_requests},
};
use crate::Report;

pub(super) const STEPS: [&str; 5] = ["return", "rewrite", "if", "set", "break"];

/// What nginx looks at after the rewrite phase, so that `return` is earlier than all of it.
const LATER: [&str; 20] = [
    "valid_referers",
    "proxy_intercept_errors",
    "allow",
    "deny",
    "satisfy",
    "auth_basic",
    "auth_basic_user_file",
    "auth_request",
    "auth_request_set",
    "limit_except",
    "limit_req",
    "limit_req_status",
    "limit_conn",
    "limit_conn_status",
    "proxy_pass",
    "try_files",
    "client_max_body_size",
    "proxy_hide_header",
    "proxy_pass_header",
    "internal",
];

/// What the steps of a block come to.
pub(super) struct Steps<'a> {
    /// Cases that end here, the first that holds counts.
    pub branches: Vec<Branch>,
    /// Rewrites within the server, which need the locations.
    rewrites: Vec<Pending<'a>>,
    /// Nothing is left behind the branches.
    pub ended: bool,
    /// An `if` with settings, which applies to what follows when it holds.
    pub settings: Option<(Condition, &'a Directive)>,
    pub variables: Variables<'a>,
    /// Any `if` that holds has settings: nginx takes its block in place of the one around it, and `try_files` is not
    /// inherited.
    has_attempts: bool,
    /// Something was set behind the last of the rewrites.
    is_set: bool,
}

/// A rewrite, with what holds where it stands.
struct Pending<'a> {
    directive: &'a Directive,
    condition: Condition,
    chain: Chain<'a>,
    /// How many branches stand before it.
    before: usize,
    variables: Rc<Variables<'a>>,
    has_settings: bool,
    /// The settings of another `if` do not hold in one.
    is_in_if: bool,
}

/// A step that cannot be converted is an error: what follows it is unknown.
pub(super) fn run<'a>(
    block: &'a [Directive],
    at: &At<'_, 'a>,
    chain: &Chain<'a>,
    variables: &Variables<'a>,
    report: &mut Report,
) -> Made<Steps<'a>> {
    let mut steps = Steps {
        branches: Vec::new(),
        rewrites: Vec::new(),
        ended: false,
        settings: None,
        variables: variables.clone(),
        has_attempts: block.iter().any(|directive| directive.name == "try_files"),
        is_set: true,
    };
    if let Some(limited) = block.iter().find(|one| one.name == "limit_except")
        && let Some(step) = block.iter().find(|one| is_step(&one.name))
    {
        // nginx runs none of the steps for the other methods.
        let why = format!("`{}` of line {} beside `{}`", limited.title(), limited.at.line, step.title());
        return Err(Stop::closed(why));
    }
    changes_no_request(block)?;
    // Conditions of routes are looked at before the plugin runs.
    steps.variables.moved_addresses = real_ip::plugin(chain)?.is_some();
    match referers::invalid(chain, at.server.directive)? {
        Some(invalid) => steps.variables.set_flag("invalid_referer", invalid),
        None => steps.variables.set("invalid_referer", ""),
    }
    for step in block.iter().filter(|directive| is_step(&directive.name)) {
        match step.name.as_str() {
            "set" => {
                steps.is_set = true;
                steps.variables.set_as(step);
            }
            "break" => break,
            "return" => {
                if let Some((condition, settings)) = &steps.settings {
                    // nginx answers with the fields of that block.
                    let inner = chain.inner(Kind::Unnamed, &settings.block);
                    let branch = answer(step, at, &inner, &steps.variables, report)?;
                    steps.branches.extend(all_when(vec![branch], condition));
                }
                let branch = answer(step, at, chain, &steps.variables, report)?;
                steps.branches.push(branch);
                steps.ended = true;
                break;
            }
            "rewrite" => {
                let variables = steps.snapshot();
                steps.delay(step, Condition::Always, (chain, false), variables);
            }
            _ => steps.choose(step, at, chain, report)?,
        }
    }
    chain.take(&STEPS);
    Ok(steps)
}

/// `return` in a place that looks at nothing else.
fn answer<'a>(
    step: &'a Directive,
    at: &At<'_, 'a>,
    chain: &Chain<'a>,
    variables: &Variables<'a>,
    report: &mut Report,
) -> Made<Branch> {
    let mut branch = returned(step, at, chain, variables, report)?;
    real_ip::add(chain, &mut branch.plugins)?;
    chain.take(&STEPS);
    chain.take(&LATER);
    chain.check(Handler::Answer, report)?;
    Ok(branch)
}

/// As [`answer`], closed where that is not converted.
fn answer_or_closed<'a>(
    step: &'a Directive,
    at: &At<'_, 'a>,
    chain: &Chain<'a>,
    variables: &Variables<'a>,
    report: &mut Report,
) -> Made<Branch> {
    answer(step, at, chain, variables, report).or_else(|stop| match stop {
        Stop::Closed(why) => Ok(Branch::closed(why)),
        split => Err(split),
    })
}

/// `set $args …` is a change of the request.
fn changes_no_request(block: &[Directive]) -> Made<()> {
    for step in block {
        if step.name == "set" && changes_requests(step.argument(0).trim_start_matches('$')) {
            let why = format!("`{}` of line {} changes the request", step.title(), step.at.line);
            return Err(Stop::closed(why));
        }
        if step.name == "if" {
            changes_no_request(&step.block)?;
        }
    }
    Ok(())
}

impl<'a> Steps<'a> {
    /// The variables here; those of the last rewrite where nothing was set since.
    fn snapshot(&self) -> Rc<Variables<'a>> {
        match self.rewrites.last() {
            Some(last) if !self.is_set => last.variables.clone(),
            _ => Rc::new(self.variables.clone()),
        }
    }

    fn delay(
        &mut self,
        directive: &'a Directive,
        condition: Condition,
        chain: (&Chain<'a>, bool),
        variables: Rc<Variables<'a>>,
    ) {
        let (before, has_settings) = (self.branches.len(), self.settings.is_some());
        self.is_set = false;
        let (chain, is_in_if) = (chain.0.clone(), chain.1);
        self.rewrites.push(Pending {
            directive,
            condition,
            chain,
            before,
            variables,
            has_settings,
            is_in_if,
        });
    }

    /// An `if`.
    fn choose(
        &mut self,
        step: &'a Directive,
        at: &At<'_, 'a>,
        chain: &Chain<'a>,
        report: &mut Report,
    ) -> Made<()> {
        let held = ifs::condition(step, &self.variables);
        let does_nothing = step.block.iter().all(|inner| {
            inner.name == "set" || super::effects::of(&inner.name) == super::effects::Effect::None
        });
        let condition = match held {
            Ok(Condition::Never) => return Ok(()),
            Ok(condition) => condition,
            Err(Stop::Closed(_)) if does_nothing && !self.has_attempts && self.settings.is_none() => {
                self.forget(step);
                return Ok(());
            }
            Err(stop) => return Err(stop),
        };
        let inner_chain = chain.inner(Kind::Unnamed, &step.block);
        let mut variables = self.variables.clone();
        let mut has_settings = self.has_attempts;
        let first = self.rewrites.len();
        for inner in &step.block {
            match inner.name.as_str() {
                "set" => variables.set_as(inner),
                "break" if self.settings.is_none() => {
                    // The steps behind it are left out when the condition holds, which the content has to know.
                    return Err(Stop::closed(format!(
                        "`break` in `if`, line {}, is not converted",
                        inner.at.line
                    )));
                }
                "return" => {
                    // Who comes here goes no further: the others do not depend on it.
                    let branch = answer_or_closed(inner, at, &inner_chain, &variables, report)?;
                    self.branches.extend(all_when(vec![branch], &condition));
                    return Ok(());
                }
                "rewrite" => {
                    if rewrite::goes_on(inner) {
                        let why = format!(
                            "`{}`, line {}, is not converted without a flag",
                            inner.title(),
                            inner.at.line
                        );
                        return Err(Stop::closed(why));
                    }
                    self.delay(inner, condition.clone(), (&inner_chain, true), Rc::new(variables.clone()));
                    self.is_set = true;
                }
                name => has_settings |= super::effects::of(name) != super::effects::Effect::None,
            }
        }
        self.forget(step);
        // nginx takes the block of the last `if` that holds, also where it has no settings of its own.
        if has_settings || self.settings.is_some() {
            if self.settings.is_some() {
                return Err(Stop::closed(format!(
                    "an `if` behind one with settings, line {}, is not converted",
                    step.at.line
                )));
            }
            self.settings = Some((condition, step));
            self.rewrites.iter_mut().skip(first).for_each(|rewrite| rewrite.has_settings = true);
        }
        Ok(())
    }

    /// What is set on some ways only has no value that is known.
    fn forget(&mut self, step: &Directive) {
        self.is_set = true;
        step.all("set").for_each(|set| self.variables.forget(set));
    }
}

/// The branches of steps with the rewrites between them.
pub(crate) fn interleaved<'a>(
    steps: &Steps<'a>,
    own: Option<usize>,
    rest: Rest<'_, 'a>,
    at: &At<'_, 'a>,
    block: &[Directive],
    report: &mut Report,
) -> Made<Vec<Branch>> {
    let mut all = Vec::new();
    let mut done = 0;
    let last = block.iter().rfind(|step| is_step(&step.name));
    for Pending { directive, condition, chain, before, variables, has_settings, is_in_if } in &steps.rewrites
    {
        all.extend(steps.branches.get(done..*before).into_iter().flatten().cloned());
        done = *before;
        let is_last = last.is_some_and(|last| std::ptr::eq(last, *directive));
        let settings = steps.settings.as_ref().filter(|_| *has_settings && !is_in_if);
        let settings = settings.map(|(held, step)| (held, chain.inner(Kind::Unnamed, &step.block)));
        let rewrite = Rewrite { directive, is_last, own, at, chain, settings, has_settings: *has_settings };
        all.extend(all_when(rewrite::convert(&rewrite, rest, variables, report)?, condition));
    }
    all.extend(steps.branches.get(done..).into_iter().flatten().cloned());
    Ok(all)
}
