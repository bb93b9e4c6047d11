// A button with a menu below it: arrows move, Escape closes, letters are the browser's.
import { type JSX, type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";

export interface Item {
  label: ReactNode;
  name: string;
  checked?: boolean;
  danger?: boolean;
  /** The menu stays open, for several ticks one after the other. */
  stay?: boolean;
  action: () => void;
}

interface Props {
  label: ReactNode;
  name?: string;
  className?: string;
  items: Item[];
}

export function MenuButton({ label, name, className = "button", items }: Props): JSX.Element {
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    <>
      <button
        ref={button} type="button" className={className} aria-haspopup="menu" aria-expanded={open} aria-controls={open ? id : undefined} aria-label={name}
        onClick={() => setOpen(!open)} onKeyDown={(event) => { if (event.key === "ArrowDown") { event.preventDefault(); setOpen(true); } }}
      >{label}</button>
      {open && button.current && <Menu id={id} name={name} anchor={button.current} items={items} onClose={close} />}
    </>
  );
}

function Menu({ id, name, anchor, items, onClose }: { id: string; name?: string; anchor: HTMLElement; items: Item[]; onClose: () => void }): JSX.Element {
  const menu = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = menu.current;
    if (!element) return;
    element.showPopover();
    place(element, anchor);
    element.querySelector<HTMLElement>("[role^=menuitem]")?.focus();
    const outside = (event: PointerEvent) => {
      if (event.target instanceof Node && !element.contains(event.target) && !anchor.contains(event.target)) onClose();
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, []);
  const onKey = (event: KeyboardEvent) => {
    const all = [...(menu.current?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const step = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (step !== undefined) all[step % all.length]?.focus();
    else if (event.key === "Escape" || event.key === "Tab") onClose();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div ref={menu} id={id} className="menu" role="menu" aria-label={name} popover="manual" onKeyDown={onKey}>
      {items.map((item) => (
        <button
          key={item.name} type="button" tabIndex={-1} role={item.checked === undefined ? "menuitem" : "menuitemcheckbox"} aria-checked={item.checked} className={item.danger ? "bad" : ""}
          onClick={() => { if (!item.stay) onClose(); item.action(); }}
        >
          {item.checked !== undefined && <input type="checkbox" className="checkbox" checked={item.checked} readOnly tabIndex={-1} aria-hidden="true" />}
          {item.label}
        </button>
      ))}
    </div>
  );
}

function place(menu: HTMLElement, anchor: HTMLElement): void {
  const box = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  menu.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
  menu.style.top = `${box.bottom + height + 12 > innerHeight && box.top > height + 12 ? box.top - height - 4 : box.bottom + 4}px`;
}
