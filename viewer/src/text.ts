// Text that an agent wrote, made harmless: control characters and direction overrides are shown, not obeyed.

// C0 and C1 without tab and line feed, soft hyphen, bidi controls, line separators, BOM, tags.
const CONTROL =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;

/** Shows control characters as escapes such as `\x1b`. */
export function visible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(CONTROL, (found) => {
    const code = found.codePointAt(0) ?? 0;
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

/** A message on one line, without the signs of its markdown. */
export function plain(text: string): string {
  return text.replace(/\*\*|```\w*|(^|\s)(#{1,6}|-{3,})(?=\s)/g, "$1");
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** The first letter large. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Short names of amounts: 12,345 is 12.3k. */
export function short(number: number): string {
  return Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(number);
}

export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  for (; count >= 1000 && unit < units.length - 1; unit++) count /= 1000;
  return `${count < 10 && unit ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}
