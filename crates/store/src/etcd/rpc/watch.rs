//! A watch: requests go out and answers come in over one stream.

use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use super::{
    Client, WATCH,
    messages::{
        WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse, watch_request::Wanted,
    },
};

/// Requests that wait to be sent. One creates the watch, the others ask for a sign of life while a write is under way.
const WAITING_REQUESTS: usize = 16;

pub(crate) struct Watch {
    requests: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
}

impl Client {
    pub(crate) async fn watch(&self, request: WatchCreateRequest) -> Result<Watch, Status> {
        self.with_token(|| self.open_watch(request.clone())).await
    }

    async fn open_watch(&self, request: WatchCreateRequest) -> Result<Watch, Status> {
        let (requests, waiting) = mpsc::channel(WAITING_REQUESTS);
        let create = WatchRequest { wanted: Some(Wanted::Create(request)) };
        requests.try_send(create).map_err(|_| Status::internal("the watch cannot be requested"))?;
        let mut grpc = self.ready().await?;
        let request = self.request(&WATCH, ReceiverStream::new(waiting));
        let path = PathAndQuery::from_static(WATCH.path);
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let answers = grpc.streaming(request, path, codec).await?.into_inner();
        Ok(Watch { requests, answers })
    }
}

impl Watch {
    /// The next answer; `None` when the stream has ended.
    pub(crate) async fn message(&mut self) -> Result<Option<WatchResponse>, Status> {
        self.answers.message().await
    }

    /// Asks for an answer without events. etcd answers it when all events before have been sent.
    pub(crate) async fn request_progress(&self) -> Result<(), Status> {
        let request = WatchRequest { wanted: Some(Wanted::Progress(WatchProgressRequest {})) };
        self.requests.send(request).await.map_err(|_| Status::unavailable("the watch was closed"))
    }
}
