// Buttons, badges and dialogs.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { toast } from "./toast";

interface ButtonProps {
  children: ComponentChildren;
  onClick?: (event: MouseEvent) => void;
  /** `quiet` is a word that acts, `danger` cannot be undone, `main` is what the page is for. */
  kind?: "main" | "quiet" | "danger";
  /** What it does, where its content is only a sign. */
  label?: string;
  /** More about it, on hover. */
  hint?: string;
  disabled?: boolean;
  pressed?: boolean;
  type?: "button" | "submit";
}

export function Button({ children, onClick, kind, label, hint, disabled, pressed, type = "button" }: ButtonProps) {
  return (
    <button
      type={type}
      class={`button ${kind ?? ""}`}
      onClick={onClick}
      disabled={disabled}
      aria-pressed={pressed}
      aria-label={label}
      title={hint ?? label}
    >
      {children}
    </button>
  );
}

/** A button that copies a text. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      toast("Copied.");
    } catch {
      toast("The browser does not let this page copy.");
    }
  };
  return <Button onClick={copy}>{label}</Button>;
}

/** A word about an entry. The type of an observation has its own colour. */
export function Badge({ children, type, tone }: { children: ComponentChildren; type?: string | null; tone?: "ok" | "warn" | undefined }) {
  return <span class={`badge ${type ? `type-${type}` : ""} ${tone ?? ""}`}>{children}</span>;
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}

/** A dialog that is open while it is shown. Escape and a click beside it close it. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-label={title}
      onClose={onClose}
      onClick={(event) => event.target === event.currentTarget && dialog.current?.close()}
    >
      <div class="dialog">
        <header>
          <h2>{title}</h2>
          <Button kind="quiet" label="Close" onClick={() => dialog.current?.close()}>
            ✕
          </Button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
