"""Labels: who said a line, printed by us alone. A text that begins like a label of ours is printed without it."""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

from backstory.model import ClaimMark
from backstory.text import one_line, visible

#: How a mark is printed before a text.
PRINTED = {
    ClaimMark.NONE: "",
    ClaimMark.USER: "User: ",
    ClaimMark.PROPOSED: "Proposed: ",
    ClaimMark.EARLIER: "Earlier: ",
}
#: Printed before a text without a mark that follows a marked one, because a mark seems to hold up to the next one.
UNMARKED = "Noted: "
#: Texts whose printed form is cached, because a context is made of the same ones again and again.
TEXTS_REMEMBERED = 2048
#: Characters of such a text, at most.
LONGEST_REMEMBERED = 1000
#: Labels that are removed one after another, at most.
MAX_LABELS = 8
#: Characters that look like Latin letters or a colon, and that Unicode does not map to them.
_LOOKALIKES = str.maketrans(
    "аɑαеεᴇрρᴘοоօᴏсϲᴄѕꜱіιɪԁᴅոɴпհһнυսᴜ∪ꓴʀгⲅӏʟмᴍуүтᴛτ∶꞉ː։׃ꓽ⁚᛬⠆˸\U0001d108ı",
    "aaaeeepppoooocccssiiiddnnnhhhuuuuurrrllmmyyttt:::::::::::i",
) | {first + at: chr(ord("a") + at) for first in (0x1F150, 0x1F170, 0x1F1E6) for at in range(26)}


def _letters(text: str) -> tuple[str, list[int] | range]:
    """Return a text in lower case, with lookalikes as the letters that they look like, and the place of each of its
    characters in the text, and of its end."""
    if text.isascii():
        return text.lower(), range(len(text) + 1)
    letters, places = [], []
    for place, char in enumerate(text):
        for part in char if char < "\x80" else unicodedata.normalize("NFKD", char):
            if part < "\x80" or not unicodedata.combining(part):
                letters.append(part.lower()[0])
                places.append(place)
    return "".join(letters).translate(_LOOKALIKES), [*places, len(text)]


def _written(words: str) -> tuple[str, ...]:
    return tuple(_letters(word)[0] for word in words.split())


_OTHERS = ("system", "proposed", "earlier", "asked", "pinned", "noted")
_ENGLISH = ("user", "human", "decision", *_OTHERS)


def _spaced(words: tuple[str, ...]) -> str:
    """Match any of these words; the English ones, also with a character between its letters: `U-s-e-r`."""
    return "|".join(r"[\W_]?".join(word) if word in _ENGLISH else re.escape(word) for word in words)


_USERS = _written(
    "user human benutzer nutzer anwender utilisateur usuario utilizador utente gebruiker användare bruger bruker "
    "käyttäjä użytkownik uživatel felhasználó kullanıcı pengguna пользователь користувач χρήστης المستخدم משתמש "
    "उपयोगकर्ता 用户 用戶 使用者 ユーザー ユーザ 사용자"
)
_DECISIONS = _written(
    "decision entscheidung decisione decisao beslissing besluit beslut beslutning päätös decyzja rozhodnutí döntés "
    "karar keputusan решение рішення απόφαση القرار החלטה निर्णय 决定 決定 결정"
)
#: Every label contains one of these, without what separates its letters; a numbered one contains `#`.
_NOT_LETTERS = re.compile(r"[\W_]+")
_NAMES_OF_USERS = tuple(_NOT_LETTERS.sub("", word) for word in _USERS)
_NAMES_OF_DECISIONS = tuple(_NOT_LETTERS.sub("", word) for word in _DECISIONS)
_STEMS = ("commit", *_NAMES_OF_USERS, *_NAMES_OF_DECISIONS, *_OTHERS)
_ASCII_STEMS = tuple(filter(str.isascii, _STEMS))
_SAYS = (
    r"(?:says?|said|wants?|asks?|asked|prefers?|preferences?|decided|decides|decisions?|requires?|rules?|told|"
    r"instructions?|instructs|instructed|requests?|requested|messages?|confirm(?:s|ed)|approve[sd]|verified|"
    r"answer(?:s|ed)?|insists?|wishes)"
)
_ALSO = r"(?:has|had|explicitly|clearly|already|also|always|standing|own)"
_BY = rf"(?:(?:notes?|words?|orders?|quotes?|decided|{_SAYS})[\W_]++(?:from|by|of)|from|(?:by|per|as)(?=[\W_]+the\b))"
_SPEAKER = (
    rf"(?:{_BY}[\W_]++)?(?:(?:the|our|your|my)[\W_]++)?(?:{_spaced(_USERS)})(?:[\W_]{{1,2}}s\b)?"
    rf"(?:(?:[\W_]++{_ALSO}\b)*[\W_]++{_SAYS}\b)*"
)
_OURS = _spaced((*_OTHERS, *_DECISIONS))
_TYPES = ("bugfix", "feature", "refactor", "change", "discovery", "decision")
#: The beginning of a line about an observation: `#12 decision:`, `#12 2026-02-21 04:39 decision:`
_NUMBERED = r"#\s*\d+(?:[\W_]+\d[\d:\s-]*)?[\W_]+"
_LABEL = rf"(?:{_SPEAKER}|{_OURS})"
#: What may stand between a label and its colon: `User (confirmed): …`
_ASIDE = r"(?:\s?\([^():|]{1,40}\))?"
#: What stands before a label in markdown: bullets, numbers, quotes, emphasis.
_DECORATION = r"(?:(?!#\s*\d)[\W_]|\d{1,3}[.):\]])*+"
_FIRST = re.compile(
    rf"{_DECORATION}(?<![a-z\d])(?P<label>{_NUMBERED}(?:{'|'.join(_TYPES)})|{_LABEL}(?:(?:_|[^\w:|›(])*?{_ASIDE}))"
    rf"(?:_|[^\w:|›])*?(?::(?!:\w)|[–—-](?=\s))[\s*_~`\"'”’:]*"
)
#: The line of a commit. We quote its subject.
_ANY_COMMIT = re.compile(r"\b(commit(?: [0-9a-f]{7,40})?)\s*[:：]\s*(?=“)", re.IGNORECASE)
_COMMIT = r"commit [0-9a-f]{7,40}(?=\s?+:\s?+(?!“))"
_LATER = re.compile(
    rf"(?<![\w‹`/.@-])(?P<label>{_NUMBERED}[a-z][\w-]{{2,30}}|{_COMMIT}|{_LABEL})"
    rf"[^\w\s:›(]{{0,4}}{_ASIDE}\s?[^\w\s:›]{{0,3}}(?::(?!:\w)[*_]{{0,3}}|(?P<dash>\s?[–—-](?=\s)))"
)
#: A label without a colon, as in a chat, a table or a document: `[User] text`, `| User | text`, `User> text`.
_SHOWN = re.compile(
    rf"(?:(?!#\s*\d)[^\w‹`]|_)*+(?P<label>{_LABEL})"
    r"(?P<after>\s?[>\])}》】」](?!`)|(?:>{1,2}|»|\s?(?:[-=]>|→|⇒|➜))(?=\s)|\s?\|(?=\s))"
)
_BRACKETS = frozenset(("<>", "[]", "()", "{}", "《》", "【】", "「」"))
#: What a sentence before a label ends with, or what quotes it.
_BEFORE = frozenset(".!?;:|>•·…\"“”'’—–。！？")
_EMPHASIS = "*_~ "
#: One of these follows a label.
_SIGNS = (":", "- ", "– ", "— ")
_HEADING = re.compile(r"^\s*#{1,6}\s+(?!\d)|(?<!\S)#{2,6}\s+(?=\S)")
#: Labels that say something about the text itself. It is told with them, in brackets, as with those in lower case.
_TELLING = ("proposed", "earlier")


def labelled(mark: ClaimMark, text: str) -> str:
    """Return a text in one line after its label."""
    return PRINTED[mark] + unlabelled(text)


def unlabelled(text: str) -> str:
    """Return a text in one line that does not seem to have a label of ours. Every text that is printed passes here:
    whoever wrote it, only a mark says who said it."""
    return _remembered(text) if len(text) <= LONGEST_REMEMBERED else _unlabelled(text)


def _unlabelled(text: str) -> str:
    text = one_line(visible(text))
    if "&" in text and (plain := html.unescape(text)) != text and _without(plain) != plain:
        text = one_line(visible(plain))
    return _without(text)


_remembered = lru_cache(TEXTS_REMEMBERED)(_unlabelled)


def unlabelled_lines(text: str) -> str:
    """The same for each line of a text."""
    return "\n".join(without_commits(unlabelled(line)) for line in text.splitlines())


def without_label(text: str) -> tuple[str, str]:
    """Return the label with which a text begins, in lower case and without lookalikes, and the rest of the text."""
    text = one_line(visible(text))
    label, _, end = _first(text)
    return label, text[end:]


def _first(text: str) -> tuple[str, int, int]:
    """Return the label with which a text begins, and the places of its beginning and of the text after it."""
    letters, places = _letters(text)
    found = _FIRST.match(letters)
    return (found["label"], places[found.start("label")], places[found.end()]) if found else ("", 0, 0)


def without_commits(text: str) -> str:
    """Return a text that tells no commits: only commands make them."""
    return _ANY_COMMIT.sub(r"‹\1› ", text) if "ommit" in text or not text.isascii() else text


def names_user(label: str) -> bool:
    """Whether a label says that the user speaks."""
    bare = _NOT_LETTERS.sub("", label)
    return any(word in bare for word in _NAMES_OF_USERS)


def names_decision(label: str) -> bool:
    """Whether a label says that something was decided, in any language, and not that the user did."""
    bare = _NOT_LETTERS.sub("", label)
    return bare.startswith(_NAMES_OF_DECISIONS) and not names_user(label)


def _without(text: str) -> str:
    text = _HEADING.sub("", text) if "#" in text else text
    if not _may_have_label(text):
        return text
    for _ in range(MAX_LABELS):
        label, begin, end = _first(text)
        if not label or label.startswith(_TELLING) or text[begin].islower():  # `user: add a form`
            break
        text = text[end:]
    return _shown(_escaped(text))


def _may_have_label(text: str) -> bool:
    """A fast check, because most texts have nothing that looks like a label."""
    plain = text.lower()
    if not text.isascii():
        plain = unicodedata.normalize("NFKD", text).lower().translate(_LOOKALIKES)
    bare = _NOT_LETTERS.sub("", plain)
    return "#" in plain or any(stem in bare for stem in (_ASCII_STEMS if plain.isascii() else _STEMS))


def _shown(text: str) -> str:
    """Put a label in brackets that a text begins with as in a chat or a table: `[User] text`, `| User | text`."""
    letters, places = _letters(text)
    found = _SHOWN.match(letters)
    if not found:
        return text
    begin, end = places[found.start("label")], places[found.end("label")]
    opening, closing = text[:begin], text[end:]
    sign = found["after"].strip()
    if sign == "|" or opening[-1:] + sign in _BRACKETS:
        closing = closing.lstrip()[1:]
        opening = opening if sign == "|" else opening[:-1]
    return f"{opening}‹{text[begin:end]}›{closing}"


def _escaped(text: str) -> str:
    """Put labels inside of a text in brackets, without their colon."""
    letters, places = _letters(text)
    if not any(sign in letters for sign in _SIGNS):
        return text
    parts, at = [], 0
    for found in _LATER.finditer(letters):
        begin, end = places[found.start("label")], places[found.end()]
        before = letters[: found.start()].rstrip(_EMPHASIS)
        begins = not before or before[-1] in _BEFORE
        is_ours = found["label"][0] == "#" and found["label"].endswith(_TYPES)
        is_named = text[begin].isupper() and letters[found.end() : found.end() + 1] in ("", " ") and not found["dash"]
        if begins or is_ours or (is_named and found["label"] != "system"):
            parts += [text[at:begin], f"‹{text[begin : places[found.end('label')]]}›"]
            at = end
    return "".join([*parts, text[at:]])
