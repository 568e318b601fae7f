// The provider of observations: which one is used, whether it works, and a button that asks it something.
import { useState } from "preact/hooks";
import { type ApiError, post, toApiError } from "../api";
import { Badge, Button } from "../components";
import { duration } from "../format";
import type { Health, ProviderAnswer } from "../types";

export function Provider({ health }: { health: Health | undefined }) {
  const [answer, setAnswer] = useState<ProviderAnswer>();
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const test = async () => {
    setBusy(true);
    setAnswer(undefined);
    setError(undefined);
    try {
      setAnswer(await post<ProviderAnswer>("/api/settings/test"));
    } catch (problem) {
      setError(toApiError(problem));
    }
    setBusy(false);
  };
  return (
    <div class="provider">
      <div class="line">
        <div>
          <strong>{health ? [health.provider, health.model].filter(Boolean).join(", ") : "…"}</strong>{" "}
          {health?.provider === "offline" && <span class="quiet">rules on this machine, without a model</span>}
          {health?.provider_trouble && <p class="warn">{health.provider_trouble}</p>}
        </div>
        <Button onClick={() => void test()} disabled={busy}>
          {busy ? "Asking …" : "Test"}
        </Button>
      </div>
      <p role="status">
        {answer && (
          <>
            <Badge tone={answer.ok ? "ok" : "warn"}>{answer.ok ? "works" : "does not work"}</Badge> {answer.says}{" "}
            {answer.seconds > 0 && <span class="quiet">{duration(answer.seconds)}</span>}
          </>
        )}
        {error && (
          <span class="warn">
            {error.error} {error.hint}
          </span>
        )}
      </p>
    </div>
  );
}
