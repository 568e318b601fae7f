// The state of the worker, for every page: asked when it comes back, kept up to date by its stream.
import { effect, signal } from "@preact/signals";
import { connection, get } from "./api";
import { subscribe } from "./stream";
import type { Health } from "./types";

export const health = signal<Health | null>(null);

async function ask(): Promise<void> {
  health.value = await get<Health>("/api/health").catch(() => health.value);
}

export function followHealth(): void {
  effect(() => {
    if (connection.value === "live") void ask();
  });
  subscribe((event, data) => {
    if (event === "queue" && health.value) health.value = { ...health.value, queue: data };
  });
}
