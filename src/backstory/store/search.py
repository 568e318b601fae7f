"""Words in, words out: the text index of observations, summaries and prompts."""

from __future__ import annotations

import json
import re
import unicodedata

from backstory.store.db import Row, Tx

#: Longer texts are indexed by their beginning; the whole stays in its own table.
INDEXED_CHARS = 20_000
_WORD = re.compile(r"\w+", re.UNICODE)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]*)+|(?:[A-Z][a-z0-9]+){2,}")
_ACCENT = re.compile("[\u0300-\u036f]")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
#: Words that say nothing about what is looked for.
_COMMON = frozenset(
    "a an and are as at be but by did do does for from had has have how i if in into is it its me my of on or our "  # noqa: SIM905 - a list of words reads as one
    "so that the their them then there these they this to was we were what when where which who why will with you "
    "your".split()
)


def _plain(text: str) -> str:
    """Without accents: `café` is found by `cafe`, on an engine that does not know that too."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", text)))


def with_parts(text: str) -> str:
    """A text with the parts of its identifiers behind it: `parseDate` is found by `date` too."""
    text = _plain(text[:INDEXED_CHARS])
    parts: dict[str, None] = {}
    for word in _NAME.findall(text):
        # Nobody names a thing with more letters; a blob of them would take the pattern below minutes.
        if len(word) <= 100 and ("_" in word or not word.islower()):
            for name in _IDENTIFIER.findall(word):
                parts.update(dict.fromkeys(_PART.findall(name)))
    return f"{text}\n{' '.join(parts)}" if parts else text


def put_words(tx: Tx, kind: str, item_id: int, title: str, body: str, project: str, project_key: str) -> None:
    """Index an item; one that is indexed already is indexed anew."""
    remove_words(tx, kind, item_id)
    tx.run(
        "words_add",
        title=with_parts(title),
        body=with_parts(body),
        kind=kind,
        item_id=item_id,
        project=project,
        project_key=project_key,
    )
    row = tx.one("words_added")
    assert row is not None  # noqa: S101 - it was just inserted
    where = {"project": project, "project_key": project_key}
    tx.run("word_row_add", kind=kind, item_id=item_id, words_rowid=row["rowid"], **where)


def remove_words(tx: Tx, kind: str, item_id: int) -> None:
    if row := tx.one("word_row", kind=kind, item_id=item_id):
        tx.run("words_remove", words_rowid=row["words_rowid"])
        tx.run("word_row_remove", kind=kind, item_id=item_id)


def terms_for(query: str) -> list[str]:
    """Any text as what is looked for: its words, letters and digits only; quoted phrases stay phrases."""
    query = _plain(query)
    phrases = re.findall(r'"([^"]+)"', query)
    rest = re.sub(r'"[^"]*"', " ", query)
    terms: dict[str, None] = {}
    for phrase in phrases:
        if words := _WORD.findall(phrase):
            terms[" ".join(words)] = None
    for text in with_parts(rest[:2000]).split():
        terms.update(dict.fromkeys(word.replace("_", " ") for word in _WORD.findall(text)))
    wanted = [term for term in terms if term.lower() not in _COMMON and term.strip()] or [t for t in terms if t.strip()]
    return wanted[:40]


def words_of(query: str) -> list[str]:
    """The words and quoted phrases of a query, as they stand."""
    query = _plain(query)
    phrases = [" ".join(phrase.split()) for phrase in re.findall(r'"([^"]+)"', query)]
    return [term for term in (*phrases, *re.sub(r'"[^"]*"?', " ", query).split()) if _WORD.search(term)]


def find(
    tx: Tx, query: str, project: str = "", kind: str = "", limit: int = 20, skip: int = 0, every: bool = False
) -> list[Row]:
    """Observations, summaries and prompts with these words, best first. No match is an empty list."""
    terms = words_of(query)[:40] if every else terms_for(query)
    if not terms:
        return []
    told = json.dumps(terms, ensure_ascii=False)
    hits = tx.all("words_find", terms=told, every=int(every), project=project, kind=kind, limit=limit, skip=skip)
    found: dict[tuple[str, int], Row] = {}
    for name in ("observation", "summary", "prompt"):
        wanted = [hit["item_id"] for hit in hits if hit["kind"] == name]
        if wanted:
            table = {"observation": "observations", "summary": "summaries", "prompt": "prompts"}[name]
            for row in tx.all(f"found_{table}", ids=json.dumps(wanted)):
                found[name, row["id"]] = row
    return [
        {"kind": hit["kind"], "score": round(-hit["score"], 6)} | found[hit["kind"], hit["item_id"]]
        for hit in hits
        if (hit["kind"], hit["item_id"]) in found
    ]
