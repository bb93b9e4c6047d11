//! Which route a request belongs to: APISIX's three routers and the expressions of `vars`.
//!
//! Everything is prepared when the configuration changes; a lookup reads, compares and allocates nothing.
//! There is no I/O and no knowledge of HTTP messages here: the request is seen through
//! [`Variables`] and [`MatchInput`].

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod address;
pub mod expr;
pub mod router;

pub use address::AddressSet;
pub use expr::{Expression, Variables, operand::Operand};
pub use router::{
    HostPattern, Methods, RouteSpec, Router,
    lookup::{Match, MatchInput, Mode},
};
