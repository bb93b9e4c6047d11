// Charts over time: columns of one width, so that nothing is measured. What a column says stands above it, for the pointer and the arrow keys.
import { type JSX, type KeyboardEvent, type PointerEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { currentLanguage, t } from "../lib/i18n";
import { type Column, roundUp, usedBuckets } from "../lib/stats";
import { useTheme } from "../lib/theme";

/** A moment that is drawn over all columns. */
export interface Mark {
  at: number;
  text: string;
}

interface FrameProps {
  title: string;
  /** What a reader who does not see the picture is told. */
  summary: string;
  columns: Column[];
  top: string;
  bottom: string;
  /** What is said of a column. */
  say: (column: Column) => string;
  marks?: Mark[];
  /** Names of what is drawn in several colours. */
  legend?: { name: string; text: string }[];
  children: ReactNode;
}

const HEIGHT = 100;

export function Bars({ columns, parts, ...rest }: Omit<FrameProps, "children" | "top" | "bottom"> & { parts: { name: string; of: (column: Column) => number }[] }): JSX.Element {
  const most = roundUp(Math.max(0, ...columns.map((one) => parts.reduce((sum, part) => sum + part.of(one), 0))));
  const base = columns.map(() => 0);
  const paths = parts.map(({ name, of }) => {
    const path = columns.map((one, i) => {
      const from = base[i] ?? 0;
      const to = from + of(one);
      base[i] = to;
      return to > from ? `M${i} ${y(from, most)}V${Math.min(y(from, most) - 0.8, y(to, most))}h.9V${y(from, most)}z` : "";
    });
    return <path key={name} className={`chart-${name}`} d={path.join("")} />;
  });
  const gaps = columns.map((one, i) => (one.requests === null ? `M${i} 0h1v${HEIGHT}h-1z` : "")).join("");
  return (
    <Frame {...rest} columns={columns} top={most.toLocaleString(currentLanguage())} bottom="0">
      <svg viewBox={`0 0 ${columns.length} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true"><path className="chart-gap" d={gaps} />{paths}</svg>
    </Frame>
  );
}

const y = (value: number, most: number): number => Math.round((1 - value / most) * HEIGHT * 10) / 10;

export function Heat({ columns, bounds, ...rest }: Omit<FrameProps, "children" | "top" | "bottom"> & { bounds: number[] }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const [first, last] = usedBuckets(columns);
  const rows = Math.max(1, last - first + 1);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!canvas.current || !context) return;
    context.clearRect(0, 0, columns.length, rows);
    context.fillStyle = getComputedStyle(canvas.current).color;
    const most = Math.max(1, ...columns.flatMap((one) => one.latency));
    columns.forEach((one, x) => {
      for (let bucket = first; bucket <= last; bucket++) {
        const count = one.latency[bucket] ?? 0;
        if (count === 0) continue;
        // Few slow requests among many are what the picture is for.
        context.globalAlpha = 0.18 + 0.82 * (Math.log1p(count) / Math.log1p(most));
        context.fillRect(x, last - bucket, 1, 1);
      }
    });
  }, [columns, first, last, rows, theme]);
  const bound = (bucket: number) => (bounds[bucket] === undefined ? `> ${ms(bounds.at(-1) ?? 0)}` : `≤ ${ms(bounds[bucket] ?? 0)}`);
  return (
    <Frame {...rest} columns={columns} top={bound(last)} bottom={bound(first)}>
      <canvas ref={canvas} width={Math.max(1, columns.length)} height={rows} aria-hidden="true" />
    </Frame>
  );
}

export const ms = (value: number): string => (value >= 1000 ? `${(value / 1000).toLocaleString(currentLanguage())} s` : `${value.toLocaleString(currentLanguage())} ms`);

function Legend({ items }: { items: { name: string; text: string }[] }): JSX.Element | null {
  return items.length ? <span className="chart-legend">{items.map((one) => <span key={one.name}><i className={one.name} />{one.text}</span>)}</span> : null;
}

function Frame({ title, summary, columns, top, bottom, say, marks = [], legend = [], children }: FrameProps): JSX.Element {
  const [at, setAt] = useState<number | null>(null);
  const count = columns.length;
  const move = (event: PointerEvent<HTMLDivElement>) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    setAt(Math.min(count - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * count))));
  };
  const key = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -count, End: count }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setAt(Math.min(count - 1, Math.max(0, (at ?? count) + step)));
  };
  const column = at === null ? undefined : columns[at];
  const begin = columns[0]?.start ?? 0;
  const end = begin + columns.reduce((sum, one) => sum + one.seconds, 0);
  const within = marks.filter((mark) => mark.at >= begin && mark.at < end);
  const now = column ? `${clock(column.start, column.seconds)} · ${column.requests === null ? t("figures.away") : say(column)}` : summary;
  return (
    <figure className="chart">
      <figcaption><b>{title}<Legend items={[...legend, ...(columns.some((one) => one.requests === null) ? [{ name: "gap", text: t("figures.away") }] : []), ...(within.length ? [{ name: "mark", text: t("figures.mark") }] : [])]} /></b><span className="soft" data-testid="readout">{now}</span></figcaption>
      <div className="chart-scale soft" aria-hidden="true"><span>{top}</span><span>{bottom}</span></div>
      {/* A slider says which of the times is read out. */}
      <div
        className="chart-plot" role="slider" tabIndex={0} aria-label={title} aria-valuemin={0} aria-valuemax={Math.max(0, count - 1)} aria-valuenow={at ?? count - 1} aria-valuetext={now}
        onPointerMove={move} onPointerLeave={() => setAt(null)} onKeyDown={key} onBlur={() => setAt(null)}
      >
        {children}
        {within.map((mark, i) => <span key={i} className="chart-mark" title={mark.text} style={{ left: `${((mark.at - begin) / (end - begin)) * 100}%` }} />)}
        {at !== null && <span className="chart-at" style={{ left: `${((at + 0.45) / count) * 100}%` }} />}
      </div>
      <div className="chart-times soft" aria-hidden="true"><span>{clock(begin, 0)}</span><span>{clock(end, 0)}</span></div>
    </figure>
  );
}

function clock(unix: number, seconds: number): string {
  const day = Math.abs(Date.now() / 1000 - unix) > 43_200;
  return new Date(unix * 1000).toLocaleString(currentLanguage(), { weekday: day ? "short" : undefined, hour: "2-digit", minute: "2-digit", second: seconds > 0 && seconds < 60 ? "2-digit" : undefined, hour12: false });
}
