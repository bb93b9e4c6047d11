//! Which arguments of a command are keys, as Redis 7 says with COMMAND.

/// Of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// None, or not at places of their own.
    None,
    First,
    FirstTwo,
    All,
    AllButLast,
    /// Each second one.
    Pairs,
    FromSecond,
    Second,
    Third,
}

impl Keys {
    /// `command`: in lower case.
    pub(super) fn of(command: &[u8]) -> Keys {
        let Ok(command) = std::str::from_utf8(command) else { return Keys::First };
        match command {
            "acl" | "asking" | "auth" | "bgrewriteaof" | "bgsave" | "blmpop" | "bzmpop" | "client"
            | "cluster" | "command" | "config" | "dbsize" | "debug" | "discard" | "echo" | "eval"
            | "eval_ro" | "evalsha" | "evalsha_ro" | "exec" | "failover" | "fcall" | "fcall_ro"
            | "flushall" | "flushdb" | "function" | "hello" | "info" | "keys" | "lastsave" | "latency"
            | "lmpop" | "lolwut" | "memory" | "module" | "monitor" | "multi" | "object" | "pfselftest"
            | "ping" | "psubscribe" | "psync" | "publish" | "pubsub" | "punsubscribe" | "quit"
            | "randomkey" | "readonly" | "readwrite" | "replconf" | "replicaof" | "reset" | "role"
            | "save" | "scan" | "script" | "select" | "shutdown" | "sintercard" | "slaveof" | "slowlog"
            | "subscribe" | "swapdb" | "sync" | "time" | "unsubscribe" | "unwatch" | "wait" | "xgroup"
            | "xinfo" | "xread" | "xreadgroup" | "zdiff" | "zinter" | "zintercard" | "zmpop" | "zunion" => {
                Keys::None
            }
            "del" | "exists" | "mget" | "pfcount" | "pfmerge" | "sdiff" | "sdiffstore" | "sinter"
            | "sinterstore" | "ssubscribe" | "sunion" | "sunionstore" | "sunsubscribe" | "touch"
            | "unlink" | "watch" => Keys::All,
            "blpop" | "brpop" | "bzpopmax" | "bzpopmin" => Keys::AllButLast,
            "mset" | "msetnx" => Keys::Pairs,
            "blmove" | "brpoplpush" | "copy" | "geosearchstore" | "lcs" | "lmove" | "rename" | "renamenx"
            | "rpoplpush" | "smove" | "zrangestore" => Keys::FirstTwo,
            "bitop" => Keys::FromSecond,
            "pfdebug" => Keys::Second,
            "migrate" => Keys::Third,
            _ => Keys::First,
        }
    }

    /// `at`: of the argument, from 1; `count`: of the arguments.
    pub(super) fn has(self, at: u64, count: u64) -> bool {
        match self {
            Keys::None => false,
            Keys::First => at == 1,
            Keys::FirstTwo => at <= 2,
            Keys::All => true,
            Keys::AllButLast => at < count,
            Keys::Pairs => at % 2 == 1,
            Keys::FromSecond => at >= 2,
            Keys::Second => at == 2,
            Keys::Third => at == 3,
        }
    }
}
