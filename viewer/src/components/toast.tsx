// Short messages at the edge of the page.
import { signal } from "@preact/signals";
import { Button } from "./controls";

interface Message {
  id: number;
  text: string;
  seconds: number;
  undo?: () => void;
  done?: () => void;
}

const messages = signal<Message[]>([]);
let count = 0;

interface ToastOptions {
  /** Called if somebody takes it back. */
  undo?: () => void;
  /** Called when the time is over. */
  done?: () => void;
  seconds?: number;
}

/** Shows a message for some seconds. */
export function toast(text: string, { undo, done, seconds = undo ? 10 : 4 }: ToastOptions = {}): void {
  const message: Message = { id: ++count, text, seconds, undo, done };
  messages.value = [...messages.value.slice(-4), message];
  setTimeout(() => close(message) && done?.(), seconds * 1000);
}

function close(message: Message): boolean {
  const isOpen = messages.value.includes(message);
  messages.value = messages.value.filter((one) => one !== message);
  return isOpen;
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {messages.value.map((message) => (
        <div class="toast" key={message.id}>
          <span>{message.text}</span>
          {message.undo && (
            <>
              <Button kind="quiet" onClick={() => close(message) && message.undo?.()}>
                Undo
              </Button>
              <progress-line style={{ animationDuration: `${message.seconds}s` }} />
            </>
          )}
        </div>
      ))}
    </div>
  );
}

declare module "preact" {
  namespace JSX {
    interface IntrinsicElements {
      "progress-line": { style?: Record<string, string> };
    }
  }
}
