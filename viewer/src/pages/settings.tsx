// Settings: every one with its sentence, its value and its default. A secret can be written and is never shown.
import { useState } from "preact/hooks";
import { address, setParam } from "../address";
import { type ApiError, get, patch, toApiError, useLoad } from "../api";
import { Badge, Button, State, Text, toast } from "../components";
import { getHealth } from "../health";
import { plural } from "../text";
import type { Health, Setting } from "../types";
import { Provider } from "./provider";

/** Heading -> how the names of its settings begin. A setting is below the first that fits. */
const PARTS: [string, RegExp][] = [
  ["Provider", /^(provider|model|base_url|api_key|mode|language|daily_|call_|claude_)/],
  ["Context", /^(context_|prompt_)/],
  ["Search", /^embed/],
  ["What is recorded", /^(skip_|exclude_|keep_|output_)/],
  ["Sessions", /^(pause_|expire_|sweep_)/],
  ["Groups", /^(group_|assistant_|main_)/],
  ["Worker", /./],
];

export default function Settings() {
  const load = useLoad<{ items: Setting[] }>((abort) => get("/api/settings", {}, abort), []);
  const health = useLoad<Health>(getHealth, [load.data]);
  const { params } = address.value;
  const words = (params.get("words") ?? "").toLowerCase();
  const isShort = params.get("changed") === "1";
  const items = load.data?.items ?? [];
  const changed = items.filter((one) => one.is_changed);
  const wanted = (isShort ? changed : items).filter((one) => `${one.name} ${one.description}`.toLowerCase().includes(words));
  return (
    <>
      <header>
        <h1>Settings</h1>
        {load.data && <span class="quiet">{changed.length ? plural(changed.length, "change") : "all at their defaults"}</span>}
      </header>
      <div class="filters">
        <label class={words ? "set" : ""}>
          <span>find</span>
          <input type="text" value={params.get("words") ?? ""} onInput={(event) => setParam("words", event.currentTarget.value)} />
        </label>
        <Button pressed={isShort} onClick={() => setParam("changed", isShort ? "" : "1")}>
          Changed only
        </Button>
      </div>
      {!load.data && <State loading={load.loading} error={load.error} retry={load.reload} />}
      {load.data && !wanted.length && <State empty={<p>No setting matches.</p>} />}
      {parts(wanted).map(([title, settings]) => (
        <section key={title}>
          <h2>{title}</h2>
          {title === "Provider" && <Provider health={health.data} />}
          {settings.map((setting) => (
            <SettingRow key={`${setting.name} ${written(setting.value)} ${setting.is_set}`} setting={setting} saved={load.reload} />
          ))}
        </section>
      ))}
    </>
  );
}

function parts(items: Setting[]): [string, Setting[]][] {
  const place = (one: Setting) => PARTS.findIndex(([, begins]) => begins.test(one.name));
  const found = PARTS.map(([title], index): [string, Setting[]] => [title, items.filter((one) => place(one) === index)]);
  return found.filter(([, settings]) => settings.length);
}

function written(value: Setting["value"]): string {
  return Array.isArray(value) ? value.join(", ") : String(value ?? "");
}

function SettingRow({ setting, saved }: { setting: Setting; saved: () => void }) {
  const before = setting.is_secret ? "" : written(setting.value);
  const [typed, setTyped] = useState(before);
  const [error, setError] = useState<ApiError>();
  const isFixed = setting.source === "environment" || !setting.is_editable;
  const save = async (text: string | null) => {
    const isNumber = setting.type === "integer" || setting.type === "number";
    const value = isNumber && text?.trim() && Number.isFinite(Number(text)) ? Number(text) : text;
    try {
      await patch("/api/settings", { [setting.name]: value });
      const now = text === null ? (setting.is_secret ? "removed" : "at its default") : "saved";
      toast(`${setting.name} is ${now}.${setting.needs_restart ? " It applies after a restart." : ""}`);
      if (setting.is_secret) setTyped(""); // nothing of it stays in the page
      saved();
    } catch (problem) {
      setError(toApiError(problem));
    }
  };
  const change = (value: string) => {
    setTyped(value);
    setError(undefined);
    if (setting.choices.length) void save(value);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    void save(typed);
  };
  return (
    <form class="setting" onSubmit={submit}>
      <div>
        <label for={`setting-${setting.name}`}>{setting.name}</label> {setting.is_changed && <Badge tone="ok">changed</Badge>}{" "}
        {setting.is_pending && <Badge tone="warn">waits for a restart</Badge>}
        <p>
          <Text text={setting.description} />
        </p>
      </div>
      <div>
        <Field setting={setting} typed={typed} change={change} disabled={isFixed} />
        <p class="quiet">
          <Origin setting={setting} />
        </p>
        {error && (
          <p class="warn" role="alert">
            {error.error} {error.hint}
          </p>
        )}
        {(typed !== before || (setting.is_changed && !isFixed)) && (
          <div class="buttons">
            {typed !== before && !setting.choices.length && (
              <Button kind="main" type="submit">
                Save
              </Button>
            )}
            {setting.is_changed && !isFixed && (
              <Button kind="quiet" onClick={() => void save(null)} label={setting.is_secret ? `Remove ${setting.name}` : `Use the default of ${setting.name}`}>
                {setting.is_secret ? "Remove" : "Use the default"}
              </Button>
            )}
          </div>
        )}
      </div>
    </form>
  );
}

/** Where the value comes from, and what it would be otherwise. */
function Origin({ setting }: { setting: Setting }) {
  const restart = setting.needs_restart ? " Applies after a restart." : "";
  if (setting.source === "environment") return <>Set by a variable of the environment.</>;
  if (setting.is_secret) return <>{setting.is_set ? "It is set, and never shown." : "Not set."}</>;
  const usual = `Default: ${written(setting.default) || "empty"}.`;
  if (setting.is_editable) return <>{usual + restart}</>;
  return (
    <>
      {usual} Only <code>backstory config set {setting.name}</code> changes it.
    </>
  );
}

interface FieldProps {
  setting: Setting;
  typed: string;
  change: (value: string) => void;
  disabled: boolean;
}

function Field({ setting, typed, change, disabled }: FieldProps) {
  const id = `setting-${setting.name}`;
  if (setting.choices.length) {
    return (
      <select id={id} value={typed} disabled={disabled} onChange={(event) => change(event.currentTarget.value)}>
        {setting.choices.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    );
  }
  const kind = setting.is_secret ? ({ type: "password" } as const) : ({ type: "text" } as const);
  return (
    <input
      {...kind}
      id={id}
      value={typed}
      disabled={disabled}
      autocomplete="off"
      spellcheck={false}
      placeholder={setting.is_secret ? (setting.is_set ? "Replace it" : "Write it here") : ""}
      onInput={(event) => change(event.currentTarget.value)}
    />
  );
}
