"""Medians, percentiles, and the table."""

import random
import statistics


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def summary(latencies_us):
    """What a list of latencies says, tail counted as the 2021 jitter report counted it."""
    return {
        "p50_us": round(percentile(latencies_us, 0.5), 1),
        "p99_us": round(percentile(latencies_us, 0.99), 1),
        "p999_us": round(percentile(latencies_us, 0.999), 1),
        "max_us": round(max(latencies_us), 1),
        "over_5ms": sum(value > 5000 for value in latencies_us),
        "over_10ms": sum(value > 10000 for value in latencies_us),
    }


def median_of(rounds):
    """The median of each figure over rounds of {figure: number}."""
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def spread_percent(rounds, name):
    """Half the distance between smallest and largest round, in percent of the median."""
    values = [one[name] for one in rounds]
    middle = statistics.median(values)
    return 100 * (max(values) - min(values)) / 2 / middle if middle else 0.0


def interval(ratios, samples=10_000):
    """The middle 95 % of the medians of resampled rounds. The seed is fixed: the same rounds give the same interval."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(samples))
    return medians[int(samples * 0.025)], medians[int(samples * 0.975)]


HEADINGS = ["scenario", "figure", "nginx", "before", "tidegate", "/ nginx", "95 %", "/ before", "95 %", "target", ""]


def compared(scenario, figure, rounds, target=None, more_is_better=False):
    """A row of the table: medians of {who: values by round}, and the ratios of rounds to nginx and to the build before, if there is one."""
    row = [scenario, figure, *(shown(statistics.median(rounds[who])) if rounds.get(who) else "" for who in ("nginx", "before", "gateway"))]
    found = {}
    for peer in ("nginx", "before"):
        ratios = [own / other for own, other in zip(rounds["gateway"], rounds.get(peer, [])) if other]
        found[peer] = statistics.median(ratios) if ratios else None
        row += [f"{found[peer]:.3f}" if ratios else "", "{:.3f} to {:.3f}".format(*interval(ratios)) if len(ratios) > 1 else ""]
    if target is None or found["nginx"] is None:
        return [*row, "", ""]
    met = found["nginx"] >= target if more_is_better else found["nginx"] <= target
    return [*row, f"{'>=' if more_is_better else '<='}{target:.2f}", "ok" if met else "MISSED"]


def single(scenario, figure, peer, own, target=None, met=None):
    """A row of figures that were measured once, or that are not nginx's and ours."""
    ratio = own / peer if peer and peer > 0 else None
    if met is None and target is not None and ratio is not None:
        met = ratio <= target
    return [scenario, figure, shown(peer), "", shown(own), f"{ratio:.2f}" if ratio else "-", "", "", "",
            f"<={target:.2f}" if target is not None else "", "" if met is None else "ok" if met else "MISSED"]


def table(headings, rows):
    """Text columns: the first two left-aligned, the others right."""
    cells = [headings, *rows]
    widths = [max(len(str(row[column])) for row in cells) for column in range(len(headings))]
    lines = []
    for row in cells:
        aligned = [str(cell).ljust(width) if column < 2 else str(cell).rjust(width)
                   for column, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(aligned).rstrip())
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join(lines)


def shown(value):
    if value is None:
        return "-"
    if isinstance(value, float) and abs(value) < 100:
        return f"{value:.2f}"
    return f"{value:,.0f}"
