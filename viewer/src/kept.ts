// Keeps what is shown until the next is there, so that nothing jumps.
import { useRef } from "preact/hooks";

/** Returns a value, or the last one that there was. */
export function useKept<T>(value: T | undefined): T | undefined {
  const kept = useRef<T | undefined>(undefined);
  if (value !== undefined) kept.current = value;
  return kept.current;
}
