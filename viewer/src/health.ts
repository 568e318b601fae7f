// The state of the worker, for every page: asked when it comes back, kept up to date by its stream.
import { effect, signal } from "@preact/signals";
import { ApiError, connection, get, signedOut } from "./api";
import { subscribe } from "./stream";
import type { Health } from "./types";

export const health = signal<Health | null>(null);

/** The queue as the stream told it last, since the worker was asked. It is newer than the answer. */
let told: Health["queue"] | null = null;

/** Asks the worker for its state. A browser whose session has ended learns only that the worker is there. */
export async function getHealth(abort?: AbortSignal): Promise<Health> {
  const answer = await get<Health | { status: string }>("/api/health", {}, abort);
  if ("version" in answer) return answer;
  signedOut.value = true;
  throw new ApiError(401, "This browser is not signed in.");
}

async function ask(): Promise<void> {
  told = null;
  const answer = await getHealth().catch(() => health.value);
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
