//! Black-box tests: the built binary as a process, raw sockets on both sides. One test binary.
//!
//! In folders as the docs are: [`protocols`], [`config`], [`plugins`], [`operations`], [`tools`]. [`pages`] runs the blocks of the docs. [`tidy`] reads the sources
//! instead of running anything.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests show what they measured")]

mod config;
mod operations;
mod pages;
mod plugins;
mod protocols;
mod tidy;
mod tools;
