//! Black-box tests: the built binary as a process, raw sockets on both sides. One test binary.
//!
//! In folders as the docs are: [`protocols`], [`config`], [`plugins`], [`operations`], [`tools`]. [`tidy`] reads the sources
//! instead of running anything.

mod config;
mod operations;
mod plugins;
mod protocols;
mod tidy;
mod tools;
