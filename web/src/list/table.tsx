// A table of which only the rows on the screen exist, each as tall as every other.
import { type JSX, memo, startTransition, type UIEvent, useEffect, useLayoutEffect, useRef, useState } from "react";
import { ago, type Language, t, useLanguage } from "../lib/i18n";
import { type Column, type Kind, labelsOf, pluginsOf } from "../lib/kinds";
import { setQuery } from "../lib/router";
import { Tags } from "../ui/basics";
import { Ends } from "../object/validity";
import { Icon } from "../ui/icons";
import type { Row } from "./model";
import type { ListState, Window } from "./use-list";

const ROW_PX = 33;
const CHECK_PX = 34;
const BEYOND = 10;

interface Props {
  kind: Kind;
  columns: Column[];
  /** The user chose the columns: all are shown, and the table scrolls to the side if need be. */
  fixed: boolean;
  list: ListState;
  cursor: number;
  chosen: ReadonlySet<string>;
  sort: string;
  open: string | null;
  onWindow: (window: Window) => void;
  onCursor: (index: number) => void;
  onToggle: (id: string) => void;
  onOpen: (id: string) => void;
  onEdit: (id: string) => void;
}

export function Table(props: Props): JSX.Element {
  const { list, cursor, kind } = props;
  const [room, setRoom] = useState(Infinity);
  const [onScreen, setOnScreen] = useState(BEYOND);
  const language = useLanguage();
  const columns = props.fixed ? props.columns : fitting(props.columns, room);
  const box = useRef<HTMLDivElement>(null);
  const visible = useRef({ from: -1, to: -1 });
  const rows = useGrowing(list.rows, onScreen);

  const measure = () => {
    const element = box.current;
    if (!element) return;
    setRoom(element.clientWidth);
    setOnScreen(Math.ceil(element.clientHeight / ROW_PX));
    // In steps, so that scrolling asks for rows now and then instead of with each pixel.
    const first = Math.floor(element.scrollTop / ROW_PX / BEYOND) * BEYOND;
    const from = Math.max(0, first - BEYOND);
    const to = first + Math.ceil(element.clientHeight / ROW_PX / BEYOND + 2) * BEYOND;
    if (from === visible.current.from && to === visible.current.to) return;
    visible.current = { from, to };
    props.onWindow({ from, to });
  };
  useLayoutEffect(measure, []);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const top = cursor * ROW_PX;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + 2 * ROW_PX > element.scrollTop + element.clientHeight) element.scrollTop = top + 2 * ROW_PX - element.clientHeight;
  }, [cursor]);

  const template = `${CHECK_PX}px ${columns.map((column) => `minmax(${Math.min(column.width, column.number ? column.width : 90)}px, ${column.width}fr)`).join(" ")}`;
  const width = props.fixed ? CHECK_PX + columns.reduce((sum, column) => sum + leastOf(column), 0) : 0;
  return (
    <div className="table" ref={box} onScroll={(_: UIEvent) => measure()} role="grid" aria-label={t(kind.title)} aria-rowcount={list.count + 1} aria-colcount={columns.length + 1} tabIndex={0}
      aria-activedescendant={`row-${cursor}`}>
      <div className="thead" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template, minWidth: width }}>
        <div role="columnheader"><span className="visually-hidden">{t("list.chosen")}</span></div>
        {columns.map((column) => <Heading key={column.name} column={column} sort={props.sort} />)}
      </div>
      <div className="tbody" role="rowgroup" style={{ height: list.count * ROW_PX, minWidth: width }}>
        {rows.map((row, i) => <OneRow key={row.id} {...props} columns={columns} row={row} index={list.from + i} template={template} language={language} />)}
      </div>
    </div>
  );
}

/** The rows on the screen first, those beyond it a frame later: all of them in one go would hold up the page for more than 50 ms. */
function useGrowing(rows: Row[], onScreen: number): Row[] {
  const [isWhole, setWhole] = useState(false);
  const isThere = rows.length > 0;
  useEffect(() => {
    if (!isThere || isWhole) return;
    const frame = requestAnimationFrame(() => { startTransition(() => { setWhole(true); }); });
    return () => { cancelAnimationFrame(frame); };
  }, [isThere, isWhole]);
  return isWhole ? rows : rows.slice(0, onScreen);
}

const leastOf = (column: Column): number => Math.max(column.number ? 70 : 90, column.width * 0.66);

/** As many columns from the first on as there is room for. */
function fitting(columns: Column[], room: number): Column[] {
  // The first, and what tells one from the other, are shown before all else.
  const isFirst = (column: Column, i: number) => i === 0 || column.first === true;
  let left = room - CHECK_PX - columns.filter(isFirst).reduce((sum, column) => sum + leastOf(column), 0);
  return columns.filter((column, i) => {
    if (isFirst(column, i)) return i === 0 || room === Infinity || left > -leastOf(column);
    left -= leastOf(column);
    return left >= 0;
  });
}

function Heading({ column, sort }: { column: Column; sort: string }): JSX.Element {
  const [ascending, descending] = [sort === column.name, sort === `-${column.name}`];
  return (
    <div role="columnheader" aria-sort={ascending ? "ascending" : descending ? "descending" : "none"} className={column.number ? "number" : ""}>
      <button type="button" tabIndex={-1} onClick={() => setQuery({ sort: ascending ? `-${column.name}` : descending ? undefined : column.name })}>
        {t(column.title)}{(ascending || descending) && <Icon name={ascending ? "up" : "down"} size={11} />}
      </button>
    </div>
  );
}

type RowProps = Props & { row: Row; index: number; template: string; language: Language };

/** While scrolling, only rows that are new are drawn. What a row does does not depend on the other rows. */
const OneRow = memo(DrawRow, (a, b) =>
  a.row === b.row && a.index === b.index && a.template === b.template && a.language === b.language && a.columns.length === b.columns.length
  && (a.cursor === a.index) === (b.cursor === b.index) && (a.open === a.row.id) === (b.open === b.row.id) && a.chosen.has(a.row.id) === b.chosen.has(b.row.id));

function DrawRow(props: RowProps): JSX.Element {
  const { row, index, chosen, cursor, columns, open } = props;
  const classes = ["tr", index === cursor ? "cursor" : "", open === row.id ? "open" : "", chosen.has(row.id) ? "chosen" : ""].filter(Boolean).join(" ");
  return (
    <div
      id={`row-${index}`} role="row" aria-rowindex={index + 2} aria-selected={chosen.has(row.id)} className={classes} data-id={row.id}
      style={{ gridTemplateColumns: props.template, transform: `translateY(${index * ROW_PX}px)` }}
      onClick={() => { props.onCursor(index); props.onOpen(row.id); }} onDoubleClick={() => props.onEdit(row.id)}
    >
      <div role="gridcell" onClick={(event) => event.stopPropagation()}>
        <input type="checkbox" className="checkbox" tabIndex={-1} aria-label={t("list.choose", { name: row.id })} checked={chosen.has(row.id)} onChange={() => props.onToggle(row.id)} />
      </div>
      {columns.map((column) => <div key={column.name} role="gridcell" className={`${column.number ? "number" : ""} ${column.mono ? "mono" : ""} cut`}><Cell kind={props.kind} column={column} row={row} /></div>)}
    </div>
  );
}

const hasStatus = (kind: Kind): boolean => kind.columns.some((column) => column.name === "status");

function Cell({ kind, column, row }: { kind: Kind; column: Column; row: Row }): JSX.Element | string {
  const { object, id } = row;
  const value = column.value(object, id);
  switch (column.name) {
    case "labels": return <Tags values={labelsOf(object)} limit={2} />;
    case "plugins": return <Tags values={pluginsOf(object)} limit={3} />;
    case "updated": return value ? <span className="soft">{ago(Number(value) * 1000)}</span> : "";
    case "ends": return <Ends at={Number(value)} />;
    case "status": return value === "1" ? t("status.on") : <span className="soft">{t("status.off")}</span>;
    case "methods": return value ? <span className="methods">{value}</span> : <span className="soft">{t("any")}</span>;
    case "host": return value || <span className="soft">*</span>;
    case "name": return <span className="name" title={value}>{hasStatus(kind) && <i className={object.status === 0 ? "dot off" : "dot"} title={t(object.status === 0 ? "status.off" : "status.on")} />}{value}</span>;
    default: return <span title={value}>{value}</span>;
  }
}
