// Corrects the memory: pin, hide, edit, merge, supersede and forget.
import { signal } from "@preact/signals";
import { patch, post } from "./api";
import { toast, tried } from "./components/toast";
import { plural } from "./text";
import type { Observation } from "./types";

/** Seconds in which forgetting can be taken back. */
const UNDO_S = 10;
/** What takes back each forgetting that waits. */
const waiting = new Set<() => void>();
/** Ids of observations that lists leave out, because they were hidden or forgotten here. */
export const leaving = signal<ReadonlySet<number>>(new Set());
/** Ids of observations that are forgotten, or wait for it. */
export const forgotten = signal<ReadonlySet<number>>(new Set());

const plus = (set: ReadonlySet<number>, ids: number[]) => new Set([...set, ...ids]);
const minus = (set: ReadonlySet<number>, ids: number[]) => new Set([...set].filter((id) => !ids.includes(id)));

function leave(ids: number[]): void {
  leaving.value = plus(leaving.value, ids);
}

function stay(ids: number[]): void {
  leaving.value = minus(leaving.value, ids);
  forgotten.value = minus(forgotten.value, ids);
}

export type Change = Partial<
  Pick<Observation, "type" | "title" | "subtitle" | "narrative" | "facts" | "concepts" | "superseded_by">
>;

export const edit = (id: number, change: Change) =>
  tried(() => patch<Observation>(`/api/observations/${id}`, change));

export async function pin(id: number, pinned = true): Promise<Observation | null> {
  const row = await tried(() => patch<Observation>(`/api/observations/${id}`, { pinned }));
  if (row) toast(pinned ? `#${id} is in every context of its project now.` : `#${id} is not pinned any more.`);
  return row;
}

/** Takes observations out of context and search. They stay stored. */
export async function hide(ids: number[]): Promise<boolean> {
  leave(ids);
  if (!(await tried(() => post("/api/hide", { ids })))) {
    stay(ids);
    return false;
  }
  toast(`${named(ids)} ${ids.length === 1 ? "is" : "are"} hidden.`, { undo: () => show(ids) });
  return true;
}

/** Shows hidden observations again. */
export async function show(ids: number[]): Promise<boolean> {
  const shown = await tried(() => post("/api/hide", { ids, undo: true }));
  if (shown) stay(ids);
  return shown !== null;
}

/** Makes one observation of several. Returns the one that stands. */
export async function merge(ids: number[], title?: string): Promise<Observation | null> {
  const row = await tried(() => post<Observation>("/api/observations/merge", title ? { ids, title } : { ids }));
  if (row) toast(`#${row.id} has the facts of ${plural(ids.length, "observation")} now.`);
  return row;
}

/** Says which observation replaces another; `null` restores it. */
export async function supersede(id: number, by: number | null): Promise<Observation | null> {
  const row = await edit(id, { superseded_by: by });
  if (row) toast(by ? `#${by} replaces #${id} now.` : `#${id} stands again.`);
  return row;
}

/** Forgets observations after ten seconds, unless it is undone or the page is left before: forgetting is final, and a
 * page may be left or loaded again for any reason. */
export function forget(ids: number[]): void {
  leave(ids);
  forgotten.value = plus(forgotten.value, ids);
  const takeBack = toast(`${named(ids)} will be forgotten for good in ${UNDO_S} seconds, if this page stays open.`, {
    seconds: UNDO_S,
    undo: () => {
      waiting.delete(takeBack);
      stay(ids);
    },
    done: async () => {
      waiting.delete(takeBack);
      if (await tried(() => post("/api/forget", { ids }))) toast(`${named(ids)} ${ids.length === 1 ? "is" : "are"} forgotten.`);
      else stay(ids);
    },
  });
  waiting.add(takeBack);
}

const named = (ids: number[]) => (ids.length === 1 ? `#${ids[0]}` : plural(ids.length, "observation"));

// A page that was left may be shown again as it was. Nothing waits to be forgotten then.
addEventListener("pagehide", () => {
  for (const takeBack of [...waiting]) takeBack();
});
