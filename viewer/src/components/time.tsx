// Times as people read them.
import { signal } from "@preact/signals";

/** Now, by the minute. */
const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 60_000);

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DATE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const YEAR = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

/** A time: how long ago within an hour, the clock of this day, else the date. `as` chooses one form. */
export function Time({ at, as }: { at: string | null | undefined; as?: "clock" | "date" }) {
  if (!at) return null;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <span>{at}</span>;
  return (
    <time dateTime={at} title={FULL.format(date)}>
      {as === "clock" ? CLOCK.format(date) : as === "date" ? dateOf(date) : relative(date)}
    </time>
  );
}

function relative(date: Date): string {
  const minutes = Math.floor((now.value - date.getTime()) / 60_000);
  if (minutes < 1 && minutes > -2) return "just now";
  if (minutes >= 0 && minutes < 60) return `${minutes} min ago`;
  if (isSameDay(date, new Date(now.value))) return CLOCK.format(date);
  return `${dateOf(date)}, ${CLOCK.format(date)}`;
}

function dateOf(date: Date): string {
  return (date.getFullYear() === new Date(now.value).getFullYear() ? DATE : YEAR).format(date);
}

function isSameDay(one: Date, other: Date): boolean {
  return one.toDateString() === other.toDateString();
}

/** The day of a time, as a heading. */
export function dayOf(at: string): string {
  const date = new Date(at);
  const today = new Date(now.value);
  if (isSameDay(date, today)) return "Today";
  today.setDate(today.getDate() - 1);
  if (isSameDay(date, today)) return "Yesterday";
  return date.getFullYear() === today.getFullYear() ? DAY.format(date) : YEAR.format(date);
}
