//! Lists of networks, one without the other.

use std::net::IpAddr;

use ipnet::IpNet;

fn read(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// The networks of `all` without those of `taken`; `None` if any of them is invalid.
pub(super) fn without(all: &[String], taken: &[String]) -> Option<Vec<String>> {
    let taken: Vec<IpNet> = taken.iter().map(|text| read(text)).collect::<Option<_>>()?;
    let mut left = Vec::new();
    for text in all {
        let mut parts = vec![read(text)?];
        for hole in &taken {
            parts = parts.into_iter().flat_map(|part| cut(part, hole)).collect();
        }
        left.extend(parts.iter().map(IpNet::to_string));
    }
    Some(left)
}

/// A network without another one: at most one part for each bit.
fn cut(network: IpNet, hole: &IpNet) -> Vec<IpNet> {
    let mut left = Vec::new();
    let mut rest = Some(network);
    while let Some(network) = rest.take() {
        if hole.contains(&network) {
            break;
        }
        if !network.contains(hole) {
            left.push(network);
            break;
        }
        let Ok(halves) = network.subnets(network.prefix_len() + 1) else { break };
        for half in halves {
            if half.contains(hole) {
                rest = Some(half);
            } else {
                left.push(half);
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_left_out() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let left = |all: &[&str], taken: &[&str]| without(&texts(all), &texts(taken));
        assert_eq!(left(&["10.0.0.0/30"], &["10.0.0.1"]), Some(texts(&["10.0.0.2/31", "10.0.0.0/32"])));
        assert_eq!(left(&["10.0.0.0/24"], &["10.0.0.0/8"]), Some(Vec::new()));
        assert_eq!(left(&["10.0.0.0/24"], &["11.0.0.0/8", "::1"]), Some(texts(&["10.0.0.0/24"])));
        assert_eq!(left(&["nonsense"], &["10.0.0.1"]), None);
    }
}
