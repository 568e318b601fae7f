// Keys that work anywhere on the page, except while somebody types.
import { useLayoutEffect } from "preact/hooks";

export type Keys = Record<string, (event: KeyboardEvent) => void>;

/** The newest is asked first. */
const layers: Keys[] = [];

/** Binds keys while a component is shown: before it is painted, so that no key meets what was there before. */
export function useKeys(keys: Keys): void {
  useLayoutEffect(() => {
    layers.push(keys);
    return () => void layers.splice(layers.indexOf(keys), 1);
  });
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isTyping(event.target) && event.key !== "Escape") return;
  if (document.querySelector("dialog[open]")) return; // Escape closes it
  for (const keys of layers.toReversed()) {
    const act = keys[event.key];
    if (act) {
      event.preventDefault();
      act(event);
      return;
    }
  }
});
