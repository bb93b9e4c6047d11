//! Times as nginx writes them.

/// `5`, `5s`, `500ms`, `1m`.
pub(super) fn time(text: &str) -> Option<f64> {
    let units = [
        ("ms", 0.001),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
        ("d", 86_400.0),
        ("w", 604_800.0),
        ("M", 2_592_000.0),
        ("y", 31_536_000.0),
        ("", 1.0),
    ];
    units.iter().find_map(|(unit, factor)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor))
}
