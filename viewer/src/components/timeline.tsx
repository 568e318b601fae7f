// What happened around an entry.
import { entryHref } from "../address";
import { get, useLoad } from "../api";
import type { TimelineItem } from "../types";
import { State } from "./state";
import { Text } from "./text";
import { Time } from "./time";

/** How the route names an entry: 12 is an observation, M5 a summary, P7 a prompt. */
const PREFIX: Record<string, string> = { observation: "", summary: "M", prompt: "P" };

export function Timeline({ kind, id }: { kind: string; id: string }) {
  const anchor = `${PREFIX[kind]}${id}`;
  const { data, error, loading } = useLoad(
    (abort) => get<{ items: TimelineItem[] }>("/api/timeline", { anchor, before: 8, after: 8 }, abort),
    [anchor],
  );
  return (
    <section class="timeline">
      <h2>Around it</h2>
      <State loading={loading && !data} error={error} />
      <ol>
        {data?.items.map((item) => (
          <li key={`${item.kind} ${item.id}`} aria-current={item.is_anchor ? "true" : undefined}>
            <Time at={item.created_at} as="clock" />
            <a href={entryHref(item.kind, item.id)} class={`point type-${item.type ?? item.kind}`}>
              <span>{item.type ?? item.kind}</span>
              <Text text={item.title} />
            </a>
          </li>
        ))}
      </ol>
    </section>
  );
}
