"""Table of secrets that are recognised by their context: headers, URLs, lines of configuration files.

Rows have the same form as in `secret_kinds`: name, prefixes, pattern, samples.
"""

_QUOTE = r"\\{0,8}[\"'`]"
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
    ("okta", ("ssws",), r"(?i)ssws[ \t]{1,8}(00[\w-]{30,})", ("SSWS 00" + "aB3dE6_h-" * 5,)),
    (
        "sql-password",
        ("identified",),
        r"(?i)identified[ \t]{1,8}(?:with[ \t]{1,8}\S{1,64}[ \t]{1,8})?by "
        rf"{_QUOTE}(?![$<%?:{{])(?=[^\s\"'`]{{0,200}}[0-9!#$%^&*?@])([^\s\"'`\\]{{4,200}})",
        ("create user shop identified by '" + "pa55" * 3 + "'",),
    ),
    (
        "redis-password",
        ("requirepass", "masterauth"),
        rf"(?i)(?:requirepass|masterauth)[ \t]{{1,8}}(?:{_QUOTE})?(?=[^\s\d]{{0,200}}\d)([^\s\"'`\\$<\[]{{4,200}})",
        ("requirepass " + "pa55" * 3,),
    ),
    (
        "oracle-password",
        ("jdbc:oracle:", "sqlplus"),
        r"(?i)(?:jdbc:oracle:[a-z]{2,8}:|sqlplus[ \t]{1,8}(?:-\w{1,9}[ \t]{1,8}){0,4})"
        r"[\w.$-]{1,64}\\{0,8}/([^@\s\"'`\\/]{3,200})@",
        ("jdbc:oracle:thin:shop/" + "pa55" * 3 + "@//db:1521/x",),
    ),
    (
        "password-hash",
        ("$6$", "$5$", "$1$", "$apr1$", "$y$", "$2a$", "$2b$", "$2y$", "$argon2"),
        r"\$(?:(?:6|5|1|apr1|y)\$(?:rounds=\d{1,9}\$)?[\w./]{1,32}\$([\w./]{22,86})|2[aby]\$\d\d\$[\w./]{53}"
        r"|argon2(?:id|i|d)\$[\w=,]{1,40}\$[\w=,]{1,40}\$[\w./+]{11,64}\$[\w./+]{22,128})",
        ("root:$6$aB3dE6gH$" + _B64 * 5 + ":19000:0:99999:7:::",),
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
