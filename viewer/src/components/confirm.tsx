// A dialog that asks before something happens, and says so if it fails.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, toApiError } from "../api";
import { Button, Dialog } from "./controls";

interface ConfirmProps {
  title: string;
  /** The word on the button. */
  confirm: string;
  kind?: "main" | "danger";
  disabled?: boolean;
  onConfirm: () => Promise<void>;
  onClose: () => void;
  children?: ComponentChildren;
}

export function Confirm({ title, confirm, kind = "main", disabled, onConfirm, onClose, children }: ConfirmProps) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const act = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await onConfirm();
    } catch (problem) {
      setError(toApiError(problem));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={act}>
        {children}
        {error && (
          <p class="warn" role="alert">
            {error.error} {error.hint}
          </p>
        )}
        <div class="buttons end">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind={kind} type="submit" disabled={busy || disabled}>
            {confirm}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
