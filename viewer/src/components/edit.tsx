// The form that edits an observation.
import { useState } from "preact/hooks";
import { edit } from "../curate";
import type { Observation } from "../types";
import { TYPES } from "../types";
import { Button } from "./controls";

interface EditFormProps {
  observation: Observation;
  onDone: () => void;
  onCancel: () => void;
}

const lines = (text: string) =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);

export function EditForm({ observation, onDone, onCancel }: EditFormProps) {
  const [isSaving, setSaving] = useState(false);
  const types = TYPES.some((type) => type === observation.type) ? TYPES : [observation.type, ...TYPES];
  const save = async (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    const now = {
      type: text("type"),
      title: text("title"),
      subtitle: text("subtitle"),
      narrative: text("narrative"),
      facts: lines(text("facts")),
      concepts: lines(text("concepts").replaceAll(",", "\n")),
    };
    const before = observation as unknown as Record<string, unknown>;
    const changed = Object.entries(now).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]));
    setSaving(true);
    const isSaved = !changed.length || (await edit(observation.id, Object.fromEntries(changed)));
    setSaving(false);
    if (isSaved) onDone();
  };
  return (
    <form class="edit" aria-label={`Edit #${observation.id}`} onSubmit={save}>
      <label>
        Title
        <textarea name="title" rows={2} required maxLength={500} defaultValue={observation.title} autofocus />
      </label>
      <label>
        Type
        <select name="type" defaultValue={observation.type}>
          {types.map((type) => (
            <option key={type} selected={type === observation.type}>
              {type}
            </option>
          ))}
        </select>
      </label>
      <label>
        Subtitle
        <input name="subtitle" maxLength={500} defaultValue={observation.subtitle} />
      </label>
      <label>
        Narrative
        <textarea name="narrative" rows={6} defaultValue={observation.narrative} />
      </label>
      <label>
        Facts, one on each line
        <textarea name="facts" rows={5} defaultValue={observation.facts.join("\n")} />
      </label>
      <label>
        Concepts, with commas between them
        <input name="concepts" defaultValue={observation.concepts.join(", ")} />
      </label>
      <p class="buttons">
        <Button type="submit" kind="main" disabled={isSaving}>
          Save
        </Button>
        <Button onClick={onCancel}>Cancel</Button>
      </p>
    </form>
  );
}
