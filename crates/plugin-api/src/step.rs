//! The result of a plugin's phase.

use std::{future::Future, pin::Pin};

use bytes::Bytes;

use crate::Reply;

/// `Ok`: continue. `Err`: answer the client with this. So `?` ends a request.
pub type Verdict = Result<(), Box<Reply>>;

/// What a phase answers.
pub enum Step<'a> {
    /// The next plugin's turn.
    Next,
    /// Ends the request with this answer; header and body filters still run.
    Reply(Box<Reply>),
    /// Only plugins that wait for something allocate.
    Wait(Pin<Box<dyn Future<Output = Verdict> + 'a>>),
    /// The same for what is asked for this client alone: it is left when the client leaves. In the phases before the
    /// upstream is asked.
    Ask(Pin<Box<dyn Future<Output = Verdict> + 'a>>),
}

/// See [`crate::Plugin::whole_body`].
pub type WholeBody<'a> = Pin<Box<dyn Future<Output = Result<Bytes, u16>> + 'a>>;

impl<'a> Step<'a> {
    /// Asks to be waited for; allocates once.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tidegate_plugin_api::{Reply, Step};
    ///
    /// /// Refuses after a pause.
    /// fn refuse_late<'a>(pause: Duration) -> Step<'a> {
    ///     Step::wait(async move {
    ///         tokio::time::sleep(pause).await;
    ///         Err(Box::new(Reply::page(429)))
    ///     })
    /// }
    ///
    /// assert!(matches!(refuse_late(Duration::from_millis(1)), Step::Wait(_)));
    /// ```
    pub fn wait(future: impl Future<Output = Verdict> + 'a) -> Step<'a> {
        Step::Wait(Box::pin(future))
    }

    /// Asks to be waited for as long as the client does; allocates once.
    pub fn ask(future: impl Future<Output = Verdict> + 'a) -> Step<'a> {
        Step::Ask(Box::pin(future))
    }

    /// Ends the request with this answer.
    pub fn reply(reply: Reply) -> Step<'a> {
        Step::Reply(Box::new(reply))
    }
}

/// A phase that only checks can use `?`:
///
/// ```
/// use tidegate_plugin_api::{Reply, Step, step::Verdict};
///
/// fn require(is_known: bool) -> Verdict {
///     is_known.then_some(()).ok_or_else(|| Box::new(Reply::page(403)))
/// }
///
/// assert!(matches!(Step::from(require(true)), Step::Next));
/// assert!(matches!(Step::from(require(false)), Step::Reply(reply) if reply.status == 403));
/// ```
impl From<Verdict> for Step<'_> {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Ok(()) => Step::Next,
            Err(reply) => Step::Reply(reply),
        }
    }
}
