//! The way of a request through its chains, as [`crate::phases`] and [`crate::request`] go it, with each plugin's foresight in
//! place of its phases.

use std::sync::Arc;

use tidegate_plugin_api::{
    Consumer, Foreseen, Foresight, Instance, Phases, Request, Share, Why, chain::REFUSAL, foresight::at_once,
};

use crate::{
    balancer, matching,
    phases::{RequestChains, applies, joining},
    route::check_body_length,
};

/// A plugin in a phase, in the order of their turns.
pub struct Planned {
    /// Name of the phase.
    pub phase: &'static str,
    /// The plugin with its configuration.
    pub instance: Arc<Instance>,
    /// Whether `_meta.filter` lets it run.
    pub runs: bool,
    /// What comes of it.
    pub does: Does,
}

/// What a plugin would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Does {
    /// Nothing, as another one has answered before.
    NotReached,
    /// Nothing: its condition does not hold.
    Skipped,
    /// The request continues.
    Continues,
    /// It sends the request to one of several upstreams.
    Splits,
    /// It surely answers.
    Answers(Foreseen),
    /// It may answer.
    MayAnswer(Foreseen),
    /// It works on the answer, or after it.
    AfterAnswer,
}

/// Where a request ends.
#[derive(Default)]
pub struct Ending {
    /// What surely keeps it from every upstream.
    pub answer: Option<Answer>,
    /// The plugins that may answer before that: their positions in the plan.
    pub maybe: Vec<usize>,
    /// Where it goes otherwise; `None` in one: to the upstream that stands in the request.
    pub shares: Vec<Share>,
    /// A plugin may change the request in a way that is not known, so that others may do something else than is said.
    pub is_open: bool,
    /// The plugins that may give an answer of the gateway another status.
    pub status_changed_by: Vec<&'static str>,
}

/// An answer in place of the upstream's.
pub struct Answer {
    /// `None`: it is not known beforehand.
    pub status: Option<u16>,
    /// Who answers.
    pub cause: Cause,
}

/// Who answers in place of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The plugin at this position in the plan.
    Plugin(usize),
    /// The condition of this plugin cannot be evaluated.
    Condition(usize),
    /// The request is refused before a route is chosen.
    Refused,
    /// No route has the request.
    NoRoute,
    /// The route or a global rule cannot be built.
    Broken,
    /// The body is larger than the route allows.
    BodyTooLarge,
    /// The consumer's group does not exist.
    GroupMissing,
    /// No upstream takes requests.
    NoUpstream,
    /// The upstream has no nodes, or discovery knows none.
    NoNodes,
}

impl Answer {
    pub(super) fn of_gateway(status: u16, cause: Cause) -> Answer {
        Answer { status: Some(status), cause }
    }
}

struct Walk<'a> {
    request: &'a mut Request,
    /// The consumer that authentication is taken to have found.
    named: Option<&'a Arc<Consumer>>,
    plan: Vec<Planned>,
    ending: Ending,
    /// A plugin may have changed the request in a way that is not known.
    is_open: bool,
}

/// The plan and the ending of a request that has its route.
pub(super) fn walk(
    request: &mut Request,
    chains: &mut RequestChains,
    consumer: Option<&Arc<Consumer>>,
) -> (Vec<Planned>, Ending) {
    let mut walk =
        Walk { request, named: consumer, plan: Vec::new(), ending: Ending::default(), is_open: false };
    walk.rewrite(chains);
    walk.access(chains);
    walk.leave(chains);
    walk.after_answer(chains);
    walk.ending.is_open = walk.is_open;
    (walk.plan, walk.ending)
}

impl Walk<'_> {
    fn rewrite(&mut self, chains: &mut RequestChains) {
        self.phase(Phases::REWRITE, "rewrite", chains);
        // No authentication plugin has had its turn.
        if let Some(consumer) = self.named.filter(|_| self.request.consumer.is_none()) {
            self.request.consumer = Some(consumer.clone());
        }
        if let (Some(consumer), Some(route)) = (self.request.consumer.clone(), self.request.route.clone()) {
            if consumer.group_missing {
                self.answer(503, Cause::GroupMissing);
            }
            for instance in joining(&route, &consumer) {
                self.meet(Phases::REWRITE, "rewrite", instance);
            }
            chains.set_consumer(&consumer);
        }
        if let Err(reply) = check_body_length(self.request) {
            self.answer(reply.status, Cause::BodyTooLarge);
        }
    }

    fn access(&mut self, chains: &RequestChains) {
        self.phase(Phases::ACCESS, "access", chains);
        if chains.runs_in(Phases::ACCESS) && chains.runs_in(Phases::STORED) {
            if !chains.guards_before_proxy() {
                self.phase(Phases::STORED, "stored", chains);
            } else if self.request.upstream().is_none() {
                self.before_proxy(chains);
            }
        }
        if let Err(reply) = matching::require_route(self.request) {
            let cause = if self.request.route.is_some() { Cause::Broken } else { Cause::NoRoute };
            self.answer(reply.status, cause);
        }
    }

    /// Towards the upstream.
    fn leave(&mut self, chains: &RequestChains) {
        if self.ending.shares.is_empty() && self.ending.answer.is_none() {
            self.ending.shares = vec![Share { upstream: None, weight: 1 }];
        }
        let routes_own = self.ending.shares.iter().any(|share| share.upstream.is_none());
        if routes_own
            && balancer::brokers(self.request).is_none()
            && let Err(reply) = balancer::upstream(self.request)
        {
            let status = reply.status;
            match self.ending.shares.len() {
                1 => self.answer(status, Cause::NoUpstream),
                _ => self.ending.shares.retain(|share| share.upstream.is_some()),
            }
        }
        if !self.plan.iter().any(|planned| planned.phase == "before_proxy") {
            self.before_proxy(chains);
        }
        let is_empty = |share: &Share| {
            let upstream = share.upstream.as_ref().or_else(|| self.request.upstream());
            upstream.is_some_and(|upstream| upstream.nodes.is_empty())
        };
        if !self.ending.shares.is_empty() && self.ending.shares.iter().all(is_empty) {
            self.answer(503, Cause::NoNodes);
        }
    }

    fn before_proxy(&mut self, chains: &RequestChains) {
        self.phase(Phases::BEFORE_PROXY, "before_proxy", chains);
        if chains.runs_in(Phases::STORED) && chains.guards_before_proxy() {
            self.phase(Phases::STORED, "stored", chains);
        }
        self.phase(Phases::DEPARTING, "departing", chains);
    }

    fn after_answer(&mut self, chains: &RequestChains) {
        if self.ending.answer.is_some() {
            self.ending.shares.clear();
        }
        let phases = [
            (Phases::HEADER_FILTER, "header_filter"),
            (Phases::BODY_FILTER, "body_filter"),
            (Phases::LOG, "log"),
        ];
        for (phase, name) in phases {
            for instance in chains.of_phase(phase) {
                let runs = applies(instance, self.request);
                let does = if runs { Does::AfterAnswer } else { Does::Skipped };
                self.plan.push(Planned { phase: name, instance: instance.clone(), runs, does });
            }
        }
        // Where they stand, not whether they run: their conditions may be about the answer.
        let mut names: Vec<&'static str> = Vec::new();
        for planned in &self.plan {
            let name = planned.instance.def.name;
            let changes =
                planned.instance.plugin.may_change_status() || planned.instance.pre_function.is_some();
            let has_turn = planned.phase == "header_filter" || planned.does == Does::Continues;
            if changes && has_turn && !names.contains(&name) {
                names.push(name);
            }
        }
        self.ending.status_changed_by = names;
    }

    fn answer(&mut self, status: u16, cause: Cause) {
        self.ending.answer.get_or_insert(Answer::of_gateway(status, cause));
    }

    fn phase(&mut self, phase: Phases, name: &'static str, chains: &RequestChains) {
        for instance in chains.of_phase(phase) {
            self.meet(phase, name, instance);
        }
    }

    fn meet(&mut self, phase: Phases, name: &'static str, instance: &Arc<Instance>) {
        let at = self.plan.len();
        let limit = tidegate_plugin_api::condition_body_bytes();
        // As the phase does it: with the body, where the condition looks into it.
        let turn = match &instance.filter {
            None => Some(true),
            Some(filter) => at_once(self.request.ask_with_body(limit, |request| filter.eval(request)))
                .map(|answer| answer.unwrap_or(false)),
        };
        let runs = turn != Some(false);
        let may_answer = instance.def.guards || instance.def.answers;
        let does = match turn {
            _ if self.ending.answer.is_some() => Does::NotReached,
            None => Does::MayAnswer(unknown(Why::Body)),
            Some(false) if self.is_open && may_answer => Does::MayAnswer(unknown(Why::Unknown)),
            Some(false) => Does::Skipped,
            Some(true) => self.foreseen(phase, instance),
        };
        match &does {
            Does::Answers(foreseen) => {
                let cause = if instance.def.name == REFUSAL { Cause::Broken } else { Cause::Plugin(at) };
                self.ending.answer = Some(Answer { status: foreseen.status, cause });
            }
            Does::MayAnswer(_) => self.ending.maybe.push(at),
            _ => {}
        }
        let judged = self.request.require_decided().and_then(|()| match instance.def.guards && !runs {
            true => self.request.require_readable_body(),
            false => Ok(()),
        });
        if let Err(reply) = judged {
            self.answer(reply.status, Cause::Condition(at));
        }
        self.plan.push(Planned { phase: name, instance: instance.clone(), runs, does });
    }

    fn foreseen(&mut self, phase: Phases, instance: &Instance) -> Does {
        if instance.pre_function.is_some() {
            self.is_open = true;
            return Does::MayAnswer(unknown(Why::Runs));
        }
        if instance.def.kind == Some("auth")
            && phase == Phases::REWRITE
            && let Some(consumer) = self.named
        {
            self.request.attach_consumer(consumer, None);
            return Does::Continues;
        }
        let foreseen = instance
            .plugin
            .foresee(phase, self.request)
            .with_error_response(instance.error_response.as_ref());
        let foreseen = match instance.plugin.answers_all_in() == Some(phase) {
            true => foreseen.always(),
            false => foreseen,
        };
        match foreseen {
            Foresight::Continues => Does::Continues,
            Foresight::Alters => {
                self.is_open = true;
                Does::Continues
            }
            // What it decides upon may be other than it is here.
            Foresight::Answers(foreseen)
                if self.is_open && !(foreseen.always && instance.filter.is_none()) =>
            {
                Does::MayAnswer(foreseen)
            }
            Foresight::Answers(foreseen) => Does::Answers(foreseen),
            Foresight::Maybe(foreseen) => {
                self.is_open |= foreseen.why.leaves_open();
                Does::MayAnswer(foreseen)
            }
            Foresight::Splits(shares) => {
                self.ending.shares = shares;
                Does::Splits
            }
        }
    }
}

fn unknown(why: Why) -> Foreseen {
    Foreseen { status: None, why, always: false }
}
