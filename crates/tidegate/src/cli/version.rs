//! `tidegate version`: which program this is. The number comes first and alone, for scripts.

use super::stdout;

/// Each cargo feature of the program, and whether it is in.
const FEATURES: [(&str, bool); 8] = [
    ("lua", cfg!(feature = "lua")),
    ("grpc-transcode", cfg!(feature = "grpc-transcode")),
    ("kubernetes", cfg!(feature = "kubernetes")),
    ("etcd", cfg!(feature = "etcd")),
    ("redis", cfg!(feature = "redis")),
    ("bench", cfg!(feature = "bench")),
    ("import", cfg!(feature = "import")),
    ("wasm", tidegate_wasm::IS_BUILT_IN),
];

pub(super) fn run() -> anyhow::Result<()> {
    let (commit, date) = match env!("TIDEGATE_COMMIT").split_once(' ') {
        Some((commit, date)) => (commit, date),
        None if env!("TIDEGATE_BUILD_PROFILE") == "debug" => ("not recorded in debug builds", "-"),
        None => ("unknown: not built from a git checkout", "-"),
    };
    let names = |wanted: bool| {
        let names = FEATURES.iter().filter(|(_, is_in)| *is_in == wanted).map(|(name, _)| *name);
        let names: Vec<&str> = names.collect();
        if names.is_empty() { "-".to_owned() } else { names.join(", ") }
    };
    stdout::line(env!("CARGO_PKG_VERSION"));
    stdout::line(&format!("commit    {commit}"));
    stdout::line(&format!("date      {date}"));
    stdout::line(&format!("profile   {}", env!("TIDEGATE_BUILD_PROFILE")));
    stdout::line(&format!("features  {}", names(true)));
    stdout::line(&format!("without   {}", names(false)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_listed() {
        let manifest = include_str!("../../Cargo.toml");
        let section = manifest
            .split_once("\n[features]\n")
            .and_then(|(_, rest)| rest.split("\n\n").next())
            .unwrap_or_default();
        let names =
            section.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
        let listed: Vec<&str> = names.map(|(name, _)| name).filter(|name| *name != "default").collect();
        assert_eq!(listed, FEATURES.map(|(name, _)| name));
    }
}
