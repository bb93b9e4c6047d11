//! Contexts of one instance: of configurations, and of the requests under way. A number is used again once its context is gone, the
//! smallest first, as in APISIX.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc, time::Duration};

use bytes::Bytes;
use tidegate_plugin_api::Reply;
use tidegate_protocol::Head;
use tokio::sync::Notify;

/// Of one configuration.
pub(super) struct OfConf {
    /// Of the configuration; numbers of contexts are used again.
    pub serial: u64,
    /// What `proxy_get_buffer_bytes` gives for `PLUGIN_CONFIGURATION`.
    pub conf: Bytes,
    /// `proxy_set_tick_period_milliseconds`; `None`: no timer.
    pub tick: Option<Duration>,
    /// Counts changes of the period, by which a timer finds out that it is not the newest.
    pub ticks_set: u32,
}

/// Of one request.
#[derive(Default)]
pub(super) struct OfStream {
    /// The context of its configuration.
    pub parent: u32,
    /// `proxy_continue_stream` was called since it paused.
    pub resumed: bool,
    /// `proxy_close_stream` was called.
    pub closed: bool,
    /// `proxy_send_local_response`
    pub reply: Option<Box<LocalReply>>,
    /// Bodies are asked for, as in APISIX: `wasm_process_req_body` and `wasm_process_resp_body`.
    pub wants: Wants,
    /// Wakes the request that waits.
    pub wake: Option<Arc<Notify>>,
    /// `proxy_on_done` said that it is not done.
    pub lingers: bool,
}

/// An answer in the upstream's place.
#[derive(Clone, Default)]
pub(super) struct LocalReply {
    pub status: u16,
    pub headers: Head,
    pub body: Bytes,
}

impl LocalReply {
    /// As plugins answer. Without a body, it has none: no page of the status.
    pub(super) fn into_reply(self) -> Box<Reply> {
        Box::new(Reply { headers: self.headers, ..Reply::bytes(self.status, self.body) })
    }
}

/// Which bodies a stream asks for.
#[derive(Clone, Copy, Default)]
pub(super) struct Wants {
    pub request_body: bool,
    pub response_body: bool,
}

pub(super) enum Context {
    Conf(OfConf),
    Stream(OfStream),
}

#[derive(Default)]
pub(super) struct Contexts {
    slots: Vec<Option<Context>>,
    free: BinaryHeap<Reverse<u32>>,
}

impl Contexts {
    /// The number of a new context, from 1.
    pub(super) fn add(&mut self, context: Context) -> u32 {
        if let Some(Reverse(number)) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(number as usize - 1)
        {
            *slot = Some(context);
            return number;
        }
        self.slots.push(Some(context));
        self.slots.len() as u32
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Context> {
        let slot = self.slots.get_mut((number as usize).checked_sub(1)?)?;
        let removed = slot.take();
        if removed.is_some() {
            self.free.push(Reverse(number));
        }
        removed
    }

    pub(super) fn get(&mut self, number: u32) -> Option<&mut Context> {
        self.slots.get_mut((number as usize).checked_sub(1)?)?.as_mut()
    }

    pub(super) fn stream(&mut self, number: u32) -> Option<&mut OfStream> {
        match self.get(number)? {
            Context::Stream(stream) => Some(stream),
            Context::Conf(_) => None,
        }
    }

    pub(super) fn conf(&mut self, number: u32) -> Option<&mut OfConf> {
        match self.get(number)? {
            Context::Conf(conf) => Some(conf),
            Context::Stream(_) => None,
        }
    }

    /// The context of the configuration that a context belongs to.
    pub(super) fn root(&mut self, number: u32) -> Option<u32> {
        match self.get(number)? {
            Context::Conf(_) => Some(number),
            Context::Stream(stream) => Some(stream.parent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_free_number_is_next() {
        let mut contexts = Contexts::default();
        let add = |contexts: &mut Contexts| contexts.add(Context::Stream(OfStream::default()));
        assert_eq!([add(&mut contexts), add(&mut contexts), add(&mut contexts)], [1, 2, 3]);
        contexts.remove(2);
        contexts.remove(1);
        assert!(contexts.remove(1).is_none());
        assert_eq!([add(&mut contexts), add(&mut contexts), add(&mut contexts)], [1, 2, 4]);
        assert!(contexts.get(0).is_none());
    }
}
