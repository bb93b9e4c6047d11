// Screens whose files come when they are first asked for: the first page that is opened waits for none of the others.
import { type ComponentType, createElement, type JSX, lazy, useState } from "react";
import { ApiError } from "./lib/api";

/** A screen's file could not be had: the gateway is away, or serves another version of the console by now. */
export class Absent extends ApiError {}

const RETRY_MS = 3_000;

type Later<P> = ((props: P) => JSX.Element) & { fetch: () => Promise<void> };

export function later<P extends object>(load: () => Promise<ComponentType<P>>): Later<P> {
  let ready: ComponentType<P> | null = null;
  let coming: Promise<void> | null = null;
  const fetch = () => (coming ??= load().then((screen) => { ready = screen; }, () => {
    coming = null;
    throw new Absent(0, "offline");
  }));
  const component = async () => {
    try {
      await fetch();
    } catch (error) {
      // Who comes back later gets another attempt; not each time that React draws, which would be many.
      setTimeout(() => { awaited = lazy(component); }, RETRY_MS);
      throw error;
    }
    if (!ready) throw new Absent(0, "offline");
    return { default: ready };
  };
  let awaited: ComponentType<P> = lazy(component);
  function Screen(props: P): JSX.Element {
    // The same as long as it is shown: what is typed belongs to it.
    const [Shown] = useState<ComponentType<P>>(() => ready ?? awaited);
    return createElement(Shown, props);
  }
  return Object.assign(Screen, { fetch });
}

/** Once there is nothing else to do. */
export function whenIdle(work: () => void): void {
  if ("requestIdleCallback" in window) requestIdleCallback(work);
  else setTimeout(work, 2_000);
}
