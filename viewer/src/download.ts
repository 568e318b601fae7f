// Saves an answer of the worker as a file. A link could not send our credential.
import { ApiError, headers } from "./api";

export async function download(path: string, params: Record<string, string>, name: string): Promise<void> {
  const answer = await fetch(`${path}?${new URLSearchParams(params)}`, { headers: headers() });
  if (!answer.ok) throw new ApiError(answer.status, `The worker answered ${answer.status}.`);
  const address = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
