//! Asks sentinels where the master of a name, or a replica of it, is.

use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, RedisResult, aio::MultiplexedConnection,
};
use rustc_hash::FxHashMap;

pub(crate) struct Sentinel {
    pub addresses: Vec<(String, u16)>,
    pub(crate) master_name: String,
    /// A replica is wanted, not the master.
    pub(crate) replica: bool,
    pub login: RedisConnectionInfo,
    pub(crate) sentinel_login: RedisConnectionInfo,
}

fn info(host: &str, port: u16, login: &RedisConnectionInfo) -> RedisResult<ConnectionInfo> {
    let address = ConnectionAddr::Tcp(host.to_owned(), port);
    Ok(address.into_connection_info()?.set_redis_settings(login.clone()))
}

async fn connect(
    host: &str,
    port: u16,
    login: &RedisConnectionInfo,
    config: &AsyncConnectionConfig,
) -> RedisResult<MultiplexedConnection> {
    super::tls::connect(info(host, port, login)?, None, config.clone()).await
}

impl Sentinel {
    /// The first usable answer of a sentinel counts; when there is none, the last failure is returned.
    pub(super) async fn connect(&self, config: &AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
        let mut last = RedisError::from((ErrorKind::Client, "no sentinel is configured"));
        for (host, port) in &self.addresses {
            match self.ask(host, *port, config).await {
                Ok(nodes) => {
                    for (host, port) in nodes {
                        match connect(&host, port, &self.login, config).await {
                            Ok(connection) => return Ok(connection),
                            Err(error) => last = error,
                        }
                    }
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn ask(
        &self,
        host: &str,
        port: u16,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<Vec<(String, u16)>> {
        let mut sentinel = connect(host, port, &self.sentinel_login, config).await?;
        let mut command = redis::cmd("SENTINEL");
        if self.replica {
            command.arg("slaves").arg(&self.master_name);
            let replicas: Vec<Fields> = command.query_async(&mut sentinel).await?;
            return Ok(usable_replicas(&replicas));
        }
        command.arg("get-master-addr-by-name").arg(&self.master_name);
        let master: Option<(String, u16)> = command.query_async(&mut sentinel).await?;
        master.map(|address| vec![address]).ok_or_else(|| {
            RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "sentinel does not know the master"))
        })
    }
}

type Fields = FxHashMap<String, String>;

fn usable_replicas(replicas: &[Fields]) -> Vec<(String, u16)> {
    let down = |replica: &Fields| replica.get("flags").is_some_and(|flags| flags.contains("down"));
    replicas
        .iter()
        .filter(|replica| !down(replica))
        .filter_map(|replica| Some((replica.get("ip")?.clone(), replica.get("port")?.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_that_are_down_do_not_count() {
        let replica = |port: &str, flags: &str| {
            [("ip", "10.0.0.1"), ("port", port), ("flags", flags)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .collect()
        };
        let replicas = [replica("1", "s_down,slave"), replica("2", "slave"), replica("x", "slave")];
        assert_eq!(usable_replicas(&replicas), [("10.0.0.1".to_owned(), 2)]);
    }
}
