"""Finds private tags in the fullwidth forms of East Asian keyboards. `prefilter` imports this when such bytes occur."""

#: Fullwidth forms in UTF-8: U+FF1C and U+FE64 for `<`, and the letters of `private` in lower and upper case.
SIGNS = (b"\xef\xbc\x9c", b"\xef\xb9\xa4")
_FORMS = (
    *((sign, b"<") for sign in SIGNS),
    *((b"\xef\xbd" + bytes([letter + 32]), bytes([letter])) for letter in b"private"),
    *((b"\xef\xbc" + bytes([letter + 64]), bytes([letter])) for letter in b"private"),
)


def narrow(low: bytes) -> bytes:
    """Replace the fullwidth forms that a tag may consist of."""
    for wide, sign in _FORMS:
        low = low.replace(wide, sign)
    return low
