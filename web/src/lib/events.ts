// Server-sent events (HTML Living Standard section 9.2) of the Admin API. The browser's own `EventSource` sends no header, and a request
// of a session needs its token.
import { ADMIN, asSession } from "./api";

const AGAIN_MS = 1000;

/** Listens until it is told to stop; a stream that ends begins again. `connected` is told of each change. */
export function listen(path: string, on: (kind: string, data: string) => void, connected: (now: boolean) => void): () => void {
  const stop = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const begin = async () => {
    try {
      const response = await fetch(ADMIN + path, { headers: { ...asSession(), Accept: "text/event-stream" }, credentials: "same-origin", cache: "no-store", signal: stop.signal });
      if (response.ok && response.body) {
        connected(true);
        await read(response.body, on);
      } else if (response.status < 500) {
        return connected(false);
      }
    } catch {
      if (stop.signal.aborted) return;
    }
    if (stop.signal.aborted) return;
    timer = setTimeout(() => void begin(), AGAIN_MS);
  };
  void begin();
  return () => {
    stop.abort();
    clearTimeout(timer);
  };
}

async function read(body: ReadableStream<Uint8Array>, on: (kind: string, data: string) => void): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const whole = text.lastIndexOf("\n\n");
    if (whole < 0) continue;
    for (const block of text.slice(0, whole).split("\n\n")) {
      const event = parse(block);
      if (event) on(event.kind, event.data);
    }
    text = text.slice(whole + 2);
  }
}

/** `null`: a comment, which keeps the connection open. */
export function parse(block: string): { kind: string; data: string } | null {
  let kind = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (line.startsWith("event:")) kind = value;
    else if (line.startsWith("data:")) data.push(value);
  }
  return data.length ? { kind, data: data.join("\n") } : null;
}
