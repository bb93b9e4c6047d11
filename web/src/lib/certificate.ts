// What a certificate says of itself: its names and its time. It is read here to be shown; the gateway decides what it is good for.
export interface CertificateFacts {
  /** Seconds since 1970. */
  start: number;
  end: number;
  names: string[];
}

interface Part {
  tag: number;
  from: number;
  to: number;
}

const SAN = "55 1d 11";
const COMMON_NAME = "55 04 03";

/** The first certificate of a PEM text; null where it cannot be read. */
export function readCertificate(pem: unknown): CertificateFacts | null {
  const inner = typeof pem === "string" ? /-----BEGIN CERTIFICATE-----([\sA-Za-z0-9+/=]+)-----END/.exec(pem)?.[1] : undefined;
  if (inner === undefined || inner.length > 100_000) return null;
  try {
    const bytes = Uint8Array.from(atob(inner.replace(/\s/g, "")), (letter) => letter.charCodeAt(0));
    return read(bytes);
  } catch {
    return null;
  }
}

function read(bytes: Uint8Array): CertificateFacts {
  const [whole] = parts(bytes, { tag: 0, from: 0, to: bytes.length });
  const [signed] = parts(bytes, whole);
  const fields = parts(bytes, signed);
  if (fields[0]?.tag === 0xa0) fields.shift();
  const [, , , validity, subject] = fields;
  const [start, end] = parts(bytes, validity).map((part) => timeOf(text(bytes, part)));
  if (start === undefined || end === undefined || Number.isNaN(start) || Number.isNaN(end)) throw new Error("no validity");
  const extensions = fields.find((part) => part.tag === 0xa3);
  const alternative = extensions ? parts(bytes, parts(bytes, extensions)[0]).map((one) => parts(bytes, one)).find(([id]) => hex(bytes, id) === SAN)?.at(-1) : undefined;
  const names = alternative ? parts(bytes, parts(bytes, alternative)[0]).filter((part) => part.tag === 0x82).map((part) => text(bytes, part)) : [];
  const common = parts(bytes, subject).flatMap((set) => parts(bytes, set)).map((pair) => parts(bytes, pair)).find(([id]) => hex(bytes, id) === COMMON_NAME)?.[1];
  return { start, end, names: names.length || !common ? names : [text(bytes, common)] };
}

/** The elements inside of one (DER). */
function parts(bytes: Uint8Array, outer: Part | undefined): Part[] {
  if (!outer) throw new Error("too short");
  const found: Part[] = [];
  for (let at = outer.from; at < outer.to;) {
    const tag = bytes[at++] ?? 0;
    let length = bytes[at++] ?? 0;
    if (length > 0x80) {
      let more = length & 0x7f;
      if (more > 3) throw new Error("too long");
      for (length = 0; more > 0; more--) length = length * 256 + (bytes[at++] ?? 0);
    }
    if (at + length > outer.to) throw new Error("too short");
    found.push({ tag, from: at, to: at + length });
    at += length;
  }
  return found;
}

const text = (bytes: Uint8Array, part: Part): string => new TextDecoder().decode(bytes.subarray(part.from, part.to));
const hex = (bytes: Uint8Array, part: Part | undefined): string => (part ? [...bytes.subarray(part.from, part.to)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ") : "");

/** `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`. */
function timeOf(written: string): number {
  const match = /^(\d\d|\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(written);
  if (!match) return Number.NaN;
  const [year = 0, month = 0, day, hour, minute, second] = match.slice(1).map(Number);
  return Date.UTC(year < 50 ? year + 2000 : year < 100 ? year + 1900 : year, month - 1, day, hour, minute, second) / 1000;
}
