// The live stream of the worker, one for the page. `EventSource` cannot send our credential, so this is `fetch`.
import { createParser } from "eventsource-parser";
import { connection, headers, signedOut } from "./api";

export { connection };

export type Listener = (event: string, data: any) => void;

const listeners = new Set<Listener>();
/** Milliseconds without a byte after which the stream is taken for dead. The worker sends a comment every 15 s. */
const SILENCE_MS = 40_000;
let last = "";

/** Calls `listener` for each event. After `reset` and `resumed` changes may be missing: load anew. */
export function subscribe(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(event: string, data: unknown): void {
  for (const listener of listeners) listener(event, data);
}

/** Reads the stream for as long as the page is open, and goes on after a break where it stopped. */
export async function follow(): Promise<void> {
  for (let failed = 0; ; ) {
    if (signedOut.value) await new Promise<void>((done) => signedOut.subscribe((out) => out || done()));
    try {
      await read(() => {
        failed = 0;
        connection.value = "live";
      });
    } catch {
      // It is tried again below.
    }
    failed += 1;
    connection.value = failed > 2 ? "gone" : "connecting";
    await new Promise((done) => setTimeout(done, Math.min(250 * 2 ** failed, 5000)));
  }
}

async function read(onOpen: () => void): Promise<void> {
  const abort = new AbortController();
  const resumed: Record<string, string> = last ? { "Last-Event-ID": last } : {};
  const answer = await fetch("/api/stream?groups=true", { headers: { ...headers(), ...resumed }, signal: abort.signal });
  if (answer.status === 401) signedOut.value = true;
  if (!answer.ok || !answer.body) throw new Error(String(answer.status));
  onOpen();
  if (!last) tell("reset", {}); // what happened before the first connection is not in the stream
  const parser = createParser({
    onEvent(message) {
      if (message.id) last = message.id;
      tell(message.event ?? "message", JSON.parse(message.data || "{}"));
    },
  });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const silence = setTimeout(() => abort.abort(), SILENCE_MS);
    const { done, value } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    parser.feed(value);
  }
}
