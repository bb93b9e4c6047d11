//! Plugins that wait for an answer which is of use to one client alone.

use std::{future::poll_fn, pin::pin, task::Poll};

use tidegate_plugin_api::{BodyError, step::Verdict};

use crate::{
    client::Downstream,
    phases::{forget_asking, is_asking},
};

/// Runs plugins of a phase, and ends with them where one waits for the answer to a question and the client has left.
pub(crate) async fn while_client_waits(
    client: &Downstream,
    plugins: impl Future<Output = Verdict>,
) -> Verdict {
    let mut plugins = pin!(plugins);
    poll_fn(|context| {
        forget_asking();
        match plugins.as_mut().poll(context) {
            Poll::Pending if is_asking() && client.poll_gone(context).is_ready() => {
                client.gone.set(true);
                Poll::Ready(Err(BodyError::Closed.into()))
            }
            polled => polled,
        }
    })
    .await
}
