//! From records to nodes.

use std::{net::IpAddr, time::Duration};

use hickory_resolver::{
    TokioResolver,
    net::{DnsError, NetError},
    proto::{
        op::ResponseCode,
        rr::{RData, Record, RecordType},
    },
};
use serde::Deserialize;
use tidegate_model::resources::Node;

use crate::known::MOST_NODES;

/// What is asked for, in this order, until there are records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Order {
    /// What the name had the last time.
    #[serde(rename = "last")]
    Last,
    #[serde(rename = "SRV")]
    Srv,
    A,
    #[serde(rename = "AAAA")]
    Aaaa,
    #[serde(rename = "CNAME")]
    Cname,
}

const DEFAULT: [Order; 5] = [Order::Last, Order::Srv, Order::A, Order::Aaaa, Order::Cname];

/// How long it holds that a name has no records.
const NOTHING: Duration = Duration::from_secs(2);

/// Names that point to names, so far.
const CHAIN: usize = 8;

pub(crate) struct Lookups {
    resolver: TokioResolver,
    order: Vec<Order>,
}

pub(super) struct ServiceRecords {
    pub nodes: Vec<Node>,
    pub valid_for: Duration,
}

struct Found {
    kind: Order,
    records: Vec<Record>,
}

impl Lookups {
    pub(super) fn new(resolver: TokioResolver, order: &[Order], ipv6: bool) -> Lookups {
        let order = if order.is_empty() { &DEFAULT } else { order };
        let order = order.iter().copied().filter(|kind| ipv6 || *kind != Order::Aaaa).collect();
        Lookups { resolver, order }
    }

    /// The nodes of `NAME` or `NAME:PORT`. No records mean no nodes; an error is not an answer.
    pub(super) async fn nodes(
        &self,
        service: &str,
        last: &mut Option<Order>,
    ) -> Result<ServiceRecords, String> {
        let (name, port) = match service.rsplit_once(':') {
            Some((name, port)) => match port.parse::<u16>() {
                Ok(port) => (name, Some(port)),
                Err(_) => return Err(format!("invalid port {port}")),
            },
            None => (service, None),
        };
        let Some(found) = self.find(name, *last).await? else {
            *last = None;
            return Ok(ServiceRecords { nodes: Vec::new(), valid_for: NOTHING });
        };
        *last = Some(found.kind);
        let mut ttl = shortest(&found.records);
        let nodes = match found.kind {
            Order::Srv => self.services(&found.records, port, &mut ttl).await?,
            _ => addresses(&found.records).map(|address| node(address, port, 1, 0)).collect(),
        };
        Ok(ServiceRecords { nodes, valid_for: Duration::from_secs(u64::from(ttl)) })
    }

    /// The first kind of records that there is.
    async fn find(&self, name: &str, last: Option<Order>) -> Result<Option<Found>, String> {
        let kinds =
            self.order.iter().filter_map(|kind| if *kind == Order::Last { last } else { Some(*kind) });
        let mut asked = Vec::new();
        for kind in kinds {
            if asked.contains(&kind) {
                continue;
            }
            asked.push(kind);
            let records = match kind {
                Order::Cname => self.through_alias(name).await?,
                _ => self.records(name, kind).await?,
            };
            if !records.is_empty() {
                // What an alias leads to are addresses.
                return Ok(Some(Found { kind, records }));
            }
        }
        Ok(None)
    }

    /// Name servers that do not follow aliases leave that to us.
    async fn through_alias(&self, name: &str) -> Result<Vec<Record>, String> {
        let mut name = name.to_owned();
        for _ in 0..CHAIN {
            let aliases = self.records(&name, Order::Cname).await?;
            let target = aliases.iter().find_map(|record| match &record.data {
                RData::CNAME(target) => Some(target.0.to_string()),
                _ => None,
            });
            let Some(target) = target else { return Ok(Vec::new()) };
            let records = self.address_records(&target).await?;
            if !records.is_empty() {
                return Ok(records);
            }
            name = target;
        }
        Ok(Vec::new())
    }

    async fn address_records(&self, name: &str) -> Result<Vec<Record>, String> {
        for kind in self.order.iter().filter(|kind| matches!(kind, Order::A | Order::Aaaa)) {
            let records = self.records(name, *kind).await?;
            if !records.is_empty() {
                return Ok(records);
            }
        }
        Ok(Vec::new())
    }

    /// None of them is an answer; an error is not.
    async fn records(&self, name: &str, kind: Order) -> Result<Vec<Record>, String> {
        let kind = match kind {
            Order::Srv => RecordType::SRV,
            Order::Aaaa => RecordType::AAAA,
            Order::Cname => RecordType::CNAME,
            Order::A | Order::Last => RecordType::A,
        };
        match self.resolver.lookup(name, kind).await {
            Ok(found) => {
                let records = found.answers().iter();
                Ok(records.filter(|record| record.record_type() == kind).cloned().collect())
            }
            Err(error) if says_no(&error) => Ok(Vec::new()),
            Err(error) => Err(format!("{kind} record of {name}: {error}")),
        }
    }

    /// Each target may have several addresses: they share its weight.
    async fn services(
        &self,
        records: &[Record],
        port: Option<u16>,
        ttl: &mut u32,
    ) -> Result<Vec<Node>, String> {
        let mut targets = Vec::new();
        // Each of thousands of records may lead to thousands of addresses.
        let mut room = MOST_NODES;
        for record in records {
            if room == 0 {
                break;
            }
            let RData::SRV(service) = &record.data else { continue };
            let records = self.address_records(&service.target.to_string()).await?;
            *ttl = (*ttl).min(shortest(&records));
            let found: Vec<IpAddr> = addresses(&records).take(room).collect();
            room -= found.len();
            if !found.is_empty() {
                targets.push((service, found));
            }
        }
        let shares = targets.iter().fold(1, |shares, (_, found)| common_multiple(shares, found.len() as u64));
        let mut nodes = Vec::new();
        for (service, found) in targets {
            // Zero is a very small chance (RFC 2782), not none.
            let weight = u64::from(service.weight.max(1)) * (shares / found.len() as u64);
            let weight = u32::try_from(weight).unwrap_or(u32::MAX);
            let port = port.or((service.port != 0).then_some(service.port));
            let priority = -i32::from(service.priority);
            nodes.extend(found.into_iter().map(|address| node(address, port, weight, priority)));
        }
        // Servers rotate their answers; that is not a change.
        nodes.sort_by(|a, b| (b.priority, &a.host, a.port).cmp(&(a.priority, &b.host, b.port)));
        Ok(nodes)
    }
}

/// The server answered that there is nothing, as opposed to not answering.
fn says_no(error: &NetError) -> bool {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            matches!(none.response_code, ResponseCode::NoError | ResponseCode::NXDomain)
        }
        _ => false,
    }
}

fn shortest(records: &[Record]) -> u32 {
    records.iter().map(|record| record.ttl).min().unwrap_or(u32::MAX)
}

fn addresses(records: &[Record]) -> impl Iterator<Item = IpAddr> {
    let mut found: Vec<IpAddr> = records
        .iter()
        .filter_map(|record| match &record.data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        })
        .take(MOST_NODES)
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter()
}

fn node(address: IpAddr, port: Option<u16>, weight: u32, priority: i32) -> Node {
    let host = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    Node { host, port, weight, max_conn: None, priority, metadata: None }
}

fn common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    // Beyond this, weights no longer divide evenly; the difference is not noticeable.
    a.checked_div(x).and_then(|part| part.checked_mul(b)).filter(|it| *it <= 1 << 16).unwrap_or(a.max(b))
}
