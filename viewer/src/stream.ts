// The live stream of the worker, one for the page. `EventSource` cannot send our credential, so this is `fetch`.
import { createParser } from "eventsource-parser";
import { useEffect, useRef } from "preact/hooks";
import { connection, headers, signedOut } from "./api";
import { paced } from "./paced";

export type Listener = (event: string, data: any) => void;

const listeners = new Set<Listener>();
/** Milliseconds without a byte after which the stream is taken for dead. The worker sends a comment every 15 s. */
const SILENCE_MS = 40_000;
/** Milliseconds after which a tab that nobody sees closes its stream: a browser has six connections for all its tabs. */
const UNSEEN_MS = 15_000;
/** The id of the last event. */
let last = "";

/** Calls `listener` for each event. After `reset`, which comes with each connection, changes may be missing: load anew. */
export function subscribe(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Runs `work` soon after a reset and after events that `concerns` accepts, however many there are. */
export function useEvents(concerns: (event: string, data: any) => boolean, work: () => void): void {
  const latest = useRef({ concerns, work });
  latest.current = { concerns, work };
  useEffect(() => {
    const soon = paced(() => latest.current.work());
    const leave = subscribe((event, data) => {
      if (event === "reset" || latest.current.concerns(event, data)) soon.ask();
    });
    return () => {
      leave();
      soon.stop();
    };
  }, []);
}

/** Whether a session began, ended, moved or was changed. */
export function isOfSession(event: string, data: any): boolean {
  return event.startsWith("session") || (event === "changed" && data.kind === "session");
}

function tell(event: string, data: unknown): void {
  for (const listener of listeners) listener(event, data);
}

/** Reads the stream for as long as somebody sees the page, and goes on after a break where it stopped. */
export async function follow(): Promise<void> {
  for (let failed = 0; ; ) {
    await signedIn();
    await seen();
    const abort = new AbortController();
    try {
      await read(abort, () => {
        failed = 0;
        connection.value = "live";
      });
    } catch {
      // It is tried again below.
    } finally {
      abort.abort();
    }
    failed += 1;
    connection.value = failed > 2 ? "gone" : "connecting";
    await new Promise((done) => setTimeout(done, Math.min(250 * 2 ** failed, 5000)));
  }
}

function signedIn(): Promise<void> {
  return new Promise((done) => {
    const leave = signedOut.subscribe((isOut) => {
      if (isOut) return;
      done();
      queueMicrotask(() => leave());
    });
  });
}

function seen(): Promise<void> {
  return new Promise((done) => {
    if (document.hidden) document.addEventListener("visibilitychange", () => done(), { once: true });
    else done();
  });
}

async function read(abort: AbortController, onOpen: () => void): Promise<void> {
  const resumed: Record<string, string> = last ? { "Last-Event-ID": last } : {};
  const { signal } = abort;
  const answer = await fetch("/api/stream?groups=true", { headers: { ...headers(), ...resumed }, signal });
  if (answer.status === 401) signedOut.value = true;
  if (!answer.ok || !answer.body) throw new Error(String(answer.status));
  onOpen();
  tell("reset", {}); // requests may have failed, and not every change of before is in the stream
  let unseen = 0;
  const look = () => {
    clearTimeout(unseen);
    if (document.hidden) unseen = setTimeout(() => abort.abort(), UNSEEN_MS);
  };
  document.addEventListener("visibilitychange", look, { signal });
  look();
  const parser = createParser({
    onEvent(message) {
      if (message.id) last = message.id;
      tell(message.event === "resumed" ? "reset" : (message.event ?? "message"), JSON.parse(message.data || "{}"));
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
