"""Privacy: nothing between private tags and no known secret survives, and all other text does, unchanged.

The secrets planted here are put together at run time and are nobody's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backstory import prefilter, privacy
from backstory.privacy import strip_bytes, strip_json, strip_text
from backstory.secret_formats import FORMATS
from backstory.secret_kinds import SECRETS

CANARY = "kanarienvogel"
TAGS = ("private", "PRIVATE", "Private", "claude-mem-context", "backstory-context")
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "AbCd0123EfGh4567" * 4 + "\n-----END RSA PRIVATE KEY-----"
SAMPLES = [("private-key", KEY), *((row[0], sample) for row in (*SECRETS, *FORMATS) for sample in row[3])]
KINDS = [pytest.param(name, sample, id=f"{name}-{number}") for number, (name, sample) in enumerate(SAMPLES)]
#: As many as the profile says; `make soak` throws many more.
MANY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def secret_part(name: str, sample: str) -> str:
    """What must be gone from a sample: the middle of a private key, of everything else the end."""
    if name in ("url-password", "pgpass", "sql-password", "oracle-password"):
        return "pa55" * 3
    return "EfGh4567AbCd" if name in ("private-key", "cookie", "password-hash") else sample[-12:]


def surroundings(sample: str) -> dict[str, str]:
    return {
        "bare": sample,
        "text": f"I found {sample} in there.",
        "json": json.dumps({"a": 1, "note": sample, "b": [2]}),
        "query": f"https://shop.example/a?x=1&y={sample}&z=2",
        "export": f"export THING='{sample}' && run",
        "yaml": f"thing: {sample}\nother: 1\n",
        "json in json": json.dumps(json.dumps({"note": f"line\n{sample}\nline", "quoted": f'"{sample}"'})),
        "colour": f"\x1b[32m{sample}\x1b[0m",
        "percent": f"a%3D{sample}%26",
    }


# Tags


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a<private>b</private>c", "ac"),
        ("a<PRIVATE>b</Private>c", "ac"),
        ('a<private reason="x > y">b</private >c', "ac"),
        ("a<private\n>b</private\n>c", "ac"),
        ("a<claude-mem-context>b</claude-mem-context>c", "ac"),
        ("a<backstory-context>b</backstory-context>c", "ac"),
        ("a<private>b<private>c</private>d</private>e", "ae"),
        ("a<private>b", "a"),
        ("a<private>b</private>c<private>d", "ac"),
        ("a</private>b", "ab"),
        ("a<private", "a"),
        ("a<private b", "a"),
        ("a<private/>b", "a"),
        ("a<private>b</privates>c", "a"),
        ("a<private>b</private c", "a"),
        ("a<private>b<backstory-context>c</private>d", "a"),
        (r"a\u003cprivate\u003eb\u003c/private\u003ec", "ac"),
        (r"a\u003Cprivate>b<\/private>c", "ac"),
        (r"a\\\u003cprivate\\\u003eb\\\u003c\\/private\\\u003ec", "ac"),
        (r"a\u003c\u0070rivate>b</private>c", "ac"),
        ("a<pri<private>b</private>vate>c", "a"),
        ("<private>all</private>", ""),
    ],
)
def test_tags_are_removed_with_what_they_hold(text: str, shown: str) -> None:
    """Any case, attributes, nested, unclosed, stray, escaped: what is inside goes, what is outside stays."""
    assert strip_text(text) == shown
    assert prefilter.suspicious(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "a <priva",
        "<privateer>",
        "<private-key>",
        "<private_key>",
        "/private/tmp/x",
        "private: int",
        "1<2>0",
    ],
)
def test_what_only_resembles_a_tag_stays(text: str) -> None:
    """A tag cut off in its name, or a longer name, is no tag."""
    assert strip_text(text) == text


def test_a_tag_hides_later_fields_up_to_its_end() -> None:
    """The state of the tags goes from field to field, in the order they are written."""
    value = {
        "prompt": f"go <private>{CANARY}",
        "n": 4,
        "deep": {CANARY: [CANARY, True, None, {"x": f"{CANARY}</private>seen"}]},
        "after": "seen",
    }
    stripped = strip_json(value)
    assert stripped == {
        "prompt": "go ",
        "n": None,
        "deep": {"": ["", None, None, {"": "seen"}]},
        "after": "seen",
    }


def test_what_the_agent_says_of_itself_is_not_hidden_by_another_field() -> None:
    """An event whose prompt leaves a tag open can still be attributed; tags in the identity fields work there."""
    stripped = strip_json(
        {
            "prompt": f"<private>{CANARY}",
            "session_id": "s-1",
            "promptNumber": 3,
            "cwd": f"/a<private>{CANARY}</private>/b",
            "nested": {"session_id": CANARY},
            "project": {"x": CANARY},
        }
    )
    assert stripped["session_id"] == "s-1"
    assert stripped["promptNumber"] == 3
    assert stripped["cwd"] == "/a/b"
    assert CANARY not in json.dumps(stripped)


def test_a_tag_left_open_in_an_identity_field_hides_what_follows() -> None:
    """When in doubt, hide."""
    assert strip_json({"cwd": "/a<private>b", "x": CANARY, "session_id": "s"}) == {
        "cwd": "/a",
        "x": "",
        "session_id": "s",
    }


def test_keys_that_become_alike_lose_nothing() -> None:
    """Two keys that are the same without their private parts keep their two values."""
    stripped = strip_json({"d": {"a<private>1</private>": 1, "a": 2, "a<private>2</private>": 3}})
    assert sorted(stripped["d"].values()) == [1, 2, 3]
    assert stripped["d"]["a"] == 2
    assert "<" not in json.dumps(stripped)


def test_more_than_a_hundred_tags_hide_everything_from_the_first() -> None:
    """A hundred are served one by one; one more and all that follows the first is gone."""
    pair = "<private>x</private>."
    assert strip_text("a" + pair * 100) == "a" + "." * 100
    assert strip_text("a" + pair * 101) == "a"
    assert strip_json({"a": "a" + pair, "b": pair * 100, "cwd": "/"}) == {"a": "a", "b": "", "cwd": "/"}


canaries = st.builds(
    "{}{}{}".format, st.text("abc <>/\\\n\"'é", max_size=8), st.just(CANARY), st.text("xyz <>/\\\n\"'é", max_size=8)
)
open_tags = st.builds("<{}{}>".format, st.sampled_from(TAGS), st.sampled_from(["", " ", ' reason="x"', "\n"]))


def escaped(text: str, times: int) -> str:
    for _ in range(times):
        text = text.replace("\\", "\\\\").replace("<", "\\u003c").replace(">", "\\u003E")
    return text


@given(tag=st.sampled_from(TAGS), attribute=st.sampled_from(["", " ", " a='b'"]), inside=canaries, data=st.data())
@MANY
def test_a_canary_in_a_tag_never_survives(tag: str, attribute: str, inside: str, data: st.DataObject) -> None:
    """Wherever it stands, nested, unclosed, over several fields, escaped once or twice: it is not in what comes out."""
    times = data.draw(st.integers(0, 2))
    inner = data.draw(
        st.sampled_from(["", "<private>x</private>", "<backstory-context>y</backstory-context>", "</PRIVATES>"])
    )
    closing = data.draw(st.sampled_from(["", f"</{tag}>", f"</{tag.upper()} >"]))
    before, after = data.draw(st.text("ab \n", max_size=5)), data.draw(st.text("ab \n", max_size=5))
    opening = escaped(f"<{tag}{attribute}>", times)
    hidden = escaped(inside.replace("<", "").replace("/", ""), times)
    parts = [before + opening, hidden, escaped(inner, times) + hidden, escaped(closing, times) + after]
    cuts = data.draw(st.sampled_from(["one", "list", "dict", "keys"]))
    value: Any = {
        "one": {"t": "".join(parts)},
        "list": {"t": parts},
        "dict": {"t": dict(zip("abcd", parts, strict=True))},
        "keys": {"t": [parts[0], {parts[1]: parts[2]}, parts[3]]},
    }[cuts]
    for raw in (json.dumps(value).encode(), json.dumps(value, ensure_ascii=False, indent=1).encode()):
        assert prefilter.suspicious(raw)
        assert CANARY not in strip_bytes(raw).decode()
        assert CANARY.encode() not in strip_bytes(b"not json " + raw)
    assert CANARY not in json.dumps(strip_json(value))


# Secrets


@pytest.mark.parametrize(("name", "sample"), KINDS)
def test_each_kind_is_found_in_its_sample(name: str, sample: str) -> None:
    """Bare, in text, JSON, a URL's query, an export, YAML, JSON within JSON, colours and percent escapes."""
    for where, text in surroundings(sample).items():
        for clean in (strip_text(text), strip_bytes(text.encode()).decode()):
            assert "[redacted:" in clean, where
            assert secret_part(name, sample) not in clean, where
            assert strip_text(clean) == clean, where
        assert prefilter.suspicious(text.encode()), where
    assert f"[redacted:{name}]" in strip_text(sample)


@pytest.mark.parametrize(("name", "sample"), KINDS)
def test_each_kind_is_found_behind_escaped_letters(name: str, sample: str) -> None:
    """A payload may write any letter as an escape."""
    raw = '{"note":"' + "".join(f"\\u{ord(letter):04x}" for letter in sample) + '"}'
    assert prefilter.suspicious(raw.encode())
    assert secret_part(name, sample) not in json.loads(strip_bytes(raw.encode()))["note"]


def test_there_are_enough_kinds() -> None:
    """The lists of public scanners name about a hundred services whose tokens can be told by their beginning."""
    assert len({name for name, _ in SAMPLES}) >= 100


@pytest.mark.parametrize(
    "text",
    [
        "DB_PASSWORD=correcthorse",
        'api_key: "aB3dE6gH1j"',
        '"client_secret": "correcthorse"',
        "SECRET_KEY = 'correcthorse'",
        'password: "changeme"',
        "password: hunter2hunter2",
        "token=abcd1234efgh&next=1",
        'os.environ["API_TOKEN"] = "abcd1234efgh"',
        'password = b"correcthorse"',
        "{'private_key' => 'abcd1234efgh'}",
        r"{\"password\": \"correcthorse\"}",
        r"{\\\"apiKey\\\":\\\"abcd1234efgh\\\"}",
        "https://x.example/?access_token=abcd1234efgh",
    ],
)
def test_an_assigned_secret_is_redacted(text: str) -> None:
    """Whatever language it is assigned in; the name stays."""
    clean = strip_text(text)
    assert "[redacted:secret]" in clean
    assert "correcthorse" not in clean
    assert "abcd1234" not in clean
    assert "hunter2" not in clean
    assert prefilter.suspicious(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "password = get_password()",
        "token: str",
        "token: TokenStream",
        "private_key: Ed25519PrivateKey | None",
        "API_KEY=${API_KEY}",
        "API_KEY=$API_KEY_OF_PROD",
        "password: {{ vault_password }}",
        "password: <your password>",
        'api_key="your-api-key-1"',
        "token_count=12345678",
        "max_tokens: 12345678",
        'token_type = "access_token_1"',
        'tokenizer = "cl100k_base_x"',
        "password_file=/run/secrets/password1",
        "password = config.password1",
        "secret=********",
        "task-1234567890abcdefghij1234",
        "disk-abcdefabcdefabcdefabcdef",
        '<div class="sk-folding-cube-and-more-things">',
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "id 9f1c1e9e-0000-4000-8000-3b1f3c6a7e10",
        'integrity="sha512-' + "aB3+/dE6" * 10 + '=="',
        "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAE" * 8,
        "sha256:" + "0123abcd" * 8,
        "http://localhost:8080/a@b",
        "git@github.com:a/b.git",
        "https://${USER}:${PASS}@host/",
        'if text.startswith("-----BEGIN RSA PRIVATE KEY-----"): read(text)',
        "Bearer authentication is required",
        "Authorization: Bearer $TOKEN",
        "the Basic authentication scheme",
    ],
)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    """References, types, stand-ins, paths, counts, hashes and pictures are not secrets."""
    assert strip_text(text) == text
    assert strip_json({"a": [text]}) == {"a": [text]}


def test_a_key_names_its_value() -> None:
    """In a decoded object key and value stand apart; together they are a secret."""
    value = {
        "password": "correcthorse",
        "apiKey": "abcd1234efgh",
        "headers": {"Authorization": "Basic dXNlcjpwYXNz", "x-api-key": 'abcd1234"efgh'},
        "token": "identifier",
        "token_count": "12345678",
        "password_hint": "my first pet",
    }
    stripped = strip_json(value)
    assert stripped["password"] == stripped["apiKey"] == "[redacted:secret]"
    assert stripped["headers"] == {"Authorization": "Basic [redacted:authorization]", "x-api-key": "[redacted:secret]"}
    assert {key: stripped[key] for key in list(value)[3:]} == {key: value[key] for key in list(value)[3:]}
    assert prefilter.suspicious(json.dumps(value).encode())
    assert strip_json(stripped) == stripped
    assert strip_json({r"p\u0061ssword": "correcthorse"}) == {r"p\u0061ssword": "[redacted:secret]"}


def test_only_the_password_of_a_url_is_redacted() -> None:
    """Who and where are still worth remembering."""
    assert strip_text("redis://:hunter2@h:1/0") == "redis://:[redacted:url-password]@h:1/0"
    raw = rb'{"u":"https:\/\/me:hunter2@h\/"}'
    assert prefilter.suspicious(raw)
    assert b"hunter2" not in strip_bytes(raw)


def test_an_unclosed_private_key_is_hidden_as_far_as_it_goes() -> None:
    """A key cut off in the middle is a key; what follows its lines is not."""
    head = "-----BEGIN OPENSSH PRIVATE " + "KEY-----\n"
    assert strip_text("a " + head + "AbCd0123EfGh4567" * 3 + "\nmore words") == "a [redacted:private-key]\nmore words"
    assert "AbCd" not in strip_text(json.dumps(head + "AbCd0123EfGh4567" * 3))


def test_redacting_keys_loses_nothing() -> None:
    """Two keys that are secrets of one kind keep their two values."""
    first, second = "ghp_" + "a1B2" * 9, "ghp_" + "b1C2" * 9
    stripped = strip_json({first: 1, second: 2, "[redacted:github]": 3})
    assert sorted(stripped.values()) == [1, 2, 3]
    assert first not in json.dumps(stripped)


# Payloads


def test_clean_bytes_come_back_as_they_were() -> None:
    """What holds nothing private is not even written anew."""
    raw = b'{ "a" : 1.10, "b":"\\u00e9\\ud83d" }'
    assert strip_bytes(raw) is raw


def test_half_a_surrogate_pair_is_no_obstacle() -> None:
    """Lone surrogates stay escapes, in strings and keys."""
    raw = b'{"a":"<private>x</private>\\ud83d","\\ud83d":1}'
    assert json.loads(strip_bytes(raw)) == {"a": "\ud83d", "\ud83d": 1}


@pytest.mark.parametrize(
    "raw",
    [
        b'{"prompt":"<private>kanarienvogel',
        b"\xff\xfe <private>kanarienvogel\xff",
        b"[" * 100 + b'"<private>kanarienvogel"' + b"]" * 100,
        b"[" * 100_000 + b'"<private>kanarienvogel"',
        b'{"a":"<private>","b":"kanarienvogel","a":"x"}',
        b'[1e999,NaN,"<private>kanarienvogel"]',
        b"1" * 5000 + b"<private>kanarienvogel",
        b"\xef\xbb\xbf" + b'{"a":"\\u003cPrivate\\u003ekanarienvogel"}',
    ],
)
def test_what_is_not_json_is_stripped_as_text(raw: bytes) -> None:
    """Cut off, not UTF-8, too deep, a key twice, no number: never an error, never the private part."""
    assert prefilter.suspicious(raw)
    assert CANARY.encode() not in strip_bytes(raw)


def test_too_deep_is_said_and_not_suffered() -> None:
    """Sixty-four levels are read; one more is refused with a ValueError."""
    value: Any = "<private>x</private>y"
    for _ in range(privacy.MAX_DEPTH):
        value = [value]
    assert "y" in json.dumps(strip_json(value))
    with pytest.raises(ValueError, match="nested deeper than 64"):
        strip_json([value])


pieces = st.one_of(
    open_tags,
    st.builds("</{}>".format, st.sampled_from(TAGS)),
    st.sampled_from([sample for _, sample in SAMPLES]),
    st.sampled_from([sample[:14] for _, sample in SAMPLES]),
    st.sampled_from([literal for _, literals, _, _ in (*SECRETS, *FORMATS) for literal in literals]),
    st.sampled_from(
        ["password", "TOKEN", "api_key", "=", ": ", '"', "'", "\\", "\\n", "\\u003c", "\\u0041", "://", "@", ":"]
    ),
    st.sampled_from(
        ["<pri", "vate>", "</pri", "[redacted:github]", "12345678", "hunter2x", "a.b", "\t", "K", "İ", "ſ", "²"]
    ),
    st.text(max_size=6),
)
texts = st.lists(pieces, max_size=8).map("".join)
documents = st.recursive(
    st.one_of(texts, st.integers(), st.booleans(), st.none()),
    lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(texts, below, max_size=4)),
    max_leaves=8,
)


@given(texts)
@example("DB_PASSWORD=hunter2hunter2123456789:AAaB" + "AGE-SECRET-KEY-1" + "QPZRY9X8" * 7)
@settings(MANY, max_examples=settings().max_examples * 2)
def test_stripping_twice_is_stripping_once(text: str) -> None:
    """The worker strips what the hook has stripped, and changes nothing."""
    once = strip_text(text)
    assert strip_text(once) == once


@given(documents)
@settings(MANY, max_examples=settings().max_examples * 2)
def test_a_document_stripped_twice_is_stripped_once(value: Any) -> None:
    """The same for documents, whose tags and names go from string to string."""
    once = strip_json(value)
    assert strip_json(once) == once


@given(documents, st.booleans(), st.sampled_from([None, 1]))
@settings(MANY, max_examples=settings().max_examples * 2)
def test_a_glance_misses_nothing_that_is_stripped(value: Any, ascii_only: bool, indent: int | None) -> None:
    """Whenever stripping changes a payload, however it is written, the cheap look has said so."""
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(errors="replace")
    for data in (raw, raw.replace(b"/", b"\\/"), raw[: len(raw) // 2], b"x " + raw):
        if strip_bytes(data) != data:
            assert prefilter.suspicious(data)


@given(st.text(st.characters(exclude_characters="<\\:=-_.@"), max_size=200), documents)
@MANY
def test_clean_text_is_returned_unchanged(text: str, value: Any) -> None:
    """Without a tag or a secret nothing happens, and a document keeps its shape where one is stripped."""
    if not prefilter.suspicious(text.encode(errors="surrogatepass")):
        assert strip_text(text) == text
    stripped = strip_json(value)
    assert type(stripped) is type(value) or stripped is None
    if isinstance(value, dict | list):
        assert len(stripped) == len(value)


# Cost

LONG = 200_000  # characters; what is not linear takes minutes for them


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "<private",
            "<private>",
            "</private>",
            "<private></private>",
            "<",
            "\\",
            "</private ",
            "<\\",
            "\\u003c",
            "<pri",
        ),
        *(
            "eyJ",
            "eyJ-",
            ".eyJ",
            "eyJa.",
            "sk-",
            "sk-ant-",
            "://",
            "://a:",
            "a@",
            "_",
            "-",
            "key",
            "api_key=",
            "token:",
        ),
        *(
            "token=token",
            "password='",
            "secret",
            "-----BEGIN PRIVATE KEY-----\n",
            "authorization:",
            "bearer ",
            ":AA",
            "[" * 9,
        ),
        *(
            "-----BEGIN PRIVATE KEY-----\nAbCd0123EfGh4567",
            "password=xxxxxxxxxxxxxxxx ",
            "token" + " " * 19,
            "AKIA",
            "SK",
        ),
        *("client_secret=aB3dE6gH1jK2lM3n\n", "auth:", "key=key", "pass:pass:", "--token ", '"secret",', "<secret>"),
        *(
            "password: ",
            "passwd=" + "(" * 40,
            "pwd=a.b.c.d.e.f.g.h",
            "machine login password ",
            "secret='\\",
            "Q~",
            "8Q~",
        ),
        *("curl -u a:b ", " -p mysql", "echo a | sudo -s", "cookie: a=b1234567;", "sig=", "-us1", "_mmk", "s.", "pat"),
        *("-----END PRIVATE KEY-----\n", "AbCd0123EfGh4567\n-----END PRIVATE KEY-----\n", "Private-Lines: 1\n"),
        *("-----BEGIN PRIVATE KEY-----\nA: b\n", "IBAAKCA", ":5432:a:b:", "a.atlasv1.", "ghp_" + "a1B2" * 9),
    ],
)
@pytest.mark.timeout(60)
def test_time_is_linear_on_any_input(unit: str) -> None:
    """A long text of the worst takes seconds at most, and not minutes."""
    text = unit * (LONG // len(unit))
    strip_text(text)
    strip_bytes(json.dumps({"prompt": text}).encode())
    prefilter.suspicious(text.encode())


@pytest.mark.parametrize("secret", ["", "ghp_" + "a1B2" * 9])
def test_more_cuts_than_can_be_looked_at_keep_nothing_that_may_be_a_secret(secret: str) -> None:
    """Two thousand texts are cut. Where a secret stands in any of them, what was not looked at goes."""
    short = str(privacy.cut([f"{'w ' * (number % 120)}{secret} {'word ' * 300}" for number in range(2000)]))
    assert (len(short) < 100_000) == bool(secret)


@pytest.mark.timeout(60)
def test_nested_tags_are_linear_too() -> None:
    """A hundred thousand inside one another, and as many put together from their halves."""
    assert strip_text("a" + "<private>" * 100_000 + "x" + "</private>" * 100_000 + "b") == "a"
    assert "x" not in strip_text("<pri" * 100_000 + "<private>x</private>" + "vate>" * 100_000)[-10:]


@pytest.mark.parametrize("stem", ["prefilter", "privacy"])
def test_the_hook_can_import_it_bare(stem: str) -> None:
    """Without site-packages or the package around it, and `prefilter` without a single import of its own."""
    folder = str(Path(privacy.__file__).parent)
    code = (
        f"import sys; before = set(sys.modules); sys.path.append({folder!r}); import {stem}\n"
        f"print(' '.join(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"typing", "dataclasses", "pathlib", "json", "backstory"}
    assert loaded == {"prefilter"} if stem == "prefilter" else {"prefilter", "re"} <= loaded
