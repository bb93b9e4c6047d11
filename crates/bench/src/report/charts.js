// Draws the three charts, and draws them again when the page changes its width or the reader light and dark.
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const axis = (label, values) => ({
  label,
  stroke: color("ink"),
  grid: { stroke: color("line"), width: 1 },
  ticks: { stroke: color("line"), width: 1 },
  size: 60,
  values,
});
const line = (label, name, unit) => ({
  label,
  stroke: color(name),
  width: 1.5,
  points: { show: false },
  value: (_, value) => (value == null ? "-" : value.toLocaleString(undefined, { maximumSignificantDigits: 4 }) + unit),
});
const percentile = (beyond) => String(+(100 - 100 / beyond).toPrecision(beyond < 10 ? 3 : 2 + Math.ceil(Math.log10(beyond))));

// A vertical line at every moment that a finding marks.
const marks = {
  hooks: {
    draw: (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.strokeStyle = color("amber");
      ctx.setLineDash([4, 4]);
      for (const mark of data.marks) {
        const x = plot.valToPos(mark.at, "x", true);
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    },
  },
};

function chart(id, options, values) {
  const place = document.getElementById(id);
  place.textContent = "";
  new uPlot({ width: place.clientWidth, height: 300, cursor: { drag: { x: true, y: false } }, ...options }, values, place);
}

function draw() {
  const spectrum = [data.beyond, data.spectrum];
  const lines = [line(data.raw ? "corrected" : "latency", "blue", " ms")];
  if (data.raw) {
    spectrum.push(data.raw);
    lines.push(line("raw", "green", " ms"));
  }
  chart("spectrum", {
    scales: { x: { time: false, distr: 3, log: 10 }, y: { distr: 3, log: 10 } },
    axes: [axis("percentile", (_, ticks) => ticks.map((tick) => (tick == null ? "" : percentile(tick)))), axis("ms")],
    series: [{ label: "percentile", value: (_, value) => (value == null ? "-" : percentile(value)) }, ...lines],
  }, spectrum);
  const seconds = { label: "second", value: (_, value) => (value == null ? "-" : value.toFixed(1)) };
  chart("latency", {
    plugins: [marks],
    scales: { x: { time: false }, y: { distr: 3, log: 10 } },
    axes: [axis("seconds"), axis("ms")],
    series: [seconds, line("p50", "green", " ms"), line("p99", "blue", " ms"), line("max", "red", " ms")],
  }, [data.time, ...[data.p50, data.p99, data.max].map((all) => all.map((value) => value || null))]);
  chart("rate", {
    plugins: [marks],
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high || 1) * 1.05] } },
    axes: [axis("seconds"), axis("requests/s")],
    series: [seconds, line("requests/s", "blue", "/s"), line("errors/s", "red", "/s")],
  }, [data.time, data.rate, data.errors]);
}

draw();
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
