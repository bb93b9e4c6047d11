//! Running plugins: global rules first, then the route's, by falling priority.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use tidegate_plugin_api::{
    BodyChunk, Consumer, Instance, Passage, Phases, PluginChain, Reply, Request, Route, Step, WorkerSnapshot,
    chain::{InPhase, step},
    hops::{self, Origin},
    reply::ReplyBody,
    step::Verdict,
};

use crate::progress::{At, mark};

/// How far a piece of an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    Through,
    /// The filter at this place has the whole body now.
    Waits(usize),
    /// Nothing more may reach the client; the status of the answer that takes this one's place.
    Refused(u16),
}

thread_local! {
    /// Since it was last looked at, a poll has found a plugin waiting for the answer to a question ([`Step::Ask`]).
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// To be called before a poll after which [`is_asking`] is.
pub(crate) fn forget_asking() {
    ASKED.set(false);
}

/// Whether the poll that has just ended found a plugin waiting for what is of no use without the client.
pub(crate) fn is_asking() -> bool {
    ASKED.replace(false)
}

/// The instances of one phase. An adapter for each step would be asked by each instance again.
struct InOrder<'a> {
    globals: InPhase<'a>,
    route: InPhase<'a>,
    chain: Option<&'a PluginChain>,
}

impl<'a> Iterator for InOrder<'a> {
    type Item = &'a Arc<Instance>;

    #[inline]
    fn next(&mut self) -> Option<&'a Arc<Instance>> {
        for instance in self.globals.by_ref() {
            let in_route = || self.chain.is_some_and(|chain| chain.find(instance.def.name).is_some());
            if !(instance.def.prefer_route && in_route()) {
                return Some(instance);
            }
        }
        self.route.next()
    }
}

/// The chains of one request.
pub(crate) struct RequestChains {
    snapshot: Rc<WorkerSnapshot>,
    route: Option<Arc<Route>>,
    /// The route's chain with the consumer's plugins over it.
    merged: Option<Rc<PluginChain>>,
    /// `name#phase` of what ran, while conf/debug.yaml asks for it.
    trace: Option<RefCell<Vec<String>>>,
    /// The origin on whose behalf plugins act while they wait.
    origin: Origin,
    /// The plugins that were asked to run, by phase; see [`crate::explain_check`].
    #[cfg(debug_assertions)]
    asked: RefCell<Vec<(At, Arc<Instance>)>>,
    /// The plugin that answered in a phase before the upstream, and the status.
    #[cfg(debug_assertions)]
    answered: RefCell<Option<(Arc<Instance>, u16)>>,
    /// What `explain_check` keeps of the request until it has been served; only that knows the type.
    #[cfg(debug_assertions)]
    pub(crate) to_compare: Option<Box<dyn std::any::Any>>,
    /// The request's body as it came, where it is small and came with the head: plugins may replace it.
    #[cfg(debug_assertions)]
    pub(crate) first_body: Option<Bytes>,
}

impl RequestChains {
    pub(crate) fn new(request: &Request, debug: bool) -> RequestChains {
        let trace = debug.then(RefCell::default);
        RequestChains {
            snapshot: request.snapshot.clone(),
            route: None,
            merged: None,
            trace,
            origin: Origin::default(),
            #[cfg(debug_assertions)]
            asked: RefCell::default(),
            #[cfg(debug_assertions)]
            answered: RefCell::default(),
            #[cfg(debug_assertions)]
            to_compare: None,
            #[cfg(debug_assertions)]
            first_body: None,
        }
    }

    #[inline]
    fn record_phase(&self, instance: &Instance, phase: &str) {
        if let Some(trace) = &self.trace {
            add_to(trace, instance, phase);
        }
    }

    /// For the header `Apisix-Plugins`: what ran so far, and what of the route is expected to run once the head is out.
    #[inline]
    pub(crate) fn executed(&self) -> Option<String> {
        self.trace.as_ref().map(|trace| self.all_of(trace))
    }

    #[cold]
    fn all_of(&self, trace: &RefCell<Vec<String>>) -> String {
        if let Some(chain) = self.of_route() {
            for (phase, name) in [(Phases::BODY_FILTER, "body_filter"), (Phases::LOG, "log")] {
                for instance in chain.of_phase(phase) {
                    self.record_phase(instance, name);
                }
            }
        }
        let trace = trace.borrow();
        if trace.is_empty() { "no plugin".to_owned() } else { trace.join(", ") }
    }

    #[cfg(debug_assertions)]
    fn remember(&self, at: At, instance: &Arc<Instance>) {
        let mut asked = self.asked.borrow_mut();
        if !asked.iter().any(|(phase, other)| *phase == at && Arc::ptr_eq(other, instance)) {
            asked.push((at, instance.clone()));
        }
    }

    /// The plugins that were asked to run so far, by phase.
    #[cfg(debug_assertions)]
    pub(crate) fn asked(&self) -> Vec<(At, Arc<Instance>)> {
        self.asked.borrow().clone()
    }

    /// The plugin that answered in the upstream's place, and the status.
    #[cfg(debug_assertions)]
    pub(crate) fn answered(&self) -> Option<(Arc<Instance>, u16)> {
        self.answered.borrow().clone()
    }

    #[inline]
    fn remember_answer(&self, instance: &Arc<Instance>, reply: &Reply) {
        #[cfg(debug_assertions)]
        self.answered.replace(Some((instance.clone(), reply.status)));
        let _ = (instance, reply);
    }

    /// Whether a consumer's plugins are over the route's.
    #[cfg(debug_assertions)]
    pub(crate) fn has_consumer(&self) -> bool {
        self.merged.is_some()
    }

    /// Once it is known whether the request has come back.
    pub(crate) fn set_origin(&mut self, request: &Request) {
        self.origin = hops::origin(request);
    }

    /// Whether the request brings log entries, of this gateway too.
    pub(crate) fn is_of_delivery(&self) -> bool {
        self.origin.is_of_delivery()
    }

    pub(crate) fn set_route(&mut self, route: &Arc<Route>) {
        self.route = Some(route.clone());
    }

    fn of_route(&self) -> Option<&PluginChain> {
        self.merged.as_deref().or_else(|| self.route.as_ref().map(|route| &route.chain))
    }

    pub(crate) fn runs_in(&self, phase: Phases) -> bool {
        self.snapshot.globals.runs_in(phase) || self.of_route().is_some_and(|chain| chain.runs_in(phase))
    }

    /// The instances of a phase in order: global rules', then the route's.
    pub(crate) fn of_phase(&self, phase: Phases) -> impl Iterator<Item = &Arc<Instance>> {
        let route = self.of_route();
        InOrder {
            globals: self.snapshot.globals.of_phase(phase),
            route: route.map_or_else(InPhase::default, |chain| chain.of_phase(phase)),
            chain: route,
        }
    }

    /// See [`tidegate_plugin_api::Plugin::received`].
    pub(crate) fn received(&self, request: &mut Request) {
        if self.runs_in(Phases::RECEIVED) {
            self.of_phase(Phases::RECEIVED).for_each(|instance| instance.plugin.received(request));
        }
    }

    pub(crate) async fn rewrite(&mut self, request: &mut Request) -> Verdict {
        if self.runs_in(Phases::REWRITE) {
            self.run_all(Phases::REWRITE, request).await?;
        }
        self.merge_consumer(request).await
    }

    pub(crate) async fn access(&mut self, request: &mut Request) -> Verdict {
        if self.runs_in(Phases::ACCESS) {
            self.run_all(Phases::ACCESS, request).await?;
            // Before a node is chosen, where no later guard can refuse: a cache relieves an upstream that has no
            // node to spare.
            if self.runs_in(Phases::STORED) {
                if !self.guards_before_proxy() {
                    self.stored(request).await?;
                } else if request.upstream().is_none() {
                    // There will be no node to choose.
                    self.before_proxy(request, true).await?;
                }
            }
        }
        Ok(())
    }

    /// `first`: no node has been tried yet.
    pub(crate) async fn before_proxy(&self, request: &mut Request, first: bool) -> Verdict {
        if self.runs_in(Phases::BEFORE_PROXY) {
            self.run_all(Phases::BEFORE_PROXY, request).await?;
            if first && self.runs_in(Phases::STORED) && self.guards_before_proxy() {
                self.stored(request).await?;
            }
        }
        if first && self.runs_in(Phases::DEPARTING) {
            self.run_all(Phases::DEPARTING, request).await?;
        }
        Ok(())
    }

    async fn stored(&self, request: &mut Request) -> Verdict {
        self.run_all(Phases::STORED, request).await
    }

    /// Whether a plugin may still refuse when a node has been chosen.
    pub(crate) fn guards_before_proxy(&self) -> bool {
        self.of_phase(Phases::BEFORE_PROXY)
            .any(|instance| instance.def.guards || instance.pre_function.is_some())
    }

    async fn run_all(&self, phase: Phases, request: &mut Request) -> Verdict {
        let at = place(phase);
        for instance in self.of_phase(phase) {
            // Most have neither, and do not wait: a future for each would cost more than most of them do.
            if instance.filter.is_some() || instance.pre_function.is_some() {
                self.run(instance, phase, request).await?;
                continue;
            }
            self.begin(at, instance);
            self.record_phase(instance, at.name());
            match step(instance.plugin.as_ref(), phase, request) {
                Step::Next => {}
                other => self.finish_step(at, instance, other).await?,
            }
            request.require_decided()?;
        }
        Ok(())
    }

    fn begin(&self, at: At, instance: &Arc<Instance>) {
        self.mark(at, instance);
        #[cfg(debug_assertions)]
        crate::fault::hold(instance.def.name);
    }

    async fn run(&self, instance: &Arc<Instance>, phase: Phases, request: &mut Request) -> Verdict {
        let at = place(phase);
        // Its condition counts as the plugin: it may look into a body.
        self.begin(at, instance);
        if let Some(filter) = &instance.filter {
            let limit = tidegate_plugin_api::condition_body_bytes();
            if !request.ask_with_body(limit, |request| filter.eval(request)).await? {
                request.require_decided()?;
                // A guard is skipped because of what the body holds, never because the body could not be
                // read.
                return if instance.def.guards { request.require_readable_body() } else { Ok(()) };
            }
        }
        self.record_phase(instance, at.name());
        if let Some(function) = &instance.pre_function {
            let settled = self.run_step(at, instance, step(function.as_ref(), phase, request)).await;
            settled.inspect_err(|reply| self.remember_answer(instance, reply))?;
        }
        match step(instance.plugin.as_ref(), phase, request) {
            Step::Next => {}
            other => self.finish_step(at, instance, other).await?,
        }
        request.require_decided()
    }

    /// The rest of a plugin that refuses, or waits.
    async fn finish_step(&self, at: At, instance: &Arc<Instance>, step: Step<'_>) -> Verdict {
        let settled = self.run_step(at, instance, step).await;
        settled.map_err(|reply| {
            self.remember_answer(instance, &reply);
            with_error_response(instance, reply)
        })
    }

    /// Runs the rest of a plugin that waits: each poll marks it again, as its first mark belongs to an
    /// earlier poll.
    async fn run_step(&self, at: At, instance: &Arc<Instance>, step: Step<'_>) -> Verdict {
        match step {
            Step::Next => Ok(()),
            Step::Reply(reply) => Err(reply),
            Step::Wait(future) => self.wait(at, instance, future, false).await,
            Step::Ask(future) => self.wait(at, instance, future, true).await,
        }
    }

    async fn wait(
        &self,
        at: At,
        instance: &Arc<Instance>,
        mut future: Pin<Box<dyn Future<Output = Verdict> + '_>>,
        is_question: bool,
    ) -> Verdict {
        let mut is_first = true;
        poll_fn(|context| {
            if !std::mem::take(&mut is_first) {
                self.mark(at, instance);
            }
            let polled = hops::within(self.origin, || future.as_mut().poll(context));
            if is_question && polled.is_pending() {
                ASKED.set(true);
            }
            polled
        })
        .await
    }

    fn mark(&self, at: At, instance: &Arc<Instance>) {
        #[cfg(debug_assertions)]
        self.remember(at, instance);
        mark(at, instance.def.name, self.route.as_ref().map_or(0, |route| route.serial));
    }

    /// Once the client is known, its plugins join: those that the route did not have run their rewrite phase now.
    async fn merge_consumer(&mut self, request: &mut Request) -> Verdict {
        let (Some(consumer), Some(route)) = (&request.consumer, &self.route) else { return Ok(()) };
        if consumer.group_missing {
            return Err(Box::new(Reply::page(503)));
        }
        if consumer.plugins.is_empty() {
            return Ok(());
        }
        let consumer = consumer.clone();
        self.merged = Some(self.snapshot.merged_chain(route, &consumer));
        for instance in joining(route, &consumer) {
            self.run(instance, Phases::REWRITE, request).await?;
        }
        Ok(())
    }

    /// As if a plugin had recognised this consumer.
    pub(crate) fn set_consumer(&mut self, consumer: &Consumer) {
        if let Some(route) = self.route.as_ref().filter(|_| !consumer.plugins.is_empty()) {
            self.merged = Some(self.snapshot.merged_chain(route, consumer));
        }
    }

    #[inline]
    pub(crate) fn header_filter(&self, request: &mut Request) {
        if self.runs_in(Phases::HEADER_FILTER) {
            self.filter_head(request);
        }
    }

    fn filter_head(&self, request: &mut Request) {
        for instance in self.of_phase(Phases::HEADER_FILTER) {
            if applies(instance, request) {
                self.mark(At::HeaderFilter, instance);
                self.record_phase(instance, "header_filter");
                if let Some(function) = &instance.pre_function {
                    function.header_filter(request);
                }
                instance.plugin.header_filter(request);
            }
        }
    }

    pub(crate) fn has_body_filter(&self) -> bool {
        self.runs_in(Phases::BODY_FILTER)
    }

    /// Whether a plugin looks at the body of this response.
    pub(crate) fn filters_body(&self, request: &Request) -> bool {
        let filters = |one: &Arc<Instance>| one.pre_function.is_some() || one.plugin.filters_body(request);
        self.has_body_filter() && self.of_phase(Phases::BODY_FILTER).any(filters)
    }

    pub(crate) fn has_body_filter_from(&self, from: usize) -> bool {
        self.of_phase(Phases::BODY_FILTER).nth(from).is_some()
    }

    /// Runs a piece through the filters from one on.
    pub(crate) fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk, from: usize) -> Passed {
        for (at, instance) in self.of_phase(Phases::BODY_FILTER).enumerate().skip(from) {
            if !applies(instance, request) {
                continue;
            }
            self.mark(At::BodyFilter, instance);
            if let Some(function) = &instance.pre_function {
                function.body_filter(request, chunk);
            }
            instance.plugin.body_filter(request, chunk);
            match chunk.passage {
                Passage::Free => {}
                Passage::Waits => return Passed::Waits(at),
                Passage::Refused(status) => return Passed::Refused(status),
            }
        }
        Passed::Through
    }

    /// Waits for the new body of the filter that has the whole one. The new body then passes the filters after
    /// this one.
    pub(crate) async fn whole_body(&self, request: &mut Request, at: usize) -> Result<Bytes, u16> {
        let Some(instance) = self.of_phase(Phases::BODY_FILTER).nth(at) else { return Err(500) };
        let mut making = instance.plugin.whole_body(request);
        poll_fn(|context| {
            self.mark(At::BodyFilter, instance);
            making.as_mut().poll(context)
        })
        .await
    }

    pub(crate) fn has_log(&self) -> bool {
        self.runs_in(Phases::LOG)
    }

    pub(crate) fn log(&self, request: &mut Request) {
        if self.runs_in(Phases::LOG) {
            for instance in self.of_phase(Phases::LOG) {
                if applies(instance, request) {
                    self.mark(At::Log, instance);
                    if let Some(function) = &instance.pre_function {
                        function.log(request);
                    }
                    instance.plugin.log(request);
                }
            }
        }
    }
}

#[cold]
fn add_to(trace: &RefCell<Vec<String>>, instance: &Instance, phase: &str) {
    let item = format!("{}#{phase}", instance.def.name);
    let mut trace = trace.borrow_mut();
    if !trace.contains(&item) {
        trace.push(item);
    }
}

/// The consumer's plugins that the route does not have, for the phase that has ended by the time the consumer
/// is known.
pub(crate) fn joining<'a>(
    route: &'a Route,
    consumer: &'a Consumer,
) -> impl Iterator<Item = &'a Arc<Instance>> {
    consumer.plugins.iter().filter(|instance| {
        let new = route.chain.find(instance.def.name).is_none();
        new && instance.def.kind != Some("auth") && instance.def.phases.contains(Phases::REWRITE)
    })
}

fn place(phase: Phases) -> At {
    match phase {
        Phases::REWRITE => At::Rewrite,
        Phases::ACCESS => At::Access,
        Phases::STORED => At::Stored,
        Phases::DEPARTING => At::Departing,
        _ => At::BeforeProxy,
    }
}

pub(crate) fn applies(instance: &Instance, request: &Request) -> bool {
    instance.filter.as_ref().is_none_or(|filter| filter.eval(request))
}

/// `_meta.error_response` replaces a plugin's answer when it rejects.
fn with_error_response(instance: &Instance, mut reply: Box<Reply>) -> Box<Reply> {
    if let Some(body) = instance.error_response.as_ref().filter(|_| reply.status >= 400) {
        reply.body = ReplyBody::Bytes(body.clone());
    }
    reply
}
