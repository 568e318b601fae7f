// What stands in place of content: it loads, there is none, or it failed.
import type { ComponentChildren } from "preact";
import { type ApiError, connection } from "../api";
import { Button } from "./controls";
import { Text } from "./text";

interface StateProps {
  loading?: boolean;
  error?: ApiError | null | undefined;
  /** What to say if there is nothing. Without it, there is something. */
  empty?: ComponentChildren;
  retry?: () => void;
}

/** Shows the error, else that it loads, else that there is nothing. */
export function State({ loading, error, empty, retry }: StateProps) {
  if (error?.status === 0 && connection.value !== "live") {
    return (
      <Notice title="The worker does not answer">
        <p>This page goes on by itself as soon as it does.</p>
        <p>
          <code>backstory start</code> starts it, <code>backstory doctor</code> says what is wrong.
        </p>
      </Notice>
    );
  }
  if (error) {
    return (
      <Notice title={error.error} isError>
        {error.hint && (
          <p>
            <Text text={error.hint} />
          </p>
        )}
        {retry && <Button onClick={retry}>Try again</Button>}
      </Notice>
    );
  }
  if (loading) {
    return (
      <div class="skeleton" role="status" aria-label="Loading">
        <i />
        <i />
        <i />
        <i />
        <i />
      </div>
    );
  }
  return empty ? <div class="notice">{empty}</div> : null;
}

function Notice({ title, children, isError }: { title: string; children?: ComponentChildren; isError?: boolean }) {
  return (
    <div class="notice" role={isError ? "alert" : "status"}>
      <h2>
        <Text text={title} />
      </h2>
      {children}
    </div>
  );
}
