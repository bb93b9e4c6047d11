import type { JSX } from "react";

/** Paths in a box of 16; drawn as lines of 1.4. */
const PATHS: Record<string, string> = {
  overview: "M3 12.5 6.2 8.6 8.8 11 13 5.5M2.5 2.5v11h11",
  explain: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.400L14 14",
  changes: "M8 4.500V8l2.5 1.500M2.7 6A5.6 5.6 0 1 1 2.5 9M2.5 3v3h3",
  routes: "M3.5 12.500a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm9-6a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM5 11h4a2 2 0 0 0 2-2V6.5",
  services: "M8 2 13.5 5 8 8 2.5 5 8 2ZM2.5 8 8 11l5.5-3M2.5 11 8 14l5.5-3",
  upstreams: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  consumers: "M8 8a2.75 2.75 0 1 0 0-5.500A2.75 2.75 0 0 0 8 8Zm-5.5 5.500c.6-2.5 2.6-4 5.5-4s4.9 1.5 5.5 4",
  groups: "M6 7.500a2.25 2.25 0 1 0 0-4.5 2.25 2.25 0 0 0 0 4.500Zm-4 5.500c.4-2 1.8-3.2 4-3.200s3.6 1.2 4 3.200M10.5 7.300a2 2 0 0 0 0-4M12 9.900c1.1.5 1.8 1.5 2 3",
  ssls: "M5 7V5a3 3 0 0 1 6 0v2M3.5 7h9v6.500h-9zM8 9.700v1.3",
  plugins: "M6 2.500v3M10 2.500v3M4 5.500h8V8a4 4 0 0 1-8 0zM8 12v2",
  rules: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM2 8h12M8 2c2 1.8 2.6 3.8 2.6 6S10 12.2 8 14M8 2C6 3.8 5.4 5.8 5.4 8S6 12.2 8 14",
  metadata: "M3 4.500h10M3 8h10M3 11.500h6",
  stream: "M2.5 5h9M9 2.5 11.5 5 9 7.500M13.5 11h-9M7 8.5 4.5 11 7 13.5",
  protos: "M6 3.5 2.5 8 6 12.500M10 3.5 13.5 8 10 12.5",
  secrets: "M10 9a3.25 3.25 0 1 0-3-2L2.5 11.500v2h2.200V12h1.500v-1.500l1.3-1.300M10.7 5.400h.01",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.400L14 14",
  plus: "M8 3v10M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  menu: "M2.5 4.500h11M2.5 8h11M2.5 11.500h11",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  down: "M4 6.5 8 10.500l4-4",
  right: "M6.5 4 10.5 8l-4 4",
  up: "M4 9.5 8 5.500l4 4",
  check: "M3 8.5 6.5 12 13 4.5",
  warning: "M8 2.5 14.5 13.500h-13L8 2.500ZM8 6.500v3.200M8 11.600h.01",
  columns: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  trash: "M3 4.500h10M6.5 4.500v-2h3v2M4.5 4.500l.6 9h5.800l.6-9M6.8 7v4M9.2 7v4",
  copy: "M5.5 5.500v-3h8v8h-3M2.5 5.500h8v8h-8z",
  out: "M9.5 3H13v10H9.500M2.5 8h7M7 5.5 9.5 8 7 10.5",
  theme: "M8 2.500a5.5 5.5 0 1 0 0 11zM8 2.500a5.5 5.5 0 0 1 0 11",
  language: "M2.5 4h7M6 2.500V4M8.3 4C7.6 7 5.5 8.8 2.8 9.700M4 6.300c1 1.6 2.4 2.7 4 3.300M8.5 13.500l2.7-6.5 2.7 6.500M9.4 11.500h3.7",
  undo: "M5.5 3 2.5 6l3 3M2.5 6h7a4 4 0 0 1 0 8h-2",
  flag: "M4 14V2.500h8l-2 3 2 3H4",
};

export function Icon({ name, size = 16 }: { name: string; size?: number }): JSX.Element {
  return (
    <svg viewBox="0 0 16 16" width={size} height={size} fill="none" stroke="currentColor" strokeWidth={1.4} strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={PATHS[name] ?? PATHS.more} />
    </svg>
  );
}

export function Mark(props: { className?: string }): JSX.Element {
  return (
    <svg viewBox="0 0 32 32" aria-hidden="true" className={props.className}>
      <rect width="32" height="32" rx="8" fill="var(--accent)" />
      <path d="M6 13c3.5 0 3.5-3 7-3s3.5 3 7 3 3.5-3 6-3M6 20c3.5 0 3.5-3 7-3s3.5 3 7 3 3.5-3 6-3" fill="none" stroke="var(--on-accent)" strokeWidth="2.6" strokeLinecap="round" />
    </svg>
  );
}
