//! The few calls of etcd's gRPC interface that the store needs, with logging in and renewing tokens.
//!
//! etcd asks for a token in the field `token`, and with `hasleader` it refuses a call instead of answering it from a
//! member that has lost the cluster. A token that has expired is renewed once and the call repeated; calls that meet
//! the same expired token log in once between them.

pub(super) mod messages;
mod watch;

use std::sync::{Arc, PoisonError, RwLock};

use http::uri::PathAndQuery;
use prost::Message;
use tonic::{
    Code, GrpcMethod, Request, Status,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use tonic_prost::ProstCodec;

use self::messages::{
    AuthenticateRequest, AuthenticateResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAlive,
    PutRequest, PutResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse,
};
pub(super) use self::watch::Watch;

/// Most that one answer may hold.
const MAX_ANSWER_BYTES: usize = 1 << 30;

/// etcd's answer to an expired token where the code of the status got lost on the way.
const INVALID_TOKEN: &str = "etcdserver: invalid auth token";

type Token = MetadataValue<Ascii>;

/// Where a call goes: its service and its method.
struct Call {
    service: &'static str,
    method: &'static str,
    path: &'static str,
}

macro_rules! call {
    ($service:literal, $method:literal) => {
        Call {
            service: concat!("etcdserverpb.", $service),
            method: $method,
            path: concat!("/etcdserverpb.", $service, "/", $method),
        }
    };
}

const AUTHENTICATE: Call = call!("Auth", "Authenticate");
const RANGE: Call = call!("KV", "Range");
const PUT: Call = call!("KV", "Put");
const TXN: Call = call!("KV", "Txn");
const GRANT: Call = call!("Lease", "LeaseGrant");
const KEEP_ALIVE: Call = call!("Lease", "LeaseKeepAlive");
const STATUS: Call = call!("Maintenance", "Status");
const WATCH: Call = call!("Watch", "Watch");

/// A connection to one member. Clones share the connection and the token.
#[derive(Clone)]
pub(super) struct Client {
    channel: Channel,
    login: Arc<Login>,
}

struct Login {
    user: Option<(String, String)>,
    token: RwLock<Option<Token>>,
    renewal: tokio::sync::Mutex<()>,
}

impl Client {
    /// Logs in if there is a user.
    pub(super) async fn login(channel: Channel, user: Option<(String, String)>) -> Result<Self, Status> {
        let login = Login { user, token: RwLock::new(None), renewal: tokio::sync::Mutex::new(()) };
        let client = Self { channel, login: Arc::new(login) };
        client.renew_token().await?;
        Ok(client)
    }

    /// Logs in again: for a token that etcd no longer takes.
    pub(crate) async fn renew_token(&self) -> Result<(), Status> {
        let Some((name, password)) = self.login.user.clone() else { return Ok(()) };
        let request = AuthenticateRequest { name, password };
        let answer: AuthenticateResponse = self.send(&AUTHENTICATE, request).await?;
        let token = answer.token.parse().map_err(|_| Status::internal("etcd answered an invalid token"))?;
        *self.login.token.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
        Ok(())
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.with_token(|| self.send(&RANGE, request.clone())).await
    }

    pub(super) async fn put(&self, request: PutRequest) -> Result<PutResponse, Status> {
        self.with_token(|| self.send(&PUT, request.clone())).await
    }

    pub(crate) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.with_token(|| self.send(&TXN, request.clone())).await
    }

    pub(super) async fn grant(&self, seconds: i64) -> Result<LeaseGrantResponse, Status> {
        self.with_token(|| self.send(&GRANT, LeaseGrantRequest { ttl: seconds, id: 0 })).await
    }

    /// Renews a lease: the seconds it has from now on, 0 where it is gone.
    pub(super) async fn keep_alive(&self, lease: i64) -> Result<i64, Status> {
        self.with_token(|| self.renew_lease(lease)).await
    }

    async fn renew_lease(&self, lease: i64) -> Result<i64, Status> {
        let mut grpc = self.ready().await?;
        let request = self.request(&KEEP_ALIVE, tokio_stream::once(LeaseKeepAlive { id: lease, ttl: 0 }));
        let path = PathAndQuery::from_static(KEEP_ALIVE.path);
        let codec = ProstCodec::<LeaseKeepAlive, LeaseKeepAlive>::default();
        let mut answers = grpc.streaming(request, path, codec).await?.into_inner();
        Ok(answers.message().await?.map_or(0, |answer| answer.ttl))
    }

    /// The version of the member.
    pub(super) async fn version(&self) -> Result<String, Status> {
        let answer: StatusResponse = self.with_token(|| self.send(&STATUS, StatusRequest {})).await?;
        Ok(answer.version)
    }

    /// Makes a call, and once more with another token where the one it had has expired.
    async fn with_token<T, C>(&self, call: impl Fn() -> C) -> Result<T, Status>
    where
        C: Future<Output = Result<T, Status>>,
    {
        let used = self.token();
        match call().await {
            Err(status) if self.login.user.is_some() && is_expired(&status) => {
                let renewal = self.login.renewal.lock().await;
                // Another call may have renewed it meanwhile.
                if self.token() == used {
                    self.renew_token().await?;
                }
                drop(renewal);
                call().await
            }
            answer => answer,
        }
    }

    async fn send<Q, A>(&self, call: &Call, message: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let request = self.request(call, message);
        let path = PathAndQuery::from_static(call.path);
        Ok(grpc.unary(request, path, ProstCodec::<Q, A>::default()).await?.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
        grpc.ready().await.map_err(|error| Status::unknown(format!("not connected: {error}")))?;
        Ok(grpc)
    }

    fn request<T>(&self, call: &Call, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.extensions_mut().insert(GrpcMethod::new(call.service, call.method));
        let fields = request.metadata_mut();
        fields.insert("hasleader", Token::from_static("true"));
        if call.path != AUTHENTICATE.path
            && let Some(token) = self.token()
        {
            fields.insert("token", token);
        }
        request
    }

    fn token(&self) -> Option<Token> {
        self.login.token.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn is_expired(status: &Status) -> bool {
    match status.code() {
        Code::Unauthenticated => true,
        Code::Unknown => status.message() == INVALID_TOKEN,
        _ => false,
    }
}
