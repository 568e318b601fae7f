"""Shell commands: the simple commands in a line, and which of them check something."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"(?P<heredoc><<-?[ \t]*['\"]?(?P<mark>\w{1,40})['\"]?)|(?P<op>&&|\|\||;;?|\|&?|\n|(?<![<>])&(?![>&\d]))"
    r"|(?P<redirect>\d?>{1,2}&?[ \t]*[^\s;&|]{0,200}|&>{1,2}[ \t]*[^\s;&|]{0,200}|<[ \t]*[^\s<(;&|]{1,200})"
    r"|(?P<word>(?:[^\s'\"\\;&|<>]|\\[\s\S]|'[^']*'|\"(?:[^\"\\]|"
    r"\\[\s\S])*\"|(?<=[^\s])<|['\"])+)|(?P<space>[ \t]+)|(?P<other>.)",
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_INTERPRETER = re.compile(r"(?:python[\d.]*|py|php|ruby)$")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _by_name(table: dict[str, str], separator: str | None = None) -> dict[str, str]:
    return {" ".join(name.split()): purpose for purpose, names in table.items() for name in names.split(separator)}


#: Commands that do not fail by themselves.
QUIET = _words("cd echo export printf pwd set sleep source tail head tee cat grep sed date")
#: Programs that only start another one, and how many of their own words come before it.
_WRAPPERS = dict.fromkeys(
    _words("sudo doas time nohup env xargs nice ionice setsid stdbuf exec command npx bunx uvx pipx rtk"), 0
) | {"timeout": 1}
#: Shells, which may be given a line to run.
_SHELLS = _words("sh bash zsh dash ksh ash")
#: Lines that are given to shells inside of each other, at most.
_DEPTH = 3
#: The same with a sub-command.
_STARTERS = {
    *((name, "run") for name in ("uv", "poetry", "pipenv", "hatch", "pdm", "rye")),
    *((name, "exec") for name in ("bundle", "npm", "pnpm", "yarn", "mise")),
    *((name, "dlx") for name in ("pnpm", "yarn")),
}
#: Options of wrappers and task runners that are followed by a value.
_WITH_VALUE = _words("-C -F -n -p -u -w --cwd --extra --filter --group --package --prefix --python --with")
#: Words that make a check show something else instead.
_ONLY_SHOWS = _words(
    "--version version --help -h --collect-only --co --listTests --list-tests --init --dry-run --just-print --no-run"
    " --list -list --fixtures --setup-plan --show-config --showConfig --print-config --show-settings --show-files"
)
#: What a program checks, by its name, or by its name and its sub-command.
_PURPOSES = _by_name(
    {
        "test": """pytest py.test unittest nose2 jest vitest mocha ava rspec phpunit pest ctest tox nox minitest karma
            gotestsum trial bats busted""",
        "lint": """ruff flake8 pylint eslint golangci-lint clippy shellcheck rubocop stylelint biome standard
            staticcheck hadolint markdownlint phpstan ktlint swiftlint yamllint vale buf""",
        "types": "mypy pyright tsc vue-tsc pyre flow svelte-check pytype ty",
        "build": """webpack rollup esbuild parcel cmake gcc g++ clang clang++ javac rustc xcodebuild bazel msbuild ninja
            swc goreleaser""",
    }
) | _by_name(
    {
        "test": """go test|cargo test|cargo nextest|dotnet test|swift test|mix test|flutter test|deno test|bun test|
            node --test|mvn verify|mvn test|mvnw verify|mvnw test|gradle check|gradlew check|zig test|artisan test|
            rails test|manage.py test|playwright test|cypress run""",
        "lint": "go vet|cargo clippy|deno lint|terraform validate|helm lint|pre-commit run",
        "types": "cargo check|deno check",
        "build": """go build|cargo build|dotnet build|swift build|docker build|mvn package|mvn compile|mvn install|
            go install|next build|vite build|docker-compose build|flutter build|zig build|cargo install|
            gradle assemble""",
        "": "ruff format|ruff clean|biome format",
    },
    "|",
)
#: Programs that run the scripts of a project. The name of the script tells what it checks.
_TASK_RUNNERS = _words(
    "npm pnpm yarn bun make just task mise rake nx turbo gradle gradlew mvn mvnw composer deno hatch pdm ninja"
)
_TASKS = {
    purpose: re.compile(rf"(?:^|[:_-])(?:{words})(?:$|[:_-])")
    for purpose, words in {
        "test": "tests?|spec|e2e|unit|integration|check|verify",
        "lint": "lint|eslint|ruff|clippy|vet",
        "types": "type-?check|types|tsc|mypy|pyright",
        "build": "build|compile|bundle|dist|all|package",
    }.items()
}


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its words without wrappers, and what it checks."""

    words: tuple[str, ...]
    purpose: str = ""  #: test, lint, types, build; empty for all others
    name: str = ""  #: what runs of the same check have in common: `pytest`, `npm run lint`


def read_commands(line: str, depth: int = 0) -> list[Command]:
    """Return the simple commands of a shell line, in order, with those of a line that it gives to another shell."""
    found: list[Command] = []
    for words in _split(line[:20_000].replace("\\\n", " ")):
        command = _read(words)
        inner = _given_to_shell(command.words) if command and depth < _DEPTH else ""
        if inner:
            found += read_commands(inner, depth + 1)
        elif command:
            found.append(command)
    return found


def _given_to_shell(words: tuple[str, ...]) -> str:
    """The line in `bash -c LINE`."""
    if words[0] not in _SHELLS:
        return ""
    at = next((at for at, word in enumerate(words[:4]) if re.fullmatch(r"-[a-z]*c", word)), len(words))
    return words[at + 1].replace('\\"', '"') if at + 1 < len(words) else ""


def _split(line: str) -> list[list[str]]:
    """The words of each simple command, without operators, redirections and here-documents."""
    commands: list[list[str]] = [[]]
    at = 0
    heredocs: list[str] = []
    while at < len(line) and (token := _TOKEN.match(line, at)):
        at = token.end()
        if token["heredoc"]:
            heredocs.append(token["mark"])
        elif token["op"]:
            commands.append([])
            if token["op"] == "\n":
                for mark in heredocs:
                    end = re.compile(rf"^[ \t]*{mark}\b", re.M).search(line, at)
                    at = end.end() if end else len(line)
                heredocs = []
        elif word := token["word"]:
            is_quoted = word[0] in "'\"" and word[-1] == word[0] and len(word) > 1
            commands[-1].append(word[1:-1] if is_quoted else word)
    return [words for words in commands if words][:60]


def _read(words: list[str]) -> Command | None:
    words = [words[0].lstrip("("), *words[1:]]  # a subshell may begin without a blank
    words = _unwrap(
        [
            word
            for word in words
            if word not in ("", "(", ")", "{", "}", "!", "do", "then", "else", "if", "elif", "while", "until")
        ]
    )
    if not words:
        return None
    program = posixpath.basename(words[0]) or words[0]
    words = [program, *words[1:]]
    if _ONLY_SHOWS & set(words[1:]):
        return Command(tuple(words))
    targets = _targets(words[1:])
    seconds = (word for word in (*targets[:1], *words[1:2]) if f"{program} {word}" in _PURPOSES)
    name = f"{program} {second}" if (second := next(seconds, "")) else program
    purpose = _PURPOSES.get(name, "")
    if not purpose and program in _TASK_RUNNERS:
        task = targets[: 2 if targets[:1] in (["run"], ["run-script"]) else 1]
        is_make = program == "make" and not task
        purpose = next((one for one, words_ in _TASKS.items() if task and words_.search(task[-1])), "build" * is_make)
        name = " ".join([program, *task])
    return Command(tuple(words), purpose, name if purpose else "")


def _targets(words: list[str]) -> list[str]:
    """The words that are no options, values of options or variables."""
    values = {at + 1 for at, word in enumerate(words) if word in _WITH_VALUE}
    return [word for at, word in enumerate(words) if at not in values and word[:1] != "-" and "=" not in word]


def _unwrap(words: list[str]) -> list[str]:
    """The words of the program that is really run."""
    for _ in range(8):
        while words and (_ASSIGNMENT.match(words[0]) or words[0].startswith("-")):
            words = words[2 if words[0] in _WITH_VALUE else 1 :]
        if not words:
            break
        name, second = posixpath.basename(words[0]), "".join(_targets(words[1:])[:1])
        if name in _WRAPPERS:
            words = words[1:] if not _WRAPPERS[name] else words[words.index(second) + 1 :] if second else []
        elif (name, second) in _STARTERS:
            words = words[words.index(second) + 1 :]
        elif _INTERPRETER.match(name) and "-m" in words[1:4]:
            words = words[words.index("-m") + 1 :]
        elif _INTERPRETER.match(name) and posixpath.basename(second) in ("manage.py", "artisan"):
            words = words[words.index(second) :]
        else:
            break
    return words
