// Requests to the worker. The session is in sessionStorage: it belongs to this address and port alone, where a cookie
// would be sent to every port of the machine.
import { type Signal, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Params } from "./address";
import type { Page } from "./types";

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

/** Exchanges the code of `backstory open`, if the address has one, for a session. */
export async function signIn(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", "#/");
  dispatchEvent(new HashChangeEvent("hashchange"));
  try {
    const answer = await request<{ session: string }>("POST", "/open", { code });
    sessionStorage.setItem("session", answer.session);
    signedOut.value = false;
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
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The worker does not answer.", "The page tries again by itself.");
  }
  const value = await answer.json().catch(() => ({}));
  if (answer.ok) return value as T;
  if (answer.status === 401 && path !== "/open") signedOut.value = true;
  throw new ApiError(answer.status, value.error ?? `The worker answered ${answer.status}.`, value.hint ?? "");
}

export function get<T>(path: string, params: Params = {}, abort?: AbortSignal): Promise<T> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return request<T>("GET", text ? `${path}?${text}` : path, undefined, abort ? { signal: abort } : {});
}

export const post = <T>(path: string, body: unknown = {}, more?: RequestInit) => request<T>("POST", path, body, more);
export const patch = <T>(path: string, body: unknown) => request<T>("PATCH", path, body);
export const del = <T>(path: string) => request<T>("DELETE", path);

export interface Load<T> {
  data?: T;
  error?: ApiError;
  loading: boolean;
  reload: () => void;
}

/** Loads when `deps` change. What was loaded before stays until then, so that nothing jumps. */
export function useLoad<T>(load: (abort: AbortSignal) => Promise<T>, deps: unknown[]): Load<T> {
  const [state, setState] = useState<{ data?: T; error?: ApiError; loading: boolean }>({ loading: true });
  const [turn, setTurn] = useState(0);
  const known = useRef<string>("");
  useEffect(() => {
    const abort = new AbortController();
    const key = JSON.stringify(deps);
    setState((before) => (known.current === key ? { ...before, loading: true } : { loading: true }));
    known.current = key;
    load(abort.signal).then(
      (data) => abort.signal.aborted || setState({ data, loading: false }),
      (error) => abort.signal.aborted || setState((before) => ({ ...before, error: toApiError(error), loading: false })),
    );
    return () => abort.abort();
  }, [...deps, turn]);
  const isLost = state.error?.status === 0;
  useEffect(
    () => connection.subscribe((now) => isLost && now === "live" && setTurn((n) => n + 1)),
    [isLost],
  );
  return { ...state, reload: () => setTurn((n) => n + 1) };
}

export function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, String(error));
}

export interface PagedList<T> {
  items: Signal<T[]>;
  loading: Signal<boolean>;
  done: Signal<boolean>;
  error: Signal<ApiError | null>;
  /** Loads the next page, if there is one. */
  more: () => Promise<void>;
  /** Loads anew, from the first page. */
  reload: () => Promise<void>;
}

/** A list that comes in pages. */
export function paged<T>(path: string, params: Params = {}, limit = 50): PagedList<T> {
  const list = {
    items: signal<T[]>([]),
    loading: signal(false),
    done: signal(false),
    error: signal<ApiError | null>(null),
  };
  let cursor = "";
  async function load(from: string): Promise<void> {
    if (list.loading.value) return;
    list.loading.value = true;
    try {
      const page = await get<Page<T>>(path, { ...params, limit, cursor: from });
      list.items.value = from ? [...list.items.value, ...page.items] : page.items;
      cursor = page.next ?? "";
      list.done.value = !page.next;
      list.error.value = null;
    } catch (error) {
      list.error.value = toApiError(error);
    }
    list.loading.value = false;
  }
  return {
    ...list,
    more: async () => {
      if (!list.done.value) await load(cursor);
    },
    reload: () => load(""),
  };
}
