//! Replaces the Redis client in a build without it.

#![allow(missing_docs, reason = "documented where the feature is on")]

use std::{fmt, time::Duration};

use serde_json::Value;
use tidegate_model::catalog::built_without;

#[derive(Clone)]
pub struct RedisClient(());

impl RedisClient {
    /// `None` when `policy` does not use Redis.
    pub fn from_conf(policy: &str, _: &Value) -> Result<Option<RedisClient>, String> {
        match policy {
            "redis" | "redis-cluster" | "redis-sentinel" => Err(built_without("redis")),
            _ => Ok(None),
        }
    }

    pub fn single(_: &Value, _: Option<&str>, _: Duration) -> Result<RedisClient, String> {
        Err(built_without("redis"))
    }

    pub async fn eval<T>(&self, _: &Script, _: &[u8], _: &[Argument<'_>]) -> Result<T, Failure> {
        Err(Failure)
    }

    pub async fn command<T>(&self, _: &Cmd) -> Result<T, Failure> {
        Err(Failure)
    }
}

pub enum Argument<'a> {
    Number(f64),
    Text(&'a [u8]),
}

pub struct Script;

impl Script {
    pub fn new(_: &str) -> Script {
        Script
    }
}

#[derive(Default)]
pub struct Cmd;

impl Cmd {
    pub fn new() -> Cmd {
        Cmd
    }

    pub fn arg<T>(&mut self, _: T) -> &mut Cmd {
        self
    }
}

pub fn cmd(_: &str) -> Cmd {
    Cmd
}

#[derive(Debug)]
pub struct Failure;

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&built_without("redis"))
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        failure.to_string()
    }
}
