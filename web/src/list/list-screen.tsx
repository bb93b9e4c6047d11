// A list of objects. Search, filters, order, columns and the open row are in the address.
import { type JSX, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { t } from "../lib/i18n";
import { useKeys } from "../lib/keys";
import type { Column, Kind, Where } from "../lib/kinds";
import { address, navigate, setQuery, usePlace } from "../lib/router";
import { useMayChange } from "../lib/session";
import { useRevision } from "../lib/status";
import { remove } from "../object/changes";
import { Empty, Failure, Header, Link, Skeleton } from "../ui/basics";
import { Icon } from "../ui/icons";
import { MenuButton } from "../ui/menu";
import type { Filters } from "./model";
import { Peek } from "./peek";
import { Table } from "./table";
import { useList, type Window } from "./use-list";

export function ListScreen({ where }: { where: Where }): JSX.Element {
  const { kind, collection } = where;
  const { query } = usePlace();
  const typed = query.get("q") ?? "";
  const filters: Filters = { search: useDeferredValue(typed), label: query.get("label") ?? "", plugin: query.get("plugin") ?? "", sort: query.get("sort") ?? "" };
  const [window, setWindow] = useState<Window>({ from: 0, to: 60 });
  const revision = useRevision().data?.stored;
  const list = useList(kind.name, collection, filters, window, revision);
  const columns = useColumns(kind, query.get("cols"));
  const admin = useMayChange();
  const [cursor, setCursor] = useState(0);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const open = query.get("peek");
  const filtered = Boolean(typed || filters.label || filters.plugin);

  useEffect(() => setCursor(0), [filters.search, filters.label, filters.plugin, filters.sort, kind.name]);
  useEffect(() => setChosen(new Set()), [kind.name]);

  // A link to an open row begins there.
  const opened = useRef(open);
  useEffect(() => {
    const at = list.rows.findIndex((row) => row.id === opened.current);
    if (opened.current && at >= 0) {
      setCursor(list.from + at);
      opened.current = null;
    }
  }, [list.rows]);

  const rowAt = (index: number) => list.rows[index - list.from];
  const goTo = (id: string) => navigate(address([...collection, ...(kind.name === "secrets" ? id.split("/") : [id])]));
  const create = () => navigate(address([...collection, "+new"]));
  const move = (by: number) => {
    const next = Math.max(0, Math.min(list.count - 1, cursor + by));
    setCursor(next);
    const row = rowAt(next);
    if (open && row) setQuery({ peek: row.id });
  };
  const toggle = (id: string) => setChosen((before) => {
    const after = new Set(before);
    if (!after.delete(id)) after.add(id);
    return after;
  });
  const removeChosen = async () => {
    const ids = chosen.size ? [...chosen] : [rowAt(cursor)?.id].filter((id) => id !== undefined);
    if (admin && ids.length && (await remove(kind, collection, ids, chosen.size === 0))) {
      setChosen(new Set());
      if (open && ids.includes(open)) setQuery({ peek: undefined });
    }
  };
  const search = useRef<HTMLInputElement>(null);
  useKeys({
    j: () => move(1), down: () => move(1), k: () => move(-1), up: () => move(-1), pagedown: () => move(20), pageup: () => move(-20),
    home: () => move(-list.count), end: () => move(list.count),
    "/": () => search.current?.focus(),
    o: () => { const row = rowAt(cursor); if (row) setQuery({ peek: open === row.id ? undefined : row.id }); },
    x: () => { const row = rowAt(cursor); if (row) toggle(row.id); },
    e: () => { const row = rowAt(cursor); if (row) goTo(row.id); },
    enter: () => { const row = rowAt(cursor); if (row) goTo(row.id); },
    n: () => { if (admin && !list.error) create(); },
    delete: () => void removeChosen(),
    escape: () => (open ? setQuery({ peek: undefined }) : setChosen(new Set())),
  });

  const actions = (
    <>
      {chosen.size > 0 && <button type="button" className="button danger" onClick={() => void removeChosen()}><Icon name="trash" />{t("list.delete", { n: chosen.size })}</button>}
      <ColumnsMenu kind={kind} columns={columns} />
      {admin && !list.error && <button type="button" className="button primary" onClick={create}><Icon name="plus" />{t("list.new", { kind: t(kind.one) })}</button>}
    </>
  );
  return (
    <>
      <Header title={t(kind.title)} crumbs={collection.length > 1 && <><Link to={address(["consumers"])}>{t("kind.consumers")}</Link><span className="soft">/</span><Link to={address(collection.slice(0, 2))}>{collection[1]}</Link><span className="soft">/</span></>} actions={actions}>
          {list.total !== null && <span className="soft" data-testid="count">{filtered ? t("list.count.of", { n: list.count, total: list.total }) : list.total.toLocaleString()}</span>}
      </Header>
      <FilterBar search={search} typed={typed} filters={filters} facets={list.facets} />
      {list.error && <div className="pad"><Failure error={list.error} retry={list.reload} /></div>}
      {list.total === null && !list.error && <Skeleton rows={12} />}
      {list.total === 0 && <Teach kind={kind} admin={admin} create={create} />}
      {list.total !== null && list.total > 0 && list.count === 0 && list.complete && (
        <Empty icon="search" title={t("list.nothing")} actions={<button type="button" className="button" onClick={() => setQuery({ q: undefined, label: undefined, plugin: undefined })}>{t("list.clear")}</button>}>{t("list.nothing.text")}</Empty>
      )}
      {list.count > 0 && (
        <div className={open ? "split" : "split single"}>
          <Table
            kind={kind} columns={columns} fixed={Boolean(query.get("cols"))} list={list} cursor={cursor} chosen={chosen} sort={filters.sort} open={open}
            onWindow={setWindow} onCursor={setCursor} onToggle={toggle} onOpen={(id) => setQuery({ peek: id === open ? undefined : id })} onEdit={goTo}
          />
          {open && <Peek key={open} kind={kind} collection={collection} id={open} known={list.rows.find((row) => row.id === open)?.object} />}
        </div>
      )}
    </>
  );
}

function Teach({ kind, admin, create }: { kind: Kind; admin: boolean; create: () => void }): JSX.Element {
  const action = admin ? <button type="button" className="button primary" onClick={create}>{t("list.new", { kind: t(kind.one) })}<kbd>N</kbd></button> : null;
  return <Empty icon={kind.icon} title={t("list.none", { kind: t(kind.title) })} actions={action}>{t(kind.teach)}</Empty>;
}

function useColumns(kind: Kind, chosen: string | null): Column[] {
  return useMemo(() => {
    if (!chosen) return kind.columns.filter((column) => column.shown);
    const names = chosen.split(",");
    return kind.columns.filter((column) => names.includes(column.name));
  }, [kind, chosen]);
}

function ColumnsMenu({ kind, columns }: { kind: Kind; columns: Column[] }): JSX.Element {
  const items = kind.columns.map((column) => ({
    name: column.name,
    label: t(column.title),
    checked: columns.includes(column),
    stay: true,
    action: () => {
      const next = kind.columns.filter((one) => (one === column ? !columns.includes(one) : columns.includes(one)));
      const usual = kind.columns.filter((one) => one.shown);
      const same = next.length === usual.length && next.every((one) => usual.includes(one));
      if (next.length) setQuery({ cols: same ? undefined : next.map((one) => one.name).join(",") });
    },
  }));
  return <MenuButton label={<><Icon name="columns" /><span className="hide-narrow">{t("list.columns")}</span></>} name={t("list.columns")} items={items} />;
}

interface FilterProps {
  search: React.RefObject<HTMLInputElement | null>;
  typed: string;
  filters: Filters;
  facets: { labels: string[]; plugins: string[] };
}

function FilterBar({ search, typed, filters, facets }: FilterProps): JSX.Element {
  return (
    <div className="filters" role="search">
      <div className="search">
        <Icon name="search" size={14} />
        <input
          ref={search} className="input" type="search" value={typed} placeholder={t("list.search")} aria-label={t("list.search")} spellCheck={false}
          onChange={(event) => setQuery({ q: event.target.value })}
          onKeyDown={(event) => { if (event.key === "Escape" || event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); event.stopPropagation(); event.currentTarget.blur(); } }}
        />
        <kbd>/</kbd>
      </div>
      <Facet name="label" title={t("field.label")} value={filters.label} values={facets.labels} />
      <Facet name="plugin" title={t("field.plugin")} value={filters.plugin} values={facets.plugins} />
    </div>
  );
}

function Facet({ name, title, value, values }: { name: string; title: string; value: string; values: string[] }): JSX.Element | null {
  if (value) return <button type="button" className="chip set" aria-label={t("list.unfilter", { name: `${title} ${value}` })} onClick={() => setQuery({ [name]: undefined })}>{title}: {value}<Icon name="close" size={12} /></button>;
  if (values.length === 0) return null;
  return <MenuButton className="chip" label={<><Icon name="plus" size={12} />{title}</>} name={t("list.filter", { name: title })} items={values.map((one) => ({ name: one, label: one, action: () => setQuery({ [name]: one }) }))} />;
}

