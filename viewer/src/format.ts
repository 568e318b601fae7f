// How durations, money and days are written.
import { plural } from "./text";

/** A duration as people say it: 0.4 s, 12 s, 3 min, 2 h, 4 days. */
export function duration(seconds: number): string {
  if (seconds < 10) return `${seconds && seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return plural(Math.round(seconds / 86_400), "day");
}

/** Millionths of a dollar as money. */
export function money(micros: number | null): string {
  if (micros === null) return "unknown";
  const dollars = micros / 1_000_000;
  return `$${dollars.toFixed(dollars > 0 && dollars < 1 ? 4 : 2)}`;
}

/** A stored day (2026-11-16) as a short label: 16 Nov. */
export function day(stored: string): string {
  const at = new Date(`${stored}T12:00:00`);
  return Number.isNaN(at.valueOf()) ? stored : at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}
