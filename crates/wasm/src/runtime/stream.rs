//! A request in an instance: its context, its calls, and what it waits for.

use std::{rc::Rc, sync::Arc, time::Duration};

use tidegate_clients::http::Incoming;
use tidegate_plugin_api::{BodyChunk, Request};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
};
use wasmtime::Store;

use super::{
    contexts::{LocalReply, OfStream, Wants},
    current,
    held::Held,
    hosted::Hosted,
    module::Exports,
    state::{Entry, State, Wish},
    timers,
};

/// The longest that a request waits to be resumed.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// `proxy_action_t`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Continue,
    Pause,
}

impl Action {
    pub(super) fn of(number: u32) -> Action {
        if number == 1 { Action::Pause } else { Action::Continue }
    }
}

type Answered = (u32, u32, Result<Incoming, String>);

pub(super) struct Stream {
    pub hosted: Rc<Hosted>,
    pub id: u32,
    /// The calls of this request; made with the first.
    calls: Option<Calls>,
    /// What the response's body has come to.
    pub held: Held,
    is_ended: bool,
}

struct Calls {
    sender: mpsc::UnboundedSender<Answered>,
    receiver: mpsc::UnboundedReceiver<Answered>,
    under_way: u32,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Stream {
    pub(super) fn new(hosted: Rc<Hosted>, id: u32) -> Stream {
        Stream { hosted, id, calls: None, held: Held::default(), is_ended: false }
    }

    /// Runs a callback for the request. Its calls are begun.
    pub(super) fn run<R>(
        &mut self,
        request: &mut Request,
        entry: Entry,
        callback: impl FnOnce(&mut Store<State>, &Exports) -> wasmtime::Result<R>,
    ) -> Result<R, String> {
        let (result, wishes) = {
            let mut instance = self.hosted.instance.borrow_mut();
            let result = current::with_request(request, || instance.call(entry, self.id, callback));
            (result, instance.wishes())
        };
        self.fulfil(wishes);
        result
    }

    /// As [`Stream::run`], with a piece of the body.
    pub(super) fn run_on_chunk<R>(
        &mut self,
        request: &mut Request,
        chunk: &mut BodyChunk,
        entry: Entry,
        callback: impl FnOnce(&mut Store<State>, &Exports) -> wasmtime::Result<R>,
    ) -> Result<R, String> {
        current::with_chunk(chunk, || self.run(request, entry, callback))
    }

    fn fulfil(&mut self, wishes: Vec<Wish>) {
        if wishes.is_empty() {
            return;
        }
        let mut rest = Vec::new();
        for wish in wishes {
            match wish {
                Wish::Call(call) if call.context == self.id => {
                    let calls = self.calls.get_or_insert_with(|| {
                        let (sender, receiver) = mpsc::unbounded_channel();
                        Calls { sender, receiver, under_way: 0, tasks: Vec::new() }
                    });
                    calls.under_way += 1;
                    let sender = calls.sender.clone();
                    calls.tasks.push(tokio::task::spawn_local(async move {
                        let (id, root) = (call.id, call.root);
                        // The receiver is gone once the request has ended.
                        drop(sender.send((id, root, call.send().await)));
                    }));
                }
                other => rest.push(other),
            }
        }
        timers::fulfil(&self.hosted, rest);
    }

    /// Whether a call is under way.
    pub(super) fn waits_for_calls(&self) -> bool {
        self.calls.as_ref().is_some_and(|calls| calls.under_way > 0)
    }

    /// Waits for a call's answer and hands it over; the piece is what is there of the response.
    pub(super) async fn answer(
        &mut self,
        request: &mut Request,
        chunk: &mut BodyChunk,
        entry: Entry,
    ) -> Result<(), String> {
        let Some(calls) = &mut self.calls else { return Ok(()) };
        let Some((id, root, answer)) = calls.receiver.recv().await else { return Ok(()) };
        calls.under_way -= 1;
        let answer = match answer {
            Ok(answer) => Some(Arc::new(answer)),
            Err(reason) => {
                timers::report(self.plugin(), &reason);
                None
            }
        };
        self.run_on_chunk(request, chunk, entry, |store, exports| {
            timers::deliver(store, exports, root, id, answer)
        })
    }

    pub(super) fn plugin(&self) -> &'static str {
        self.hosted.instance.try_borrow().map_or("", |instance| instance.store.data().plugin)
    }

    /// Looks at its context; `None` in an instance that failed.
    fn context<R>(&self, look: impl FnOnce(&mut OfStream) -> R) -> Option<R> {
        let mut instance = self.hosted.instance.try_borrow_mut().ok().filter(|instance| !instance.is_dead)?;
        instance.store.data_mut().contexts.stream(self.id).map(look)
    }

    pub(super) fn take_reply(&self) -> Option<Box<LocalReply>> {
        self.context(|stream| stream.reply.take()).flatten()
    }

    pub(super) fn wants(&self) -> Wants {
        self.context(|stream| stream.wants).unwrap_or_default()
    }

    /// Since the last callback that paused. Not in an instance that failed: what waits is then refused.
    pub(super) fn is_resumed(&self) -> bool {
        self.context(|stream| stream.resumed).unwrap_or(false)
    }

    /// `proxy_close_stream` was called.
    pub(super) fn is_closed(&self) -> bool {
        self.context(|stream| stream.closed).unwrap_or(false)
    }

    /// Another request has failed in the same instance.
    pub(super) fn is_lost(&self) -> bool {
        self.hosted.instance.try_borrow().is_ok_and(|instance| instance.is_dead)
    }

    /// A callback is about to say again whether the request waits.
    pub(super) fn begin_turn(&self) {
        self.context(|stream| stream.resumed = false);
    }

    /// Waits until a timer or a queue resumes, answers or closes it. `false`: nothing did.
    pub(super) async fn wake(&self) -> bool {
        let wake = self.context(|stream| stream.wake.get_or_insert_with(|| Arc::new(Notify::new())).clone());
        let Some(wake) = wake else { return false };
        tokio::time::timeout(LONGEST_PAUSE, wake.notified()).await.is_ok()
    }

    /// The request is over.
    pub(super) fn end(&mut self, request: Option<&mut Request>) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        self.calls = None;
        let wishes = {
            let Ok(mut instance) = self.hosted.instance.try_borrow_mut() else { return };
            match request {
                Some(request) => current::with_request(request, || instance.end_stream(self.id)),
                None => instance.end_stream(self.id),
            }
            instance.wishes()
        };
        timers::fulfil(&self.hosted, wishes);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end(None);
    }
}
