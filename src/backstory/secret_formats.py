"""Table of secrets that are recognised by their context: headers, URLs, lines of configuration files.

Rows have the same form as in `secret_kinds`: name, prefixes, pattern, samples.
"""

_QUOTE = r"\\{0,8}[\"'`]"
_IN_COOKIE = r"[^\s;\"'`\\]"
_B64 = "AbCd0123EfGh4567"  # the samples are built from this; it is not a real key

FORMATS: tuple[tuple[str, tuple[str, ...], str, tuple[str, ...]], ...] = (
    (
        "aws-secret",
        ("secret",),
        rf"(?i)secret[_-]?(?:access[_-]?)?key(?:{_QUOTE})?\]?[ \t]{{0,8}}[:=]>?[ \t]{{0,8}}(?:{_QUOTE})?"
        r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
        ("aws_secret_access_key=" + _B64 * 2 + "a/b+c/d+",),
    ),
    (
        "azure",
        ("accountkey", "accesskey"),
        r"(?i)(?:account|access)key[ \t]{0,4}=[ \t]{0,4}([A-Za-z0-9+/]{40,100}={0,2})",
        ("AccountName=shop;AccountKey=" + _B64 * 5 + "a+/BcD==", "SharedAccessKey=" + _B64 * 2 + "a+/BcD12345="),
    ),
    (
        "signature",
        ("sig=", "signature="),
        r"(?i)(?<![A-Za-z])(?:sig|(?:x-amz-|x-goog-)?signature)=([A-Za-z0-9%+/_-]{40,}={0,2})",
        (
            "https://shop.blob.core.windows.net/c?sv=2022-11-02&sig=" + _B64 * 2 + "aB3dE6gHi1j%3D",
            "https://shop.s3.amazonaws.com/a?X-Amz-Signature=" + "0123abcd" * 8,
        ),
    ),
    (
        "authorization",
        ("authorization",),
        rf"(?i)authorization(?:{_QUOTE})?\]?[ \t]{{0,8}}[:=,][ \t]{{0,8}}(?:{_QUOTE})?"
        r"(?:basic|bearer|token|bot|digest|apikey)[ \t]{1,8}([A-Za-z0-9._~+/=-]{8,})",
        ("Authorization: Basic " + "dXNlcjpw" * 3, "Authorization: Bearer " + "abcdefgh" * 4),
    ),
    (
        "authorization",
        ("bearer",),
        r"(?i)bearer[ \t]{1,8}(?=[a-z._~+/=-]{0,400}[0-9])([A-Za-z0-9._~+/=-]{16,})",
        ("Bearer " + _B64 * 2,),
    ),
    (
        "cookie",
        ("cookie",),
        rf"(?i)cookie(?:{_QUOTE})?[ \t]{{0,4}}[:,= ][ \t]{{0,4}}(?:{_QUOTE})?"
        rf"([\w.-]{{1,60}}=(?={_IN_COOKIE}{{0,400}}[0-9]){_IN_COOKIE}{{8,4000}}"
        rf"(?:;[ ]?[\w.-]{{1,60}}={_IN_COOKIE}{{1,4000}}){{0,40}})",
        ("Cookie: sessionid=" + _B64 * 2 + "; csrftoken=" + _B64, "Set-Cookie: session=" + _B64 * 2 + "; HttpOnly"),
    ),
    (
        "url-password",
        ("://", ":\\/\\/"),
        r":\\?/\\?/[!$%&()*+,.;=A-Za-z0-9_~-]{0,100}:(?!\[redacted:[a-z-]{1,30}\]@)(?![{$<]|%[(s]|\*{3}|(?:pass(?:word|wd)?|pwd)@)"
        r"([!#$%&()*+,.:;=?@{}|^\[\]A-Za-z0-9_~-]{1,200})@(?=[A-Za-z0-9\[{$%_.-])",
        ("postgres://shop:" + "pa55" * 3 + "@db.example/shop", "redis://:" + "pa55" * 3 + "@cache:6379/0"),
    ),
    (
        "pgpass",
        (":5432:", ":6432:", ":*:"),
        r":(?:\d{4,5}|\*):[\w.*-]{1,64}:[\w.*-]{1,64}:([^\s:\"'`\\]{4,200})(?=[\s\"'`\\]|\Z)",
        ("db.example.com:5432:shop:admin:" + "pa55" * 3,),
    ),
)
