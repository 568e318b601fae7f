// Text and markdown that an agent wrote. Nothing of it becomes a link, an image or HTML.
import { type Token, type Tokens, lexer } from "marked";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { visible } from "../text";
import type { Mark } from "../types";

/** A text. Parts in backticks are code, and `marks` are highlighted. */
export function Text({ text, marks }: { text: string | null | undefined; marks?: string[] | undefined }) {
  const parts = visible(text ?? "").split(/`([^`\n]+)`/);
  return (
    <>
      {parts.map((part, place) => (place % 2 ? <code key={place}>{marked(part, marks)}</code> : marked(part, marks)))}
    </>
  );
}

/** Who said a text, or when. It is ours, and looks unlike anything that a text can say. */
export function Said({ mark }: { mark: Mark | null | undefined }) {
  return mark ? <span class={`said said-${mark}`}>{SAID[mark]}</span> : null;
}

const SAID: Record<Exclude<Mark, "">, string> = { user: "User", proposed: "Proposed", earlier: "Earlier" };

/** Wraps the words of `marks` in a text. */
function marked(text: string, marks: string[] = []): ComponentChildren {
  const words = marks.filter((word) => word.trim()).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!words.length) return text;
  const parts = text.split(new RegExp(`(${words.sort((a, b) => b.length - a.length).join("|")})`, "gi"));
  return parts.map((part, place) => (place % 2 ? <mark key={place}>{part}</mark> : part));
}

/** Markdown without its dangerous parts: HTML stays text, a link shows its address and leads nowhere. */
export function Markdown({ text }: { text: string | null | undefined }) {
  const tokens = useMemo(() => lexer(visible(text ?? ""), { gfm: true }), [text]);
  return <div class="markdown">{blocks(tokens)}</div>;
}

function blocks(tokens: Token[] = []): ComponentChildren {
  return tokens.map((token, place) => <Block key={place} token={token} />);
}

function Block({ token }: { token: Token }): ComponentChildren {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      // The page has its own headings; these only look like some.
      return <p class="heading">{inline(token.tokens)}</p>;
    case "code":
      return (
        <pre tabIndex={0}>
          <code>{token.text}</code>
        </pre>
      );
    case "blockquote":
      return <blockquote>{blocks(token.tokens)}</blockquote>;
    case "hr":
      return <hr />;
    case "list": {
      const items = (token as Tokens.List).items.map((item, place) => <li key={place}>{blocks(item.tokens)}</li>);
      return (token as Tokens.List).ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>;
    }
    case "table":
      return <Table token={token as Tokens.Table} />;
    case "paragraph":
      return <p>{inline(token.tokens)}</p>;
    case "text":
      return token.tokens ? <>{inline(token.tokens)}</> : token.text;
    default:
      return token.raw.trim() ? <p>{token.raw}</p> : null; // HTML and whatever a later version knows
  }
}

function Table({ token }: { token: Tokens.Table }) {
  return (
    <div class="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {token.header.map((cell, place) => (
              <th key={place}>{inline(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, number) => (
            <tr key={number}>
              {row.map((cell, place) => (
                <td key={place}>{inline(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: Token[] = []): ComponentChildren {
  return tokens.map((token, place) => <Inline key={place} token={token} />);
}

function Inline({ token }: { token: Token }): ComponentChildren {
  switch (token.type) {
    case "strong":
      return <strong>{inline(token.tokens)}</strong>;
    case "em":
      return <em>{inline(token.tokens)}</em>;
    case "del":
      return <del>{inline(token.tokens)}</del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "br":
      return <br />;
    case "link":
    case "image":
      return token.text === token.href ? (
        token.href
      ) : (
        <>
          {token.type === "link" ? inline(token.tokens) : token.text} <span class="quiet">({token.href})</span>
        </>
      );
    case "escape":
      return token.text;
    case "text":
      return token.tokens ? inline(token.tokens) : unescape(token.text);
    default:
      return token.raw;
  }
}

const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };

/** Markdown has the entities of HTML. */
function unescape(text: string): string {
  return text.replace(/&(?:amp|lt|gt|quot|#39);/g, (found) => ENTITIES[found] ?? found);
}
