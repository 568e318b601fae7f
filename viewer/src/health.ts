// The state of the worker, for every page: asked when it comes back, kept up to date by its stream.
import { effect, signal } from "@preact/signals";
import { connection, get } from "./api";
import { subscribe } from "./stream";
import type { Health } from "./types";

export const health = signal<Health | null>(null);

/** The queue as the stream told it last, since the worker was asked. It is newer than the answer. */
let told: Health["queue"] | null = null;

async function ask(): Promise<void> {
  told = null;
  const answer = await get<Health>("/api/health").catch(() => health.value);
  health.value = answer && { ...answer, queue: told ?? answer.queue };
}

export function followHealth(): void {
  effect(() => {
    if (connection.value === "live") void ask();
  });
  subscribe((event, data) => {
    if (event !== "queue") return;
    told = data;
    if (health.value) health.value = { ...health.value, queue: data };
  });
}
