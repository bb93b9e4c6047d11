//! How long a client may be silent, and take no byte of an answer.

use std::{io, time::Duration};

use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn in_time<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(PATIENCE, work).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}
