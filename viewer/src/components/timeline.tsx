// What happened around an entry.
import { entryHref } from "../address";
import { get, useLoad } from "../api";
import type { TimelineItem } from "../types";
import { State } from "./state";
import { Said, Text } from "./text";
import { Time } from "./time";

export function Timeline({ kind, id }: { kind: string; id: string }) {
  const { data, error, loading } = useLoad(
    (abort) => get<{ items: TimelineItem[] }>("/api/timeline", { anchor: id, kind, before: 8, after: 8 }, abort),
    [kind, id],
  );
  return (
    <section class="timeline">
      <h2>Around it</h2>
      <State loading={loading && !data} error={error} />
      <ol>
        {data?.items.map((item) => (
          <li key={`${item.kind} ${item.id}`} aria-current={item.is_anchor ? "true" : undefined}>
            <Time at={item.created_at} as="clock" />
            <a href={entryHref(item.kind, item.id)} class="point">
              <span class={`type-${item.type ?? item.kind}`}>{item.type ?? item.kind}</span>{" "}
              <Said mark={item.mark} /><Text text={item.title} />
            </a>
          </li>
        ))}
      </ol>
    </section>
  );
}
