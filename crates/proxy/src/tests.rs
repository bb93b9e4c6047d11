//! The request path below the binary: a worker on the test's thread, whose clients and nodes are the test.
//!
//! A client is one end of a pair of sockets, a node a listening socket, and the worker's clock moves when the test says so:
//! what depends on the order of events, or on a time limit, happens in exactly that order and at exactly that time.

mod answers;
mod counted;
mod early;
mod framing;
mod peer;
mod retries;
mod stage;
mod times;
mod tunnels;

use peer::Peer;
use stage::{Stage, play};
