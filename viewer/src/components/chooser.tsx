// Chooses an observation by its number or by words.
import { useState } from "preact/hooks";
import { get, useLoad } from "../api";
import type { Found, Hit } from "../types";
import { Dialog } from "./controls";
import { State } from "./state";
import { Said, Text } from "./text";

interface ChooserProps {
  title: string;
  project: string;
  /** The observation that cannot be chosen. */
  except: number;
  onChoose: (id: number) => void;
  onClose: () => void;
}

export function Chooser({ title, project, except, onChoose, onClose }: ChooserProps) {
  const [words, setWords] = useState("");
  const number = Number(words.replace("#", ""));
  const isNumber = Number.isInteger(number) && number > 0;
  const { data, error, loading } = useLoad(
    (abort) => get<Found>("/api/search", { query: words, project, kind: "observations", limit: 8 }, abort),
    [words],
  );
  const found: Pick<Hit, "id" | "mark" | "title" | "type">[] = data?.items.filter((hit) => hit.id !== except) ?? [];
  return (
    <Dialog title={title} onClose={onClose}>
      <input
        type="search"
        class="wide"
        aria-label="Number or words"
        placeholder="Number or words"
        value={words}
        onInput={(event) => setWords(event.currentTarget.value)}
        autofocus
      />
      <ul class="choices">
        {isNumber && (
          <li>
            <button type="button" onClick={() => onChoose(number)}>
              #{number}
            </button>
          </li>
        )}
        {found.map((hit) => (
          <li key={hit.id}>
            <button type="button" onClick={() => onChoose(hit.id)}>
              <span class={`type-${hit.type}`}>#{hit.id}</span> <Said mark={hit.mark} /><Text text={hit.title} />
            </button>
          </li>
        ))}
      </ul>
      <State loading={loading && !found.length} error={error} empty={found.length || isNumber ? null : "Nothing is found."} />
    </Dialog>
  );
}
