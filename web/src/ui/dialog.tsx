// Dialogs are the browser's: they keep the focus inside, give it back, and close with Escape.
import { type JSX, type ReactNode, useId, useLayoutEffect, useRef, useSyncExternalStore } from "react";
import { t } from "../lib/i18n";
import { useKeys } from "../lib/keys";
import { Icon } from "./icons";

interface Props {
  title: string;
  size?: "medium" | "wide";
  onClose: () => void;
  children: ReactNode;
  footer?: ReactNode;
  /** No heading is shown; the title names the dialog all the same. */
  bare?: boolean;
  className?: string;
  keys?: Record<string, () => void>;
}

export function Dialog({ title, size = "medium", onClose, children, footer, bare, className = "", keys = {} }: Props): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Closed before it leaves the page: only then does the browser give the focus back.
  useLayoutEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) {
      dialog.showModal();
      // The browser takes the first button, which closes it: no place for Enter.
      const wanted = dialog.querySelector<HTMLElement>("[data-autofocus]");
      if (wanted?.matches(":disabled")) dialog.querySelector<HTMLElement>("[data-body]")?.focus();
      else wanted?.focus();
    }
    return () => dialog?.close();
  }, []);
  useKeys(keys, { modal: true });
  return (
    <dialog
      ref={ref} className={`${size} ${className}`} aria-labelledby={bare ? undefined : id} aria-label={bare ? title : undefined}
      onCancel={(event) => { event.preventDefault(); onClose(); }}
      onMouseDown={(event) => { if (event.target === ref.current) onClose(); }}
    >
      {!bare && (
        <header>
          <h2 id={id}>{title}</h2>
          <button type="button" className="button plain icon" aria-label={t("action.close")} onClick={onClose}><Icon name="close" /></button>
        </header>
      )}
      <div className={bare ? "" : "body"} data-body tabIndex={-1}>{children}</div>
      {footer && <footer>{footer}</footer>}
    </dialog>
  );
}

interface Question {
  title: string;
  text: ReactNode;
  action: string;
  danger?: boolean;
  /** There is nothing to choose. */
  only?: boolean;
  answer: (yes: boolean) => void;
}

let question: Question | null = null;
const listeners = new Set<() => void>();

function show(next: Question | null): void {
  question = next;
  for (const listener of listeners) listener();
}

/** Asks, and answers whether the user wants it. */
export function confirm(asked: Omit<Question, "answer">): Promise<boolean> {
  return new Promise((resolve) => show({ ...asked, answer: resolve }));
}

/** Says something until it is closed. */
export async function tell(said: { title: string; text: ReactNode }): Promise<void> {
  await confirm({ ...said, action: t("action.close"), only: true });
}

/** Closes what is asked or said: a link in it leads elsewhere. */
export function dismiss(): void {
  const asked = question;
  show(null);
  asked?.answer(false);
}

export function Confirmation(): JSX.Element | null {
  const asked = useSyncExternalStore((listener) => { listeners.add(listener); return () => listeners.delete(listener); }, () => question);
  if (!asked) return null;
  const done = (yes: boolean) => {
    show(null);
    asked.answer(yes);
  };
  const footer = (
    <>
      {!asked.only && <button type="button" className="button" autoFocus={asked.danger} data-autofocus={asked.danger || undefined} onClick={() => done(false)}>{t("action.cancel")}</button>}
      <button type="button" className={`button primary ${asked.danger ? "danger" : ""}`} autoFocus={!asked.danger} data-autofocus={!asked.danger || undefined} onClick={() => done(true)}>{asked.action}</button>
    </>
  );
  return <Dialog title={asked.title} onClose={() => done(false)} footer={footer}>{asked.text}</Dialog>;
}
