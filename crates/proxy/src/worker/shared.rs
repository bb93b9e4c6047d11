//! What the connections of one worker share.

use std::ops::Deref;

use crate::{
    exchange::Crowded,
    http2::pool::Http2Pool,
    layer4::{parking::Parking, pipes::Pipes, unanswered::Unanswered},
    pool::{Pool, own::OwnPool},
    runtime::Runtime,
};

/// Lives as long as the process.
pub(crate) struct Worker {
    pub runtime: Runtime,
    pub pool: Pool,
    pub(crate) own_pool: OwnPool,
    pub(crate) http2_pool: Http2Pool,
    pub(crate) crowded: Crowded,
    pub(crate) unanswered: Unanswered,
    pub(crate) pipes: Pipes,
    pub(crate) parking: Parking,
}

impl Worker {
    pub(crate) fn new(runtime: Runtime) -> Worker {
        Worker {
            runtime,
            pool: Pool::default(),
            own_pool: OwnPool::default(),
            http2_pool: Http2Pool::default(),
            crowded: Crowded::default(),
            unanswered: Unanswered::default(),
            pipes: Pipes::default(),
            parking: Parking::default(),
        }
    }
}

impl Deref for Worker {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}
