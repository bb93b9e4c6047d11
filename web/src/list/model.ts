// Searching, filtering and sorting the objects of a list. It runs in a worker: with 50,000 objects a keystroke looks at
// 50,000 texts, which must not hold up the page.
import type { Entry, Json } from "../lib/api";
import { idOfKey, type Kind, labelsOf, pluginsOf } from "../lib/kinds";

export interface Row {
  id: string;
  object: Json;
}

export interface Filters {
  search: string;
  label: string;
  plugin: string;
  /** A name of a column; `-name` descends. */
  sort: string;
}

interface Indexed extends Row {
  text: string;
  labels: string[];
  plugins: string[];
}

export interface Facets {
  labels: string[];
  plugins: string[];
}

const MOST_FACETS = 200;

export class List {
  private rows: Indexed[] = [];
  private sorted = new Map<string, Indexed[]>();
  private found: { of: string; rows: Indexed[] } | null = null;

  constructor(
    private readonly kind: Kind,
    private readonly collection: string[],
  ) {}

  get size(): number {
    return this.rows.length;
  }

  replace(entries: Entry[]): void {
    this.rows = entries.map((entry) => this.index(entry));
    this.sorted.clear();
    this.found = null;
  }

  private index({ key, value }: Entry): Indexed {
    const id = idOfKey(key, this.collection);
    const labels = labelsOf(value);
    const plugins = pluginsOf(value);
    const columns = this.kind.columns.map((column) => column.value(value, id));
    return { id, object: value, labels, plugins, text: [id, ...columns].join("\n").toLowerCase() };
  }

  facets(): Facets {
    const of = (values: (row: Indexed) => string[]) => [...new Set(this.rows.flatMap(values))].sort().slice(0, MOST_FACETS);
    return { labels: of((row) => row.labels), plugins: of((row) => row.plugins) };
  }

  /** The rows from `from` to `to` of those that `filters` leave, and how many these are. */
  view(filters: Filters, from: number, to: number): { count: number; rows: Row[] } {
    const rows = this.matching(filters);
    return { count: rows.length, rows: rows.slice(from, to).map(({ id, object }) => ({ id, object })) };
  }

  private matching(filters: Filters): Indexed[] {
    const of = JSON.stringify(filters);
    if (this.found?.of === of) return this.found.rows;
    const words = filters.search.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = this.inOrder(filters.sort).filter(
      (row) =>
        words.every((word) => row.text.includes(word)) &&
        (!filters.label || row.labels.some((label) => label === filters.label || label.startsWith(`${filters.label}:`))) &&
        (!filters.plugin || row.plugins.includes(filters.plugin)),
    );
    this.found = { of, rows };
    return rows;
  }

  private inOrder(sort: string): Indexed[] {
    const known = this.sorted.get(sort);
    if (known) return known;
    const column = this.kind.columns.find((one) => one.name === sort.replace(/^-/, ""));
    // Pages and whole lists come in different orders.
    if (!column) return this.kept(sort, [...this.rows].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)));
    const direction = sort.startsWith("-") ? -1 : 1;
    const keyed = this.rows.map((row) => ({ row, key: column.value(row.object, row.id).toLowerCase(), number: Number(column.value(row.object, row.id)) }));
    keyed.sort((a, b) => direction * (column.number ? a.number - b.number : a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    return this.kept(sort, keyed.map(({ row }) => row));
  }

  private kept(sort: string, rows: Indexed[]): Indexed[] {
    this.sorted.set(sort, rows);
    return rows;
  }
}
