// The entries of the feed. The stream only says that something happened; the entries come from one route, which knows
// the filters, so that none is shown twice or missed.
import { type Signal, signal } from "@preact/signals";
import { type PagedList, get, paged } from "./api";
import { paced } from "./paced";
import { subscribe } from "./stream";
import type { Entry, Observation, Page } from "./types";

export interface Feed extends PagedList<Entry, Page<Entry>> {
  /** How many are new since; 50 means that many or more. */
  fresh: Signal<number>;
  /** Shows the newest. */
  refresh: () => Promise<void>;
}

export const entryKey = (entry: Pick<Entry, "kind" | "id">) => `${entry.kind} ${entry.id}`;

/** `isAtTop` says whether new entries may be shown at once: somebody who reads further down is not to be moved. */
export function openFeed(filters: Record<string, string>, isAtTop: () => boolean): Feed {
  const list = paged<Entry>("/api/feed", filters);
  const { items } = list;
  const fresh = signal(0);

  async function load(isWanted: () => boolean): Promise<void> {
    const page = await list.load(isWanted);
    if (!page) return;
    const known = new Set(items.value.map(entryKey));
    const place = page.items.findIndex((entry) => known.has(entryKey(entry)));
    fresh.value = place < 0 ? page.items.length : place;
  }

  const refresh = () => load(() => true);
  const look = paced(() => load(isAtTop));

  /** Loads an observation anew that was edited, pinned, hidden or replaced. */
  async function reload(id: number): Promise<void> {
    const isIt = (entry: Entry) => entry.kind === "observation" && entry.id === id;
    if (!items.value.some(isIt)) return look.ask();
    const row = await get<Observation>(`/api/observations/${id}`).catch(() => null);
    if (!row) return;
    const { mark, title, type, superseded_by } = row;
    const now = { mark, title, type, superseded_by, text: row.narrative || row.subtitle, pinned: !!row.pinned_at };
    items.value = items.value.flatMap((entry) => (!isIt(entry) ? [entry] : row.hidden_at ? [] : [{ ...entry, ...now }]));
  }

  const unsubscribe = subscribe((event, data) => {
    if (event === "changed" && data.kind === "observation") void reload(data.id);
    else if (event.startsWith("new_") || event === "reset" || event === "changed") look.ask();
    else if (event === "gone") {
      const gone = new Set<number>(data.observations);
      items.value = items.value.filter((entry) => !(entry.kind === "observation" && gone.has(entry.id)));
      look.ask();
    }
  });
  void refresh();
  return {
    ...list,
    ...{ fresh, refresh },
    close: () => {
      look.stop();
      unsubscribe();
      list.close();
    },
  };
}
