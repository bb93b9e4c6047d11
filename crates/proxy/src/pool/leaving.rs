//! Closes a client's pooled connections when the client leaves.

use tidegate_plugin_api::connection::ConnectionInfo;

use crate::{stream::Stream, worker::Worker};

/// Keeps an idle connection for the client whose address it began with.
pub(crate) fn keep(
    worker: &'static Worker,
    client: &ConnectionInfo,
    place: (u32, Box<[u8]>),
    stream: (Stream, u32),
    times_ms: (u64, u64),
    size: usize,
) {
    close_at_end(worker, client);
    worker.own_pool.put(client.id, place, stream, times_ms, size);
}

/// Closes this client's pooled connections when it leaves.
pub(crate) fn close_at_end(worker: &'static Worker, client: &ConnectionInfo) {
    client.drop_at_end(|| Box::new(Leaving { worker, client: client.id }));
}

/// Dropped with the last reference to the client's connection: no request of it can follow.
struct Leaving {
    worker: &'static Worker,
    client: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.worker.own_pool.forget(self.client);
        self.worker.http2_pool.forget(self.client);
    }
}
