"""The kinds of secrets: what each is called, how it begins, its pattern, and a sample that the tests try it on."""

try:
    from .glance import KEYS, WORDS
except ImportError:  # the hook starts with nothing but this folder on its path
    from glance import KEYS, WORDS  # type: ignore[no-redef,import-not-found]

#: Where a token can begin: not inside a word, but right after an escape (\n, \u000a, %3D, a terminal's colour).
START = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[a-z])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9a-fA-F]{4})"
    r"|(?<=\[m)|(?<=[\[;]\dm)|(?<=[\[;]\d\dm)|(?<=;\d\d\dm))"
)
_SPACE = r"(?:[ \t]{0,20}|(?:\\{1,2}t){1,4})"
_QUOTE = r"\\{0,8}[\"'`]"
_PEM = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_B64 = "AbCd0123EfGh4567"  # what the samples are made of: nobody's key

#: Every kind: its name, the beginnings that `glance` knows it by, its pattern (matched where a beginning stands; only
#: its first group is redacted, where it has one; `(?i)` for beginnings in any case) and a sample.
SECRETS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    (
        "private-key",
        ("-----BEGIN",),
        rf"-----BEGIN {_PEM}(?=(?:\s|\\++[nr]|[\d→|:\"'+,>-]){{0,60}}(?:[A-Za-z0-9+/=]{{16}}|[A-Z][A-Za-z-]{{2,20}}: ))"
        rf"(?s:.*?-----END {_PEM}|.*)",
        "-----BEGIN RSA PRIVATE KEY-----\n" + _B64 * 4 + "\n-----END RSA PRIVATE KEY-----",
    ),
    ("age-key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[A-Z0-9]{20,}", "AGE-SECRET-KEY-1" + "QPZRY9X8" * 7),
    ("aws-key-id", ("AKIA", "ASIA"), r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])", "AKIA" + "ABCD2345" * 2),
    (
        "aws-secret",
        ("secret",),
        rf"(?i)secret[_-]?(?:access[_-]?)?key(?:{_QUOTE})?\]?[ \t]{{0,8}}[:=]>?[ \t]{{0,8}}(?:{_QUOTE})?"
        r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
        "aws_secret_access_key=" + _B64 * 2 + "a/b+c/d+",
    ),
    ("github", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{20,}", "ghp_" + "a1B2" * 9),
    ("github", ("github_pat_",), r"github_pat_[A-Za-z0-9]{16}\w{10,}", "github_pat_" + "11ABC" * 5 + "_" + "aB3" * 19),
    ("gitlab", ("glpat-", "gldt-", "glrt-"), r"gl(?:pat|dt|rt)-[\w-]{20,}", "glpat-" + "aB3dE" * 4),
    ("anthropic", ("sk-",), r"sk-ant-[\w-]{20,}", "sk-ant-api03-" + _B64 * 5),
    ("openrouter", ("sk-",), r"sk-or-[\w-]{20,}", "sk-or-v1-" + "0a1b2c3d" * 8),
    (
        "openai",
        ("sk-",),
        r"sk-(?:(?:proj|svcacct|admin|None)-[\w-]{20,}|[A-Za-z0-9]{20,})",
        "sk-proj-" + _B64 * 3,
    ),
    (
        "slack",
        ("xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
        r"(?:xox[abcdeprs]|xapp)-[A-Za-z0-9.%-]{15,}",
        "xoxb-" + "1234567890-" * 2 + "aB3" * 8,
    ),
    (
        "slack-webhook",
        ("hooks.slack.com",),
        r"(?i)hooks\.slack\.com(?:\\{0,8}/)(?:services|workflows|triggers)\\{0,8}/([A-Za-z0-9_/\\]{16,})",
        "https://hooks.slack.com/services/T0000AAAA/B0000AAAA/" + "aB3dE6" * 4,
    ),
    (
        "discord-webhook",
        ("webhooks",),
        r"(?i)webhooks\\{0,8}/\d{15,21}\\{0,8}/([\w-]{40,})",
        "https://discord.com/api/webhooks/" + "123456789" * 2 + "/" + _B64 * 4,
    ),
    (
        "discord-bot",
        ("MTA", "MTE", "MTI", "MTM", "MTQ", "MTU"),
        r"MT[AEIMQU][w-z0-5][A-Za-z0-9]{19,24}\.[\w-]{6}\.[\w-]{27,}",
        "MTAw" + "MTIz" * 5 + ".GaBcDe." + "aB3dE6_h-" * 4,
    ),
    ("google-api", ("AIza",), r"AIza[\w-]{35}(?![\w-])", "AIza" + "SyA1b2C" * 5),
    ("google-oauth", ("GOCSPX-",), r"GOCSPX-[\w-]{20,}", "GOCSPX-" + "aB3dE6_" * 4),
    ("google-oauth", ("ya29.",), r"ya29\.[\w-]{20,}", "ya29." + _B64 * 3),
    (
        "stripe",
        ("sk_live_", "rk_live_", "sk_test_", "rk_test_"),
        r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
        "sk_live_" + "4eC39Hq" * 4,
    ),
    ("stripe-webhook", ("whsec_",), r"whsec_[A-Za-z0-9+/]{24,}={0,2}", "whsec_" + "aB3dE6gH" * 4),
    ("twilio", ("SK",), r"SK[0-9a-f]{32}(?![A-Za-z0-9])", "SK" + "0123abcd" * 4),
    ("sendgrid", ("SG.",), r"SG\.[\w-]{16,32}\.[\w-]{32,64}", "SG." + "aB3dE6gH1jK" * 2 + "." + "aB3dE6g" * 6 + "h"),
    ("mailgun", ("key-",), r"key-[0-9a-f]{32}(?![A-Za-z0-9])", "key-" + "0123abcd" * 4),
    ("npm", ("npm_",), r"npm_[A-Za-z0-9]{30,}", "npm_" + "a1B2" * 9),
    ("pypi", ("pypi-",), r"pypi-AgE[A-Za-z0-9]{13}[\w-]{30,}", "pypi-AgEIcHlwaS5vcmc" + "aB3dE6_h-" * 10),
    ("huggingface", ("hf_",), r"hf_[A-Za-z0-9]{30,}", "hf_" + "aBcDeFgHiJ" * 3 + "kLmN"),
    ("digitalocean", ("dop_v1_", "doo_v1_"), r"do[po]_v1_[0-9a-f]{40,}", "dop_v1_" + "0123abcd" * 8),
    ("shopify", ("shpat_", "shpca_", "shpss_"), r"shp(?:at|ca|ss)_[0-9a-fA-F]{32}", "shpat_" + "0123abcd" * 4),
    (
        "azure",
        ("accountkey", "accesskey"),
        r"(?i)(?:account|access)key[ \t]{0,4}=[ \t]{0,4}([A-Za-z0-9+/]{40,100}={0,2})",
        "AccountName=shop;AccountKey=" + _B64 * 5 + "a+/BcD==",
    ),
    ("databricks", ("dapi",), r"dapi[0-9a-f]{32}(?![A-Za-z0-9])", "dapi" + "0123abcd" * 4),
    ("vault", ("hvs.",), r"hvs\.[\w-]{24,}", "hvs." + _B64 * 2),
    ("telegram", (":AA",), r"(?<=\d{8}):(AA[\w-]{30,40})(?![\w-])", "123456789:AA" + "aB3dE6gH_1-" * 3),
    ("linear", ("lin_api_",), r"lin_api_[A-Za-z0-9]{32,}", "lin_api_" + "aB3dE6gH" * 5),
    ("groq", ("gsk_",), r"gsk_[A-Za-z0-9]{40,}", "gsk_" + _B64 * 3 + "aB3d"),
    ("replicate", ("r8_",), r"r8_[A-Za-z0-9]{30,}", "r8_" + "aB3dE6gHi" * 4),
    ("supabase", ("sbp_",), r"sbp_[0-9a-f]{40}", "sbp_" + "0123abcd" * 5),
    ("vercel", ("vcp_",), r"vcp_[A-Za-z0-9]{24,}", "vcp_" + "aB3dE6gH" * 4),
    ("notion", ("ntn_", "secret_"), r"(?:ntn|secret)_[A-Za-z0-9]{40,}", "ntn_" + "aB3dE6gHi" * 5 + "j"),
    ("atlassian", ("ATATT",), r"ATATT[A-Za-z0-9][\w=-]{40,}", "ATATT3xFf" + _B64 * 5),
    (
        "jwt",
        ("eyJ",),
        r"(?<![_-])eyJ[\w-]{8,8000}\.eyJ[\w-]{8,}(?:\.[\w-]*)?",
        "eyJ" + _B64 * 2 + ".eyJ" + _B64 * 3 + "." + _B64 * 2,
    ),
    (
        "authorization",
        ("authorization",),
        rf"(?i)authorization(?:{_QUOTE})?\]?[ \t]{{0,8}}[:=,][ \t]{{0,8}}(?:{_QUOTE})?"
        rf"(?:basic|bearer|token|bot|digest|apikey)[ \t]{{1,8}}([A-Za-z0-9._~+/=-]{{8,}})",
        "Authorization: Basic " + "dXNlcjpw" * 3,
    ),
    (
        "authorization",
        ("bearer",),
        r"(?i)bearer[ \t]{1,8}(?=[a-z._~+/=-]{0,400}[0-9])([A-Za-z0-9._~+/=-]{16,})",
        "Bearer " + _B64 * 2,
    ),
    (
        "url-password",
        ("://", ":\\/\\/"),
        r":\\?/\\?/[!$%&()*+,.;=A-Za-z0-9_~-]{0,100}:(?!\[redacted:[a-z-]{1,30}\]@)(?![{$<]|%[(s]|\*{3})"
        r"([!$%&()*+,.:;={}|^\[\]A-Za-z0-9_~-]{1,200})@(?=[A-Za-z0-9\[{$%_.-])",
        "postgres://shop:" + "pa55" * 3 + "@db.example/shop",
    ),
    (
        "secret",
        (*WORDS, *KEYS),
        # Our own mark names kinds; it must not be read as a name with a value behind it.
        rf"(?i)(?<!\[redacted:)(?<!\[redacted:aws-)(?P<name>{'|'.join((*WORDS, *KEYS))})(?P<tail>[\w-]{{0,40}}+)"
        rf"(?:{_QUOTE})?\]?"
        rf"(?P<sep>{_SPACE}(?::=|=>|={{1,3}}|:){_SPACE})"
        r"(?:[bru]{0,2}\\{0,8}(?P<quote>[\"'`])(?P<quoted>(?![:=])(?:[^\x00-\x20\"'`\\,;&<>(){}\[\]|#]{8})"
        r"(?:(?!\\{0,8}(?P=quote))[^\x00-\x20]){0,500})(?=\\{0,8}(?P=quote)|\Z)"
        r"|(?P<plain>[^\x00-\x20\"'`\\,;&<>(){}\[\]|#:=]{8,512}+={0,2})(?![(\[]))",
        "DB_PASSWORD=" + "hunter2" * 2,
    ),
)
