// Short messages at the edge of the page.
import { signal } from "@preact/signals";
import { toApiError } from "../api";
import { Button } from "./controls";

interface Message {
  id: number;
  text: string;
  seconds: number;
  undo: (() => void) | undefined;
}

/** Messages that are shown at once, without those that can be undone. */
const MOST = 5;
const messages = signal<Message[]>([]);
/** Ids of messages that were taken back before their time was over. */
const undone = new Set<number>();
let count = 0;

interface ToastOptions {
  /** Called if somebody takes it back. */
  undo?: () => void;
  /** Called when the time is over. */
  done?: () => void;
  seconds?: number;
}

/** Shows a message for some seconds. Returns what takes it back. */
export function toast(text: string, { undo, done, seconds = undo ? 10 : 4 }: ToastOptions = {}): () => void {
  const message: Message = { id: ++count, text, seconds, undo };
  // Of those that cannot be undone, only the last few: an undo stays for its time.
  const old = messages.value.filter((one) => !one.undo).slice(0, -(MOST - 1));
  messages.value = [...messages.value.filter((one) => !old.includes(one)), message];
  setTimeout(() => {
    if (!undone.delete(message.id)) done?.();
    close(message);
  }, seconds * 1000);
  return () => takeBack(message);
}

/** Runs a change, and says why it failed if it does. Returns null then. */
export async function tried<T>(work: () => Promise<T>): Promise<T | null> {
  try {
    return await work();
  } catch (problem) {
    const { error, hint } = toApiError(problem);
    toast(`${error} ${hint}`.trim(), { seconds: 8 });
    return null;
  }
}

function close(message: Message): void {
  messages.value = messages.value.filter((one) => one !== message);
}

function takeBack(message: Message): void {
  undone.add(message.id);
  close(message);
  message.undo?.();
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {messages.value.map((message) => (
        <div class="toast" key={message.id}>
          <span>{message.text}</span>
          {message.undo && (
            <>
              <Button kind="quiet" onClick={() => takeBack(message)}>
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
