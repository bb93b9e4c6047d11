//! A route that is deleted in etcd and put again is another one, though its text is the same.

use serde_json::json;
use tidegate_testkit::{Etcd, Gateway, Upstream, eventually};

use super::{config, mock, status};

#[test]
fn a_route_made_again_has_an_empty_cache() {
    let (etcd, upstream) = (Etcd::start(), Upstream::start());
    let cache = json!({"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 60});
    let route = json!({"uri": "/kept", "create_time": 1_700_000_000, "plugins": {"proxy-cache": cache},
                       "upstream": {"nodes": {upstream.address.to_string(): 1}}});
    etcd.put("/apisix/routes/1", &route.to_string());
    // Two that share the store agree.
    let gateways = [(); 2].map(|()| Gateway::start(&config(&etcd.url()), None));
    let cached = |gateway: &Gateway| {
        let answer = gateway.client().get("h", "/kept").expect("an answer");
        answer.header("Apisix-Cache-Status").unwrap_or("none").to_owned()
    };
    for gateway in &gateways {
        assert_eq!([cached(gateway), cached(gateway)], ["MISS", "HIT"]);
    }
    etcd.put("/apisix/routes/1", &route.to_string());
    etcd.put("/apisix/routes/first", &mock("/first", 201));
    for gateway in &gateways {
        eventually("it is written again", || status(gateway, "/first") == 201);
        assert_eq!(cached(gateway), "HIT", "written again");
    }
    etcd.control(&["del", "/apisix/routes/1"]);
    etcd.put("/apisix/routes/1", &route.to_string());
    etcd.put("/apisix/routes/second", &mock("/second", 201));
    for gateway in &gateways {
        eventually("it is made again", || status(gateway, "/second") == 201);
        assert_eq!([cached(gateway), cached(gateway)], ["MISS", "HIT"], "made again");
    }
}
