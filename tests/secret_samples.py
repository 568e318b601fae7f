"""A generator of secrets as they stand in real text: many kinds, each in many surroundings. None of them opens a door.

The formats are written down here by themselves, not taken from the tables that are tested with them.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
SYMBOLS = "!@#$%^&*()-_=+[]{};:,.<>/?|~"
WORDS = ("harbor", "tulip", "marble", "cobalt", "walnut", "zephyr", "saffron", "otter", "pepper", "lantern", "quartz")


@dataclass(frozen=True)
class Sample:
    """One secret in its surroundings."""

    kind: str
    where: str
    text: str
    secret: str

    def leaks(self, clean: str) -> bool:
        """Whether the secret, or most of it, is still to be read."""
        half = max(6, len(self.secret) * 2 // 3)
        forms = {self.secret, json.dumps(self.secret)[1:-1]}
        return any(form[i : i + half] in clean for form in forms for i in (0, len(form) - half))


class Maker:
    """Makes samples from a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def some(self, length: int, letters: str = ALNUM) -> str:
        return "".join(self.dice.choice(letters) for _ in range(length))

    def base64(self, length: int) -> str:
        return base64.b64encode(self.dice.randbytes(length)).decode()

    def pick(self, *of: str) -> str:
        return self.dice.choice(of)

    # Tokens, which are known by themselves

    def token(self) -> tuple[str, str]:
        """A kind, and a token of it."""
        some, upper, lower = self.some, string.ascii_uppercase + string.digits, string.ascii_lowercase + string.digits
        url = ALNUM + "_-"
        makers: dict[str, Callable[[], str]] = {
            "aws": lambda: self.pick("AKIA", "ASIA") + some(16, string.ascii_uppercase + "234567"),
            "github": lambda: self.pick("ghp_", "gho_", "ghs_", "ghu_", "ghr_") + some(36),
            "github-fine": lambda: "github_pat_" + some(22) + "_" + some(59),
            "gitlab": lambda: self.pick("glpat-", "gldt-", "glrt-", "glft-", "glsoat-") + some(20, url),
            "gitlab-runner": lambda: "GR1348941" + some(20, url),
            "slack": lambda: (
                self.pick("xoxb-", "xoxp-") + some(12, string.digits) + "-" + some(12, string.digits) + "-" + some(24)
            ),
            "stripe": lambda: self.pick("sk_live_", "rk_live_", "sk_test_") + some(24),
            "npm": lambda: "npm_" + some(36),
            "pypi": lambda: "pypi-AgEIcHlwaS5vcmc" + some(140, url),
            "jwt": self.jwt,
            "openai": lambda: self.pick("sk-proj-", "sk-svcacct-") + some(60, url),
            "anthropic": lambda: "sk-ant-api03-" + some(93, url) + "AA",
            "google": lambda: "AIza" + some(35, url),
            "google-oauth": lambda: "ya29." + some(120, url),
            "huggingface": lambda: "hf_" + some(34, string.ascii_letters),
            "telegram": lambda: some(10, string.digits[1:]) + ":AA" + some(33, url),
            "discord": lambda: (
                "MTA" + self.pick("w", "x", "y", "z", "0", "1") + some(22) + "." + some(6, url) + "." + some(38, url)
            ),
            "sendgrid": lambda: "SG." + some(22, url) + "." + some(43, url),
            "mailgun": lambda: "key-" + some(32, HEX),
            "mailchimp": lambda: some(32, HEX) + "-us" + str(self.dice.randrange(1, 22)),
            "twilio": lambda: "SK" + some(32, HEX),
            "digitalocean": lambda: self.pick("dop_v1_", "doo_v1_", "dor_v1_") + some(64, HEX),
            "databricks": lambda: "dapi" + some(32, HEX),
            "azure-ad": lambda: some(3) + some(1, string.digits) + "Q~" + some(34, ALNUM + "_.-"),
            "heroku": lambda: "HRKU-AA" + some(58, url),
            "fly": lambda: "fm2_" + some(120, ALNUM + "+/"),
            "doppler": lambda: "dp.pt." + some(43),
            "dynatrace": lambda: "dt0c01." + some(24, upper) + "." + some(64, upper),
            "vault": lambda: "hvs." + some(95, url),
            "terraform": lambda: some(14) + ".atlasv1." + some(67, url),
            "pulumi": lambda: "pul-" + some(40, HEX),
            "planetscale": lambda: self.pick("pscale_tkn_", "pscale_pw_") + some(43, url),
            "supabase": lambda: "sbp_" + some(40, HEX),
            "openshift": lambda: "sha256~" + some(43, url),
            "atlassian": lambda: "ATATT3" + some(186, url),
            "rubygems": lambda: "rubygems_" + some(48, HEX),
            "clojars": lambda: "CLOJARS_" + some(60, lower),
            "docker": lambda: "dckr_pat_" + some(27, url),
            "sonar": lambda: "squ_" + some(40, HEX),
            "sourcegraph": lambda: "sgp_" + some(16, HEX) + "_" + some(40, HEX),
            "octopus": lambda: "API-" + some(26, upper),
            "postman": lambda: "PMAK-" + some(24, HEX) + "-" + some(34, HEX),
            "newrelic": lambda: "NRAK-" + some(27, upper),
            "grafana": lambda: "glsa_" + some(32) + "_" + some(8, HEX),
            "grafana-cloud": lambda: "glc_" + some(80),
            "sentry": lambda: "sntryu_" + some(64, HEX),
            "figma": lambda: "figd_" + some(40, url),
            "airtable": lambda: "pat" + some(14) + "." + some(64, HEX),
            "dropbox": lambda: "sl." + some(138, url),
            "linear": lambda: "lin_api_" + some(40),
            "notion": lambda: "ntn_" + some(46),
            "shopify": lambda: self.pick("shpat_", "shpca_", "shpss_", "shppa_") + some(32, HEX),
            "square": lambda: "sq0atp-" + some(22, url),
            "easypost": lambda: "EZAK" + some(54),
            "perplexity": lambda: "pplx-" + some(48),
            "groq": lambda: "gsk_" + some(52),
            "alibaba": lambda: "LTAI" + some(20),
            "prefect": lambda: "pnu_" + some(36),
            "sendinblue": lambda: "xkeysib-" + some(64, HEX) + "-" + some(16),
            "1password": lambda: "ops_eyJ" + some(260),
            "age": lambda: "AGE-SECRET-KEY-1" + some(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
        }
        kind = self.dice.choice(sorted(makers))
        return kind, makers[kind]()

    def jwt(self) -> str:
        def part(value: object) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

        head, body = part({"alg": "HS256", "typ": "JWT"}), part({"sub": self.some(12), "iat": 1})
        return f"{head}.{body}.{self.some(43, ALNUM + '_-')}"

    # Passwords and keys, which are known by their names

    def password(self) -> str:
        """What people and password managers make."""
        style = self.dice.randrange(5)
        if style == 0:
            return self.some(16, ALNUM + SYMBOLS)
        if style == 1:
            return self.some(self.dice.randrange(10, 33))
        if style == 2:
            return self.pick(*WORDS).title() + self.some(2, string.digits) + self.pick(*WORDS) + self.pick(*"!?$#")
        if style == 3:
            return "-".join(self.some(5) for _ in range(4))
        return self.pick(*WORDS) + self.some(4, string.digits)

    def key(self) -> str:
        """An API key without a beginning of its own."""
        makers = (
            lambda: self.some(32),
            lambda: self.some(40, HEX),
            lambda: self.some(32, HEX),
            lambda: self.base64(32),
            lambda: self.some(43, ALNUM + "_-"),
            lambda: "-".join(
                (self.some(8, HEX), self.some(4, HEX), self.some(4, HEX), self.some(4, HEX), self.some(12, HEX))
            ),
        )
        return self.dice.choice(makers)()

    def named(self) -> tuple[str, str, str]:
        """A kind, a name in small letters with underscores, and its secret."""
        if self.dice.random() < 0.5:
            name = self.pick(
                "password",
                "db_password",
                "passwd",
                "db_pass",
                "smtp_pass",
                "pwd",
                "admin_pwd",
                "passphrase",
                "secret",
                "client_secret",
                "jwt_secret",
            )
            return "password", name, self.password()
        name = self.pick(
            "api_key",
            "access_token",
            "auth_token",
            "secret_key",
            "private_token",
            "api_token",
            "stripe_api_key",
            "signing_key",
            "refresh_token",
            "encryption_key",
            "token",
        )
        return "key", name, self.key()

    # Surroundings

    def around_token(self, token: str) -> Iterator[tuple[str, str]]:
        word = self.pick(*WORDS)
        yield "text", f"I used {token} for the {word}."
        yield "line", f"{word}\n{token}\n{word}"
        yield "env", f"{word.upper()}={token}"
        yield "yaml", f"{word}: {token}\nother: 1"
        yield "json", json.dumps({word: token, "n": 1})
        yield "python", f'{word} = "{token}"'
        yield "javascript", f"const {word} = '{token}';"
        yield "url", f"https://{word}.example/v1?x=1&{word}={token}"
        yield "header", f"X-{word.title()}: {token}"
        yield "shell", f"{word} run --with '{token}' && echo done"
        yield "diff", f"@@ -1 +1 @@\n-{word}\n+{word} {token}\n"
        yield "log", f"2026-01-02T03:04:05Z INFO {word} started with {token}"
        yield "escaped", json.dumps(json.dumps({word: f"line\n{token}\nline"}))
        yield "joined", f"{word}_{token}" if self.dice.random() < 0.5 else f"{word}={token},"

    def around_named(self, name: str, secret: str) -> Iterator[tuple[str, str]]:
        camel = "".join(part.title() if number else part for number, part in enumerate(name.split("_")))
        safe = '"' not in secret and "\\" not in secret
        yield "env", f"{name.upper()}={secret}"
        yield "env-quoted", f'export {name.upper()}="{secret}"'
        yield "env-single", f"{name.upper()}='{secret}'\nDEBUG=1"
        yield "ini", f"[main]\n{name} = {secret}\n"
        yield "properties", f"{name}={secret}\nport=5432\n"
        yield "yaml", f"db:\n  {name}: {secret}\n  port: 1\n"
        yield "yaml-quoted", f'db:\n  {name}: "{secret}"\n'
        yield "json", json.dumps({"host": "h", name: secret})
        yield "json-camel", json.dumps({"host": "h", camel: secret}, indent=2)
        yield "json-escaped", json.dumps(json.dumps({name: secret}))
        yield "json-object", json.dumps({"tool_input": {name: secret}})
        yield "python", f'{name} = "{secret}"'
        yield "python-call", f'connect(host="h", {name}="{secret}", port=1)'
        yield "javascript", f"const {camel} = '{secret}';"
        yield "go", f'{camel} := "{secret}"'
        yield "php", f"'{name}' => '{secret}',"
        yield "option", f"deploy --{name.replace('_', '-')}={secret}"
        yield "option-space", f"deploy --{name.replace('_', '-')} '{secret}' --fast"
        yield "diff", f"@@ -1 +1 @@\n-{name.upper()}=\n+{name.upper()}={secret}\n"
        yield "log", f"2026-01-02 DEBUG config {name}='{secret}' loaded"
        if safe and secret.isalnum():
            yield "xml", f"<{name}>{secret}</{name}>"
            yield "query", f"https://shop.example/login?user=a&{name}={secret}&next=1"
            yield "dotnet", f"Server=x;Database=d;{camel}={secret};"

    def formatted(self) -> tuple[str, str, str]:
        """A secret that its surroundings make one: a kind, a text, the secret."""
        password, key, word = self.some(14), self.some(40), self.pick(*WORDS)
        basic = base64.b64encode(f"{word}:{password}".encode()).decode()
        sas = (
            base64.b64encode(self.dice.randbytes(32))
            .decode()
            .replace("+", "%2B")
            .replace("/", "%2F")
            .replace("=", "%3D")
        )
        pem = "\n".join(self.base64(48) for _ in range(6))
        escaped = json.dumps(pem)[1:-1]
        lines = [f"+{line}" for line in ("-----BEGIN PRIVATE KEY-----", *pem.split("\n"), "-----END PRIVATE KEY-----")]
        rows: list[tuple[str, str, str]] = [
            ("bearer", f"curl -H 'Authorization: Bearer {key}' https://x", key),
            ("basic", f"Authorization: Basic {basic}", basic),
            ("json-header", json.dumps({"headers": {"Authorization": f"Bearer {key}"}}), key),
            ("api-header", f"curl -H 'X-Api-Key: {key}' https://x", key),
            ("url", f"postgres://{word}:{password}@db.example:5432/shop", password),
            ("redis", f"REDIS_URL=redis://:{password}@cache:6379/0", password),
            ("git", f"https://{word}:{password}@git.example/a.git", password),
            ("pgpass", f"db.example:5432:shop:{word}:{password}\n", password),
            ("netrc", f"machine git.example login {word} password {password}", password),
            ("docker", json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": basic}}}), basic),
            ("npmrc", f"//npm.example/:_authToken={key}\n", key),
            ("npmrc-auth", f"_auth={basic}\n", basic),
            ("kubeconfig", f"users:\n- user:\n    token: {key}\n", key),
            ("kubeconfig-key", "    client-key-data: " + self.base64(120), ""),
            ("azure", f"DefaultEndpointsProtocol=https;AccountName={word};AccountKey={self.base64(64)};", ""),
            ("sas", f"https://{word}.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig={sas}", sas),
            ("cookie", f"Cookie: sessionid={key}; theme=dark", key),
            ("set-cookie", f"Set-Cookie: session={key}; Path=/; HttpOnly", key),
            ("curl", f"curl -s -u {word}:{password} https://x", password),
            ("mysql", f"mysql -u{word} -p{password} shop", password),
            ("sshpass", f"sshpass -p '{password}' ssh {word}@h", password),
            ("sudo", f"echo '{password}' | sudo -S ls", password),
            ("slack-webhook", f"https://hooks.slack.com/services/T{self.some(8)}/B{self.some(8)}/{self.some(24)}", ""),
            ("aws-secret", f"aws_secret_access_key = {self.base64(30)}", ""),
            ("pem", f"cat k\n-----BEGIN RSA PRIVATE KEY-----\n{pem}\n-----END RSA PRIVATE KEY-----\ndone", pem),
            ("pem-cut", f"{pem}\n-----END RSA PRIVATE KEY-----\ndone", pem),
            ("pem-open", f"-----BEGIN EC PRIVATE KEY-----\n{pem}", pem),
            (
                "pem-json",
                f'{{"private_key":"-----BEGIN PRIVATE KEY-----\\n{escaped}\\n-----END PRIVATE KEY-----\\n"}}',
                escaped,
            ),
            ("pem-patch", json.dumps({"structuredPatch": [{"lines": lines}]}), pem.split("\n")[2]),
        ]
        kind, text, secret = self.dice.choice(rows)
        if not secret:
            secret = max(text.replace(";", " ").replace("=", " ", text.count("=") - 2).split(), key=len).rpartition(
                "/services/"
            )[2]
            secret = secret.removeprefix("AccountKey").strip("=")
        return kind, text, secret

    def sample(self) -> Sample:
        """One sample; a third by itself, a third by its name, a third by its surroundings."""
        which = self.dice.randrange(3)
        if which == 0:
            kind, token = self.token()
            where, text = self.dice.choice(list(self.around_token(token)))
            return Sample(kind, where, text, token)
        if which == 1:
            kind, name, secret = self.named()
            where, text = self.dice.choice(list(self.around_named(name, secret)))
            return Sample(kind, where, text, secret)
        kind, text, secret = self.formatted()
        return Sample(kind, "as it is", text, secret)


def samples(count: int, seed: int = 1) -> Iterator[Sample]:
    """So many samples, always the same for a seed."""
    maker = Maker(seed)
    for _ in range(count):
        yield maker.sample()
