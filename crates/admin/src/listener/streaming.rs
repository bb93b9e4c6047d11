//! The body of an answer: whole, or piece by piece until its source, or the listener, ends.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{mpsc, watch};

use super::service::{Phase, closed};

pub(super) enum AnswerBody {
    Whole(Full<Bytes>),
    Pieces(mpsc::Receiver<Bytes>, Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl AnswerBody {
    /// A stream holds up neither an end of the process nor a handover.
    pub(super) fn pieces(pieces: mpsc::Receiver<Bytes>, mut phase: watch::Receiver<Phase>) -> AnswerBody {
        AnswerBody::Pieces(pieces, Box::pin(async move { closed(&mut phase).await }))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            AnswerBody::Whole(whole) => Pin::new(whole).poll_frame(context),
            AnswerBody::Pieces(pieces, end) => match end.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => {
                    pieces.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Whole(whole) => whole.is_end_stream(),
            AnswerBody::Pieces(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Whole(whole) => whole.size_hint(),
            AnswerBody::Pieces(..) => SizeHint::default(),
        }
    }
}
