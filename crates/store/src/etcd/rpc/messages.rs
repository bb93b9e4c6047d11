//! Messages of etcd's interface version 3, with the fields that the store uses.
//!
//! Field numbers are etcd's. Fields that are absent here are skipped when they are received and have etcd's default
//! when they are sent.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub revision: i64,
    #[prost(uint64, tag = "4")]
    pub(crate) raft_term: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(crate) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// 0: the newest.
    #[prost(int64, tag = "4")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// 0: none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
    #[prost(bool, tag = "4")]
    pub(crate) prev_kv: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, optional, tag = "2")]
    pub(crate) prev_kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub(crate) prev_kv: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeResponse {
    #[prost(message, repeated, tag = "3")]
    pub(crate) prev_kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    #[prost(enumeration = "Comparison", tag = "1")]
    pub result: i32,
    #[prost(enumeration = "Target", tag = "2")]
    pub target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(oneof = "Compared", tags = "4, 6")]
    pub compared: Option<Compared>,
    /// Empty: the key alone.
    #[prost(bytes = "vec", tag = "64")]
    pub(crate) range_end: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Comparison {
    Equal = 0,
    Greater = 1,
    Less = 2,
    NotEqual = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Target {
    Version = 0,
    Create = 1,
    Modified = 2,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum Compared {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "6")]
    Modified(i64),
}

impl Compare {
    /// The key has never been written, or is deleted.
    pub(crate) fn absent(key: &str) -> Self {
        Self {
            result: Comparison::Equal.into(),
            target: Target::Version.into(),
            key: key.into(),
            compared: Some(Compared::Version(0)),
            range_end: Vec::new(),
        }
    }

    /// The key was last written with this revision.
    pub(crate) fn modified_at(key: &str, revision: i64) -> Self {
        Self {
            result: Comparison::Equal.into(),
            target: Target::Modified.into(),
            key: key.into(),
            compared: Some(Compared::Modified(revision)),
            range_end: Vec::new(),
        }
    }

    /// No key of the directory, `PREFIX/routes/`, was written with this revision or a later one.
    pub(crate) fn all_modified_before(directory: &str, revision: i64) -> Self {
        let mut range_end = directory.trim_end_matches('/').as_bytes().to_vec();
        // The key after the last: '0' follows '/'.
        range_end.push(b'0');
        Self {
            result: Comparison::Less.into(),
            target: Target::Modified.into(),
            key: directory.into(),
            compared: Some(Compared::Modified(revision)),
            range_end,
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "Operation", tags = "2, 3")]
    pub operation: Option<Operation>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Operation {
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

impl From<PutRequest> for RequestOp {
    fn from(put: PutRequest) -> Self {
        Self { operation: Some(Operation::Put(put)) }
    }
}

impl From<DeleteRangeRequest> for RequestOp {
    fn from(delete: DeleteRangeRequest) -> Self {
        Self { operation: Some(Operation::Delete(delete)) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(oneof = "Outcome", tags = "2, 3")]
    pub outcome: Option<Outcome>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Outcome {
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeResponse),
}

/// All of `success` is done if all of `compare` holds, and nothing otherwise.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub ttl: i64,
    /// 0: etcd chooses.
    #[prost(int64, tag = "2")]
    pub id: i64,
}

/// The request and the answer of `LeaseKeepAlive`. A time of 0: the lease is gone.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LeaseKeepAlive {
    #[prost(int64, tag = "2")]
    pub id: i64,
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub token: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(oneof = "watch_request::Wanted", tags = "1, 3")]
    pub wanted: Option<watch_request::Wanted>,
}

pub(crate) mod watch_request {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Wanted {
        #[prost(message, tag = "1")]
        Create(super::WatchCreateRequest),
        #[prost(message, tag = "3")]
        Progress(super::WatchProgressRequest),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) start_revision: i64,
    #[prost(bool, tag = "4")]
    pub(crate) progress_notify: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WatchProgressRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bool, tag = "3")]
    pub created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(crate) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// The kind of event is left out: a deletion shows its key with version 0.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}
