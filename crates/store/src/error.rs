//! Why a store cannot do what the caller requests.

/// Why an operation has no result; texts are for the Admin API's answer and the log.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A conditional write met another revision.
    #[error("value changed before overwritten")]
    Conflict,
    /// A file, or a copy that is served in place of a damaged store.
    #[error("this configuration provider is read-only")]
    ReadOnly,
    /// The provider has no such thing; says what and what to do instead.
    #[error("{0}")]
    Unsupported(&'static str),
    /// It did not work now: the disk or etcd failed, with the reason.
    #[error("{0}")]
    Unavailable(String),
    /// What is on the disk is not what was acknowledged, or is not there; says what was found and what to do.
    #[error("{0}")]
    Damaged(String),
    /// Nothing was written; writes work again soon.
    #[error("the configuration is being handed over to a new process; try again in a second")]
    HandedOver,
}
