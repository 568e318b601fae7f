// The entries of the feed. The stream only says that something happened; the entries come from one route, which knows
// the filters, so that none is shown twice or missed.
import { type Signal, signal } from "@preact/signals";
import { type ApiError, get, toApiError } from "./api";
import { subscribe } from "./stream";
import type { Entry, Observation, Page } from "./types";

/** Entries that are asked for at once. */
const PAGE = 50;
/** Milliseconds between two looks at what is new, however much arrives. */
const PACE_MS = 400;

export interface Feed {
  entries: Signal<Entry[]>;
  /** How many are new since; 50 means that many or more. */
  fresh: Signal<number>;
  loading: Signal<boolean>;
  error: Signal<ApiError | null>;
  more: () => Promise<void>;
  /** Shows the newest. */
  refresh: () => Promise<void>;
  close: () => void;
}

export const entryKey = (entry: Pick<Entry, "kind" | "id">) => `${entry.kind} ${entry.id}`;

/** `isAtTop` says whether new entries may be shown at once: somebody who reads further down is not to be moved. */
export function openFeed(filters: Record<string, string>, isAtTop: () => boolean): Feed {
  const entries = signal<Entry[]>([]);
  const fresh = signal(0);
  const loading = signal(true);
  const error = signal<ApiError | null>(null);
  let next: string | null = null;
  let timer = 0;
  let asked = 0;

  const ask = (cursor = "") => get<Page<Entry>>("/api/feed", { ...filters, limit: PAGE, cursor });

  async function tried(work: () => Promise<void>): Promise<void> {
    loading.value = true;
    try {
      await work();
      error.value = null;
    } catch (failure) {
      error.value = toApiError(failure);
    }
    loading.value = false;
  }

  function show(page: Page<Entry>): void {
    entries.value = page.items;
    next = page.next;
    fresh.value = 0;
  }

  const refresh = () => tried(async () => show(await ask()));

  const more = async () => {
    const from = next;
    if (!from || loading.value) return;
    await tried(async () => {
      const page = await ask(from);
      if (next !== from) return; // the feed was loaded anew meanwhile
      entries.value = [...entries.value, ...page.items];
      next = page.next;
    });
  };

  const look = () =>
    tried(async () => {
      const page = await ask();
      if (isAtTop()) return show(page);
      const first = entries.value[0];
      const place = first ? page.items.findIndex((entry) => entryKey(entry) === entryKey(first)) : 0;
      fresh.value = place < 0 ? page.items.length : place;
    });

  function lookSoon(): void {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      asked = Date.now();
      void look();
    }, Math.max(50, asked + PACE_MS - Date.now()));
  }

  /** Loads an observation anew that was edited, pinned, hidden or replaced. */
  async function reload(id: number): Promise<void> {
    if (!entries.value.some((entry) => entry.kind === "observation" && entry.id === id)) return lookSoon();
    const row = await get<Observation>(`/api/observations/${id}`).catch(() => null);
    if (!row) return;
    entries.value = entries.value.flatMap((entry) => {
      if (entry.kind !== "observation" || entry.id !== id) return [entry];
      if (row.hidden_at) return [];
      const { title, type, superseded_by } = row;
      return [{ ...entry, title, type, superseded_by, text: row.narrative || row.subtitle, pinned: !!row.pinned_at }];
    });
  }

  const unsubscribe = subscribe((event, data) => {
    if (event.startsWith("new_") || event === "reset" || event === "resumed") lookSoon();
    else if (event === "changed" && data.kind === "observation") void reload(data.id);
    else if (event === "changed") lookSoon();
    else if (event === "gone") {
      const gone = new Set<number>(data.observations);
      entries.value = entries.value.filter((entry) => !(entry.kind === "observation" && gone.has(entry.id)));
      lookSoon();
    }
  });
  void refresh();
  return {
    ...{ entries, fresh, loading, error, more, refresh },
    close: () => {
      clearTimeout(timer);
      unsubscribe();
    },
  };
}
