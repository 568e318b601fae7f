// A long list of which only the visible rows exist. `j` and `k` move through it.
import { Virtualizer, observeWindowOffset, observeWindowRect, windowScroll } from "@tanstack/virtual-core";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";
import { useKeys } from "../keyboard";

interface RowsProps<T> {
  items: T[];
  render: (item: T, index: number) => ComponentChildren;
  /** What a row is known by. It keeps its height and its focus when others come before it. */
  name: (item: T) => string;
  /** Called when the end comes into sight. */
  onEnd?: () => void;
  /** Called with the focused row by Enter. */
  onOpen?: (item: T) => void;
  /** Other keys, for the focused row. */
  keys?: Record<string, (item: T) => void>;
  /** Pixels of a row, about. */
  estimate?: number;
  label?: string;
}

export function Rows<T>({ items, render, name, onEnd, onOpen, keys = {}, estimate = 72, label }: RowsProps<T>) {
  const list = useRef<HTMLDivElement>(null);
  const [, update] = useReducer((n: number) => n + 1, 0);
  const focused = useRef<string | null>(null);
  const options = {
    count: items.length,
    getScrollElement: () => window,
    estimateSize: () => estimate,
    getItemKey: (index: number) => name(items[index] as T),
    scrollToFn: windowScroll,
    observeElementRect: observeWindowRect,
    observeElementOffset: observeWindowOffset,
    scrollMargin: list.current ? list.current.getBoundingClientRect().top + scrollY : 0,
    overscan: 6,
    onChange: () => update(0),
  };
  const [virtual] = useState(() => new Virtualizer<Window, HTMLElement>(options));
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  const visible = virtual.getVirtualItems();
  const end = visible.at(-1)?.index ?? -1;
  useEffect(() => {
    if (end >= items.length - 10) onEnd?.();
  }, [end, items.length]);

  const current = () => items.findIndex((item) => name(item) === focused.current);
  const move = (by: number) => {
    const first = visible.find((row) => row.start + row.size > scrollY)?.index ?? 0;
    const at = current() < 0 ? first : Math.min(Math.max(current() + by, 0), items.length - 1);
    if (!items[at]) return;
    focused.current = name(items[at]);
    virtual.scrollToIndex(at, { align: "auto" });
    update(0);
    requestAnimationFrame(() => list.current?.querySelector<HTMLElement>(`[data-index="${at}"]`)?.focus());
  };
  const act = (run?: (item: T) => void) => () => {
    const item = items[current()];
    if (item) run?.(item);
  };
  const others = Object.entries(keys).map(([key, run]) => [key, act(run)] as const);
  useKeys({ j: () => move(1), k: () => move(-1), ...Object.fromEntries(others) });

  return (
    <div class="rows" role="feed" aria-label={label} ref={list} style={{ height: `${virtual.getTotalSize()}px` }}>
      {visible.map((row) => {
        const item = items[row.index] as T;
        const top = row.start - virtual.options.scrollMargin;
        return (
          <article
            key={row.key}
            data-index={row.index}
            ref={virtual.measureElement}
            tabIndex={0}
            aria-posinset={row.index + 1}
            aria-setsize={-1}
            style={{ transform: `translateY(${top}px)` }}
            onFocus={() => {
              focused.current = name(item);
            }}
            onKeyDown={(event) => {
              if (event.key === "Enter" && event.target === event.currentTarget) onOpen?.(item);
            }}
          >
            {render(item, row.index)}
          </article>
        );
      })}
    </div>
  );
}
