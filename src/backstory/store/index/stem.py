"""Porter's stemmer: `discounts`, `discounted` and `discounting` become one token. Equal to the stemmer of FTS5."""

from __future__ import annotations

#: (ending, replacement) of the second step. Each applies if enough of a stem is left before the ending.
_SECOND = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("logi", "log"),
    ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"),
    ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"),
    ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_THIRD = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_FOURTH_ENDS = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


_FOURTH = tuple((ending, "") for ending in _FOURTH_ENDS)
_SECOND_ENDS = tuple(ending for ending, _ in _SECOND)
_THIRD_ENDS = tuple(ending for ending, _ in _THIRD)


def stem(word: str) -> str:
    """Return the stem of a word of lower-case ASCII letters. Other words, and very short or long ones, stay."""
    if not (3 <= len(word) <= 64 and word.isascii() and word.isalpha()):
        return word
    word = _plural_and_past(word)
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    # Most words have none of these endings. One check of all endings is faster than one check of each.
    if word.endswith(_SECOND_ENDS):
        word = _replace_ending(word, _SECOND)
    if word.endswith(_THIRD_ENDS):
        word = _replace_ending(word, _THIRD)
    if word.endswith(_FOURTH_ENDS):
        word = _replace_ending(word, _FOURTH, 2)
    if word.endswith("e"):
        rest = word[:-1]
        if (measure := _measure(rest)) > 1 or (measure == 1 and not _is_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _shape(text: str) -> str:
    """Return `v` or `c` for each vowel or consonant. A y after a consonant is a vowel."""
    shape = ""
    for letter in text:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(text: str) -> int:
    """Return how often a consonant follows a vowel."""
    return _shape(text).count("vc")


def _is_short(text: str) -> bool:
    return _shape(text).endswith("cvc") and text[-1] not in "wxy"


def _plural_and_past(word: str) -> str:
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    cut = word[:-2] if word.endswith("ed") else word[:-3] if word.endswith("ing") else ""
    if "v" not in _shape(cut):
        return word
    if cut.endswith(("at", "bl", "iz")):
        return cut + "e"
    if cut[-1:] == cut[-2:-1] and _shape(cut).endswith("c") and cut[-1] not in "lsz":
        return cut[:-1]
    return cut + "e" if _measure(cut) == 1 and _is_short(cut) else cut


def _replace_ending(word: str, endings: tuple[tuple[str, str], ...], least: int = 1) -> str:
    for ending, becomes in endings:
        if word.endswith(ending):
            rest = word[: -len(ending)]
            is_stem = _measure(rest) >= least and (ending != "ion" or rest.endswith(("s", "t")))
            return rest + becomes if is_stem else word
    return word
