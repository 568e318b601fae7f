// What can be done with observations: the buttons of one, and the bar for those that are selected.
import { signal } from "@preact/signals";
import { go } from "../address";
import { forget, hide, merge, pin } from "../curate";
import { useKeys } from "../keyboard";
import { plural } from "../text";
import { Button } from "./controls";

/** Ids of the observations that are selected. */
export const selected = signal<ReadonlySet<number>>(new Set());

export function select(id: number): void {
  const next = new Set(selected.value);
  if (!next.delete(id)) next.add(id);
  selected.value = next;
}

export function clearSelection(): void {
  selected.value = new Set();
}

/** The buttons of an observation in a list. They appear with the pointer or the focus. */
export function Actions({ id, pinned }: { id: number; pinned: boolean }) {
  return (
    <span class="actions">
      <Button kind="quiet" onClick={() => pin(id, !pinned)}>
        {pinned ? "Unpin" : "Pin"}
      </Button>
      <Button kind="quiet" onClick={() => go(`/o/${id}`, { edit: 1 })}>
        Edit
      </Button>
      <Button kind="quiet" onClick={() => hide([id])}>
        Hide
      </Button>
      <Button kind="quiet" onClick={() => forget([id])}>
        Forget
      </Button>
    </span>
  );
}

/** What can be done with the selected observations. */
export function SelectionBar() {
  useKeys(selected.value.size ? { Escape: clearSelection } : {});
  const ids = [...selected.value];
  if (!ids.length) return null;
  const run = (act: () => unknown) => () => {
    clearSelection();
    void act();
  };
  return (
    <div class="selection" role="toolbar" aria-label="Selected observations">
      <strong>{plural(ids.length, "observation")}</strong>
      <Button onClick={run(() => Promise.all(ids.map((id) => pin(id))))}>Pin</Button>
      <Button onClick={run(() => hide(ids))}>Hide</Button>
      <Button
        disabled={ids.length < 2}
        hint="The first that was selected stands, with the facts of all"
        onClick={run(async () => {
          const row = await merge(ids);
          if (row) go(`/o/${row.id}`);
        })}
      >
        Merge
      </Button>
      <Button kind="danger" onClick={run(() => forget(ids))}>
        Forget
      </Button>
      <Button kind="quiet" onClick={clearSelection}>
        Clear
      </Button>
    </div>
  );
}
