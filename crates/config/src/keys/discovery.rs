//! `discovery`: the registries. Their fields are checked by the schemas of crate discovery.

use super::{
    key::Takes::*,
    key::{Key, key, unset},
};

const NO_ZONE: &str = "the data of a registry takes the memory it needs";

const ONE_TIME: &str = "the time to read begins when a request is sent";

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("discovery", FreeTable, "{}", "Registries that know the nodes of upstreams with a service_name.").secret(),
    unset("discovery.dns", FreeTable, "{\"servers\": [\"127.0.0.1:8600\"]}", "DNS servers to query for SRV, A and AAAA records."),
    unset("discovery.consul", FreeTable, "{\"servers\": [\"http://127.0.0.1:8500\"]}", "Services of Consul."),
    unset("discovery.consul.shared_size", Size, "\"64m\"", "Memory for the nodes.").no_effect(NO_ZONE),
    unset("discovery.consul_kv", FreeTable, "{\"servers\": [\"http://127.0.0.1:8500\"], \"prefix\": \"upstreams\"}", "Nodes in Consul's key-value store."),
    unset("discovery.nacos", FreeTable, "{\"host\": [\"http://127.0.0.1:8848\"]}", "Services of Nacos."),
    unset("discovery.nacos.timeout", FreeTable, "{\"connect\": 2000, \"read\": 5000}", "Milliseconds for a request."),
    unset("discovery.nacos.timeout.send", Free, "2000", "Milliseconds to send a request.").no_effect(ONE_TIME),
    unset("discovery.eureka", FreeTable, "{\"host\": [\"http://127.0.0.1:8761\"], \"prefix\": \"/eureka/\"}", "Services of Eureka."),
    unset("discovery.eureka.timeout", FreeTable, "{\"connect\": 2000, \"read\": 5000}", "Milliseconds for a request."),
    unset("discovery.eureka.timeout.send", Free, "2000", "Milliseconds to send a request.").no_effect(ONE_TIME),
    unset("discovery.kubernetes", AnyOf(&[FreeTable, List(&FreeTable)]), "{\"service\": {\"host\": \"kubernetes.default.svc\", \"port\": \"443\"}}",
        "Endpoints of Kubernetes: one cluster, or a list of clusters."),
    unset("discovery.kubernetes.shared_size", Size, "\"64m\"", "Memory for the nodes.").no_effect(NO_ZONE),
    unset("discovery.kubernetes[].shared_size", Size, "\"64m\"", "Memory for the nodes.").no_effect(NO_ZONE),
    unset("discovery.tars", FreeTable, "{\"db_conf\": {\"host\": \"127.0.0.1\"}}", "Services of Tars.")
        .refused("upstreams of this registry would have no nodes; the registries are dns, consul, consul_kv, nacos, eureka and kubernetes"),
];
