"""Secrets in the forms in which people and programs leave them, and what looks like them and must stay."""

from __future__ import annotations

import json
import random
import string

import pytest
from secret_samples import samples
from written_secrets import written

from backstory import gate, prefilter
from backstory.privacy import strip_bytes, strip_json, strip_text
from backstory.truncate import MAX_FIELD_CHARS

BODY = ["AbCd0123EfGh4567" * 4, "ZyXw9876VuTs5432" * 4, "QrSt1357UvWx2468" * 4]
BEGIN, END = "-----BEGIN RSA PRIVATE " + "KEY-----", "-----END RSA PRIVATE " + "KEY-----"
KEY = "\n".join((BEGIN, *BODY, END))
SECRET = "aB3" + "dE6gH1jK2lM3n"


def leaks(clean: str) -> bool:
    return any(line[:32] in clean or line[-32:] in clean for line in BODY)


def test_nearly_all_generated_secrets_are_redacted() -> None:
    """At least 97 of 100, over kinds and surroundings, and whatever is redacted was seen by the cheap look."""
    count, leaked, unseen = 3000, [], []
    for sample in samples(count, seed=7):
        raw = sample.text.encode()
        clean = strip_bytes(raw)
        if sample.leaks(clean.decode()):
            leaked.append((sample.kind, sample.where))
        if clean != raw and not prefilter.suspicious(raw):
            unseen.append(sample.text)
    assert not unseen
    assert len(leaked) <= count * 0.03, leaked


@pytest.mark.parametrize(("area", "text", "secret"), written())
def test_secrets_as_they_are_written_are_redacted_alone(area: str, text: str, secret: str) -> None:
    """Assignments of many languages, commands, settings, prose, tables, colours. What stands around them stays."""
    head, _, tail = text.partition(secret)
    for form in (text, f"before\n{text}\nafter", json.dumps({"tool_input": {"command": text}})):
        clean = strip_bytes(form.encode()).decode()
        assert prefilter.suspicious(form.encode()), area
        assert secret not in clean
        assert strip_bytes(clean.encode()).decode() == clean
        if form.startswith("{"):
            json.loads(clean)
    shown = strip_text(text)
    assert shown.startswith(head.rstrip("=")), shown
    assert shown.endswith(tail.lstrip("=")), shown


@pytest.mark.parametrize(
    "text",
    [
        "The password is required.",
        "the password for staging is stored in Vault",
        "The token is base64-encoded and the key is 256-bit.",
        "Your password must be at least 12 characters and is hashed with bcrypt2b",
        "token usage was 12,345 of 200k; the key is in config.yaml",
        "The secret to good tests is isolation (see RFC-7617).",
        "password authentication is supported since v2.14.0-rc1",
        "The API key is read from $API_KEY or ~/.config/tool/key1.json",
        "api key to use OAuth2 or SHA256withRSA",
        "| Token | Cost |\n| input token | 0.25 |",
        "| password | string | required |",
        'self.password: Optional[str] = None  # "secret" is set by login()',
        "let token: &str = next_token(input)?;",
        'public string Password { get; set; } = "";',
        "ENV PATH /usr/local/bin:$PATH\nENV TOKENIZERS_PARALLELISM false",
        'variable "token_ttl" {\n  default = "24h"\n}',
        '{"name": "password", "label": "Password", "value": ""}',
        '{"name": "api_key", "description": "The key", "default": null}',
        "expect(screen.getByLabelText('password')).toBeVisible()",
        "identified by `tool_use_id` and the session",
        "sudo apt-get install -y p7zip-full mysql-client-8.0",
        "ssh login -p 2222 and net user documentation",
        "rabbitmqctl add_user shop $PASS",
        "Cookie: theme=dark; lang=en-US; consent=yes",
        "the cookie expires=Wed; max-age=31536000",
        "const KEY_PAT = '[a-z]+';",
        "PASS: TestGradientCellsColor256Fallback (0.00s)",
        "oh-my-posh print primary --pwd 'C:\\Users\\jan\\code'",
        "mlkem_key: MLKEM768PrivateKey,",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "fn re_Export_all_the_things_from_here() {}",
        "POSTGRES_PASSWORD: ${POSTGRES_PASSWORD:?required-1}",
        "pass: v2.3.1 is out; pass: lint, test",
        "PASS: TestParse123 (0.02s)",
        "the passwords:\n  minimum12_of_all: 3",
        "ssh-keygen -t ed25519 -N '' -C bob2@example.org",
        "pip install sdk-python mob-app api-client",
    ],
)
def test_prose_and_declarations_without_a_secret_stay(text: str) -> None:
    """The value must look like a secret, and not like a word, a type, a version or a file."""
    assert strip_text(text) == text
    assert strip_json({"a": text.split("\n")}) == {"a": text.split("\n")}


def test_a_secret_is_found_beside_its_name_in_an_object() -> None:
    """As task definitions and settings of clouds have it, in either order, and over the lines of a patch."""
    password = "Tulip" + "739!"
    for value in (
        {"environment": [{"name": "DB_PASSWORD", "value": password}]},
        {"value": password, "slotSetting": False, "key": "DB_PASSWORD"},
        {"lines": ["+env:", "+  - name: DB_PASSWORD", f"+    value: {password}", "+  - name: X"]},
    ):
        clean = strip_json(value)
        assert password not in json.dumps(clean)
        assert clean.keys() == value.keys()
        assert strip_json(clean) == clean
        assert prefilter.suspicious(json.dumps(value).encode())
    assert len(clean["lines"]) == 4


@pytest.mark.parametrize(
    "form",
    [
        "DB_PASSWORD=@",
        'DB_PASSWORD="@"',
        "DB_PASSWORD='@'",
        "db_password: @",
        'password: "@"',
        "export PGPASSWORD=@ && psql",
    ],
)
def test_passwords_with_symbols_are_redacted(form: str) -> None:
    """Of random ones of sixteen characters at least 97 in 100, quoted or not."""
    dice, letters = random.Random(5), string.ascii_letters + string.digits + "!@#$%^&*()-_=+[]{};:,.<>/?|~"
    passwords = ["".join(dice.choice(letters) for _ in range(16)) for _ in range(500)]
    leaked = [one for one in passwords if one in strip_text("x\n" + form.replace("@", one) + "\ny")]
    assert len(leaked) <= 15, leaked
    by_key = [one for one in passwords if json.dumps(one) in json.dumps(strip_json({"password": one}))]
    assert len(by_key) <= 15, by_key


# Private keys


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"$ cat key\n{KEY}\n$ ls",
        "\n".join((*BODY, END)),
        "\n".join((BEGIN, *BODY)),
        "words before\n" + "\n".join(BODY[1:]) + f"\n{END}\nwords after",
        json.dumps({"private_key": KEY + "\n"}),
        json.dumps(json.dumps({"private_key": KEY + "\n"})),
        "\n".join(f"    {number}→{line}" for number, line in enumerate(KEY.split("\n"))),
        "\n".join("+" + line for line in KEY.split("\n")),
        "key = (\n" + "\n".join(f'    "{line}\\n"' for line in KEY.split("\n")) + "\n)",
        KEY.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"),
        KEY.replace(BEGIN, BEGIN + "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n"),
        "PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 3\n" + "\n".join(BODY) + "\nPrivate-MAC: 00",
        "b3BlbnNzaC1rZXkt" + "djEAAAAABG5vbmUAAAAEbm9uZQ\n" + "\n".join(BODY),
    ],
)
def test_private_keys_are_redacted_whole_and_cut(text: str) -> None:
    """With both ends, with one, in listings, patches, strings of code, JSON; also without either, by how keys begin."""
    assert prefilter.suspicious(text.encode())
    clean = strip_text(text)
    assert not leaks(clean)
    assert "[redacted:private-key]" in clean
    assert strip_text(clean) == clean
    assert ("words before" in clean, "words after" in clean) == ("words before" in text, "words after" in text)


@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(None, -1), slice(2, None)])
def test_a_private_key_over_the_elements_of_a_list_is_redacted(part: slice) -> None:
    """A patch has one element a line; the key may begin before it or end behind it."""
    lines = ["+" + line for line in KEY.split("\n")][part]
    value = {"structuredPatch": [{"oldStart": 1, "lines": [" context before", *lines, " context after"]}]}
    clean = strip_json(value)
    assert not leaks(json.dumps(clean))
    assert strip_json(clean) == clean
    kept = clean["structuredPatch"][0]["lines"]
    assert len(kept) == len(lines) + 2
    assert (kept[0], kept[-1]) == (" context before", " context after")


@pytest.mark.parametrize("where", [0.0, 0.3, 0.5, 0.66, 0.667, 0.8, 1.0])
def test_a_private_key_in_a_large_output_is_not_stored_in_part(where: float) -> None:
    """Wherever the output is cut, no line of the key is kept."""
    filler = "some words of a log\n" * (MAX_FIELD_CHARS // 8)
    at = int(len(filler) * where)
    for shift in range(0, 200, 40):
        text = filler[: at + shift] + "\n" + KEY + "\n" + filler[at + shift :]
        assert not leaks(json.dumps(gate.payload({"tool_response": {"stdout": text}})))
    lines = [*filler.split("\n")[: at // 20], *KEY.split("\n"), *filler.split("\n")[at // 20 :]]
    assert not leaks(json.dumps(gate.payload({"tool_response": {"lines": lines}})))


@pytest.mark.parametrize(
    "text",
    [
        f'if text.startswith("{BEGIN}"): read(text)',
        f"A file that begins with {BEGIN} is a key.",
        "-----BEGIN CERTIFICATE-----\n" + "\n".join(BODY) + "\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC " + "KEY-----\n" + "\n".join(BODY),
    ],
)
def test_what_is_no_private_key_stays(text: str) -> None:
    """Labels in code, certificates, public keys."""
    assert strip_text(text) == text


# Names, headers, commands, files


@pytest.mark.parametrize(
    "text",
    [
        f"db.example.com:5432:shop:admin:{SECRET}",
        f"machine github.com login me password {SECRET}",
        '{"auths":{"https://index.docker.io/v1/":{"auth":"dXNlcjph' + 'QjNkRTZnSDFqSzJsTTNu"}}}',
        f"    client-key-data: {SECRET * 4}",
        f"    token: {SECRET * 2}",
        "//npm.example/:_auth=dXNlcjph" + "QjNkRTZnSDFqSzJsTTNu",
        f"//npm.example/:_authToken={SECRET * 2}",
        f"https://x.blob.core.windows.net/c?sv=2022&sig={SECRET * 3}%3D",
        f"Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey={SECRET * 3}=",
        f"Server=x;Database=d;User Id=sa;Password={SECRET};Encrypt=true",
        f"Cookie: sessionid={SECRET}; csrftoken=x",
        f"Set-Cookie: session={SECRET}; HttpOnly",
        f"sshpass -p '{SECRET}' ssh h",
        f"curl -sS -u admin:{SECRET} https://x",
        f"mysql -uroot -p{SECRET} shop",
        f"docker login -u me -p {SECRET} registry.example",
        f"echo '{SECRET}' | sudo -S ls",
        f"openssl rsa -passin pass:{SECRET} -in k",
        f"deploy --password {SECRET}",
        f"<password>{SECRET}</password>",
        f'<add key="Password" value="{SECRET}" />',
        f"define('AUTH_KEY', '{SECRET}');",
        f"DB_PASS={SECRET}",
        f"pwd={SECRET}",
        f"MYSQL_ROOT_PASS: {SECRET}",
        f'auth: {{ user: "me", pass: "{SECRET}" }}',
        f"AZURE_DEVOPS_EXT_PAT={SECRET * 3}",
        f"x_eyJ{SECRET}.eyJ{SECRET}.{SECRET}",
        f"x-eyJ{SECRET}.eyJ{SECRET}.{SECRET}",
        f"Authorization: {SECRET * 2}",
        f"password={SECRET.lower()}",
    ],
)
def test_secrets_in_files_headers_and_commands_are_redacted(text: str) -> None:
    """Bare, in JSON, and as a command that a tool was asked to run."""
    for form in (text, f"before\n{text}\nafter", json.dumps({"tool_input": {"command": text}})):
        assert prefilter.suspicious(form.encode()), form
        clean = strip_bytes(form.encode()).decode()
        assert SECRET not in clean
        assert "QjNkRTZnSDFqSzJsTTNu" not in clean
        assert strip_text(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "token = get_token()",
        "key: str",
        "password=password",
        "connect(user=user, password=settings.database.password)",
        "    pass",
        "author: Jane Doe",
        "keyboard: qwertz12345",
        '{"key": "value", "keys": ["a1b2c3d4"]}',
        "tokens: 1234",
        "max_tokens=100000",
        '"input_tokens": 12345678',
        "auth: required",
        "--- PASS: TestFooBar123 (0.00s)",
        "PASS: 12 FAIL: 0",
        'primary_key = "user_id_0001"',
        'cache_key = "9f86d081884c7d659a2feaa0c55ad015"',
        'next_page_token = "aB3dE6gH1jK2lM3n"',
        "PWD=/home/me/work",
        'apiKey := os.Getenv("POSTHOG_API_KEY")',
        'password: "{{.Env.MACOS_SIGN_PASSWORD}}"',
        "password: ${{ secrets.DB_PASSWORD }}",
        "API_KEY=$(cat /run/secrets/key1)",
        "headers=build_headers(token=self._token))",
        'forgotPassword: "Forgot your password?"',
        '"password": "Please enter at least 8 characters"',
        "token = f'{prefix}-{number}'",
        "const token = await getToken(request);",
        "private_key: Ed25519PrivateKey | None = None",
        "secrets: inherit",
        "secretName: shop-tls-2024",
        "docker run -u 1000:1000 image",
        "mkdir -p build/pass1234",
        "mysql -u root -p shop",
        "ssh -p 2222 host",
        "def login(password: str, token: Optional[str] = None) -> bool:",
        "if password == confirmation:",
        "Cookie: theme=dark",
        "monkey: b4nanaB4nanaB4nana",
        'assert response.cookies["key"] == "value1"',
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    ],
)
def test_code_and_prose_about_secrets_stay(text: str) -> None:
    """References, types, counts, labels, other programs' options."""
    assert strip_text(text) == text
    assert strip_json({"a": [text]}) == {"a": [text]}
    assert not prefilter.suspicious(json.dumps({"tool_response": text}).encode())
