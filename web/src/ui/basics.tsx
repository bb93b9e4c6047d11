// The small parts of every screen.
import { type JSX, type MouseEvent, type ReactNode, useEffect } from "react";
import { ApiError } from "../lib/api";
import { t } from "../lib/i18n";
import { navigate } from "../lib/router";
import { inWords } from "../lib/words";
import { Icon } from "./icons";

interface LinkProps {
  to: string;
  className?: string;
  children: ReactNode;
  title?: string;
  current?: boolean;
  onClick?: () => void;
}

export function Link({ to, children, current, onClick, ...rest }: LinkProps): JSX.Element {
  const click = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    onClick?.();
    navigate(to);
  };
  return <a href={to} onClick={click} aria-current={current ? "page" : undefined} {...rest}>{children}</a>;
}

/** The bar at the top of a screen; its first child names the screen. */
export function Header({ title, crumbs, children, actions }: { title: string; crumbs?: ReactNode; children?: ReactNode; actions?: ReactNode }): JSX.Element {
  useEffect(() => {
    document.title = `${title} · Tidegate`;
  }, [title]);
  return (
    <header className="bar-top">
      <div className="crumbs">{crumbs}<h1 title={title}>{title}</h1></div>
      {children}
      {actions && <div className="actions">{actions}</div>}
    </header>
  );
}

export function Empty({ icon, title, children, actions }: { icon: string; title: string; children?: ReactNode; actions?: ReactNode }): JSX.Element {
  return (
    <div className="empty">
      <Icon name={icon} />
      <h2>{title}</h2>
      <div className="soft">{children}</div>
      {actions && <div className="row wrap">{actions}</div>}
    </div>
  );
}

/** What went wrong, and what can be done about it. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }): JSX.Element {
  const { message, remedy } = explainError(error);
  return (
    <div className="notice bad" role="alert">
      <Icon name="warning" />
      <div className="grow">
        <p>{message}</p>
        {remedy && <p className="small">{remedy}</p>}
      </div>
      {retry && <button type="button" className="button" onClick={retry}>{t("action.retry")}</button>}
    </div>
  );
}

export function explainError(error: unknown): { message: string; remedy: string | null } {
  if (!(error instanceof ApiError)) return { message: error instanceof Error ? error.message : String(error), remedy: null };
  if (error.status === 0) return { message: t("error.offline"), remedy: t("error.offline.remedy") };
  if (error.status === 401 && /invalid method/.test(error.message)) return { message: t("error.viewer"), remedy: t("error.viewer.remedy") };
  if (error.status === 404 && /not found/i.test(error.message)) return { message: t("error.missing"), remedy: t("error.missing.remedy") };
  if (/stream mode is disabled/.test(error.message)) return { message: t("error.stream"), remedy: t("error.stream.remedy") };
  if (error.status === 501) return { message: error.message, remedy: error.remedy ?? t("error.provider.remedy") };
  return { message: inWords(error.message), remedy: error.remedy === null ? null : inWords(error.remedy) };
}

export function Skeleton({ rows = 8 }: { rows?: number }): JSX.Element {
  return (
    <div className="pad" role="status" aria-label={t("loading")}>
      {Array.from({ length: rows }, (_, i) => <div key={i} className="skeleton" style={{ width: `${88 - ((i * 37) % 50)}%`, marginBottom: 21 }} />)}
    </div>
  );
}

/** A table that is wider than a small screen: the keyboard scrolls it as well. */
export function Wide({ label, children }: { label: string; children: ReactNode }): JSX.Element {
  return <div className="plain-scroll" role="region" aria-label={label} tabIndex={0}>{children}</div>;
}

export function Tags({ values, limit = 3 }: { values: string[]; limit?: number }): JSX.Element {
  return (
    <span className="tags" title={values.join(", ")}>
      {values.slice(0, limit).map((value) => <span key={value} className="tag">{value}</span>)}
      {values.length > limit && <span className="soft small" title={values.slice(limit).join(", ")}>+{values.length - limit}</span>}
    </span>
  );
}

export function Segmented<V extends string>({ label, value, options, onChange }: { label: string; value: V; options: [V, string][]; onChange: (value: V) => void }): JSX.Element {
  return (
    <div className="segmented" role="group" aria-label={label}>
      {options.map(([option, text]) => <button key={option} type="button" aria-pressed={option === value} onClick={() => onChange(option)}>{text}</button>)}
    </div>
  );
}
