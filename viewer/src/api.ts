// Requests to the worker. The session is in sessionStorage: it belongs to this address and port alone, where a cookie
// would be sent to every port of the machine.
import { type Signal, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Params, withQuery } from "./address";
import type { Observation, Page } from "./types";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly error: string,
    readonly hint = "",
  ) {
    super(error);
  }
}

/** Whether the worker does not know this browser. */
export const signedOut = signal(false);
/** Whether the stream of the worker is open; `gone` after some tries that failed. */
export const connection = signal<"connecting" | "live" | "gone">("connecting");
/** Why signing in failed, if it did. */
export const refusal = signal("");

/** Between the tabs of this address: a new one asks for the session, and who signs in tells it. */
const tabs = new BroadcastChannel("session");
/** Milliseconds that a new tab waits for the others. */
const TABS_MS = 300;

tabs.addEventListener("message", ({ data }) => {
  const own = sessionStorage.getItem("session");
  if (data.session && (!own || signedOut.value)) keep(data.session);
  else if (!data.session && own && !signedOut.value) tabs.postMessage({ session: own });
});

function keep(session: string): void {
  sessionStorage.setItem("session", session);
  signedOut.value = false;
}

/** Asks the other tabs for the session. */
async function askTabs(): Promise<void> {
  tabs.postMessage({});
  await new Promise((done) => {
    tabs.addEventListener("message", done, { once: true });
    setTimeout(done, TABS_MS);
  });
}

/** Exchanges the code of `backstory open`, if the address has one, for a session. */
export async function signIn(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code && !sessionStorage.getItem("session")) await askTabs();
  if (!code) return;
  history.replaceState(null, "", "#/");
  dispatchEvent(new HashChangeEvent("hashchange"));
  try {
    const answer = await request<{ session: string }>("POST", "/open", { code });
    keep(answer.session);
    tabs.postMessage(answer);
  } catch (error) {
    refusal.value = error instanceof ApiError ? error.error : String(error);
    signedOut.value = true;
  }
}

export function headers(): Record<string, string> {
  const session = sessionStorage.getItem("session");
  return session ? { Authorization: `Backstory-Session ${session}` } : {};
}

async function request<T>(method: string, path: string, body?: unknown, more: RequestInit = {}): Promise<T> {
  const init: RequestInit = { method, headers: headers(), ...more };
  if (body !== undefined) {
    init.headers = { ...headers(), "Content-Type": "application/json" };
    init.body = JSON.stringify(body);
  }
  let answer: Response;
  try {
    answer = await fetch(path, init);
    // A request that is cut off may fail only here.
    if (answer.ok) return (await answer.json()) as T;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The worker does not answer.", "The page tries again by itself.");
  }
  const value = await answer.json().catch(() => ({}));
  if (answer.status === 401 && path !== "/open") signedOut.value = true;
  throw new ApiError(answer.status, value.error ?? `The worker answered ${answer.status}.`, value.hint ?? "");
}

export function get<T>(path: string, params: Params = {}, abort?: AbortSignal): Promise<T> {
  return request<T>("GET", withQuery(path, params), undefined, abort ? { signal: abort } : {});
}

export const post = <T>(path: string, body: unknown = {}) => request<T>("POST", path, body);
export const patch = <T>(path: string, body: unknown) => request<T>("PATCH", path, body);

export interface Load<T> {
  data?: T;
  error?: ApiError;
  loading: boolean;
  reload: () => void;
}

/** Loads when `deps` change. What was loaded before stays while the same is loaded anew, so that nothing jumps. */
export function useLoad<T>(load: (abort: AbortSignal) => Promise<T>, deps: unknown[]): Load<T> {
  const [state, setState] = useState<{ data?: T; error?: ApiError; loading: boolean }>({ loading: true });
  const [turn, setTurn] = useState(0);
  const known = useRef("");
  const now = useRef({ isBusy: false, isAsked: false });
  // Who asks while it loads is answered by one load more: a request that is cut off by the next would never end.
  const reload = useRef(() => {
    if (now.current.isBusy) now.current.isAsked = true;
    else setTurn((before) => before + 1);
  }).current;
  useEffect(() => {
    const abort = new AbortController();
    const key = JSON.stringify(deps);
    setState((before) => (known.current === key ? { ...before, loading: true } : { loading: true }));
    known.current = key;
    now.current = { isBusy: true, isAsked: false };
    const settle = (change: (before: { data?: T }) => { data?: T; error?: ApiError }) => {
      if (abort.signal.aborted) return;
      const { isAsked } = now.current;
      now.current = { isBusy: false, isAsked: false };
      setState((before) => ({ ...change(before), loading: false }));
      if (isAsked) reload();
    };
    load(abort.signal).then(
      (data) => settle(() => ({ data })),
      (error) => settle((before) => ({ ...before, error: toApiError(error) })),
    );
    return () => abort.abort();
  }, [...deps, turn]);
  const isLost = state.error?.status === 0;
  useEffect(() => connection.subscribe((is) => isLost && is === "live" && reload()), [isLost]);
  return { ...state, reload };
}

/** Loads the observations of a session, newest first, also those that were replaced. */
export async function observationsOf(session: number, abort?: AbortSignal): Promise<Observation[]> {
  const found: Observation[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: Page<Observation> = await get("/api/observations", { session, limit: 200, cursor }, abort);
    found.push(...page.items);
    cursor = page.next;
  }
  return found.filter((row) => !row.hidden_at);
}

export function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, String(error));
}

export interface PagedList<T, P extends Page<T>> {
  items: Signal<T[]>;
  /** The page that was loaded last; null until the first is there. */
  page: Signal<P | null>;
  error: Signal<ApiError | null>;
  /** Loads the first page, and shows it if that is wanted when it is there. */
  load: (isWanted?: () => boolean) => Promise<P | null>;
  /** Loads the next page, if there is one. */
  more: () => Promise<void>;
  close: () => void;
}

/** A list that comes in pages. */
export function paged<T, P extends Page<T> = Page<T>>(path: string, params: Params = {}, limit = 50): PagedList<T, P> {
  const items = signal<T[]>([]);
  const page = signal<P | null>(null);
  const error = signal<ApiError | null>(null);
  const abort = new AbortController();
  let asked = 0;
  let shown = 0;
  let isBusy = false;

  async function ask(cursor: string): Promise<P | null> {
    try {
      const found = await get<P>(path, { ...params, limit, cursor }, abort.signal);
      error.value = null;
      return found;
    } catch (failure) {
      if (!abort.signal.aborted) error.value = toApiError(failure);
      return null;
    }
  }

  async function load(isWanted = () => true): Promise<P | null> {
    const turn = ++asked;
    const first = await ask("");
    if (!first || turn < shown || !isWanted()) return first; // an answer can overtake an earlier one
    shown = turn;
    items.value = first.items;
    page.value = first;
    return first;
  }

  async function more(): Promise<void> {
    const before = page.value;
    if (isBusy || !before?.next) return;
    isBusy = true;
    const found = await ask(before.next);
    isBusy = false;
    if (!found) return;
    if (page.value !== before) return more(); // the list was loaded anew meanwhile
    items.value = [...items.value, ...found.items];
    page.value = found;
  }

  return { items, page, error, load, more, close: () => abort.abort() };
}
