"""Programs by what they are for: the tables that shell commands are read with."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _by_name(table: dict[str, str], separator: str | None = None) -> dict[str, str]:
    return {" ".join(name.split()): kind for kind, names in table.items() for name in names.split(separator)}


#: Programs that only start another one, and how many of their own words come before it.
WRAPPERS = dict.fromkeys(_words("sudo time nohup env xargs nice exec command caffeinate"), 0) | {"timeout": 1}
#: The same with a sub-command.
RUNNERS = frozenset(
    {
        *((name, "run") for name in ("uv", "poetry", "pipenv", "hatch", "pdm", "rye")),
        *((name, "exec") for name in ("bundle", "npm", "pnpm", "yarn", "mise", "docker")),
        *((name, "dlx") for name in ("pnpm", "yarn")),
    }
)
#: What only looks around or moves about.
NOISE = _words(
    """
    ls cd pwd echo printf cat head tail less more sleep which type whereis mkdir rmdir touch true false test [ wc sort
    uniq tr cut date whoami hostname uname id ps kill pkill df du file stat tree realpath basename dirname tee clear
    export set unset source . read wait jobs rg grep egrep fgrep ag find fd sed awk jq yq diff cmp xxd hexdump strings
    env printenv history open pbcopy seq yes nl column for while if do done then else fi case esac function lsof top
    free ifconfig ping cp mv rm ln chmod chown shasum md5sum sha256sum base64 tput return exit eval local
    """
)
GIT_TOLD = _words("commit push merge rebase tag cherry-pick revert clone am")
#: Programs whose first word says what they do.
SUBCOMMANDS = _words(
    """
    go cargo npm pnpm yarn bun deno make just task mise rake bundle dotnet mvn gradle gradlew mvnw docker docker-compose
    podman kubectl terraform pip pip3 uv poetry brew apt apt-get gem composer conda gh git alembic prisma rails flask
    django-admin manage.py nx turbo lerna helm pulumi flutter dart swift mix tox nox pre-commit knex sequelize goose
    flyway php artisan symfony rustup
    """
)
#: Programs that run a project's own scripts; TASKS reads the script's name.
TASK_RUNNERS = _words(
    "npm pnpm yarn bun make just task mise rake nx turbo gradle gradlew mvn mvnw composer deno hatch pdm ninja"
)


def _named(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[:_-])(?:{words})(?:$|[:_-])")


TASKS = {
    "test": _named("tests?|spec|e2e|unit|check-tests|integration"),
    "lint": _named("lint|eslint|ruff|clippy|vet"),
    "types": _named("type-?check|types|tsc|mypy|pyright"),
    "format": _named("fmt|format|prettier|black"),
    "build": _named("build|compile|bundle|dist|all|package"),
    "migrate": _named("migrate|migrations?"),
    "serve": _named("dev|start|serve|server|preview|up"),
}
PURPOSE = _by_name(
    {
        "test": """pytest py.test unittest nose2 jest vitest mocha ava rspec phpunit pest ctest tox nox playwright
            cypress minitest karma gotestsum trial bats busted""",
        "lint": """ruff flake8 pylint eslint golangci-lint clippy shellcheck rubocop stylelint biome standard
            staticcheck hadolint markdownlint phpstan ktlint swiftlint yamllint vale pre-commit buf""",
        "types": "mypy pyright tsc vue-tsc pyre flow svelte-check pytype ty",
        "format": "black prettier gofmt goimports rustfmt isort clang-format autopep8 gofumpt",
        "build": """webpack rollup vite esbuild parcel cmake gcc g++ clang clang++ javac rustc xcodebuild bazel msbuild
            ninja swc goreleaser""",
        "migrate": "alembic flyway liquibase knex goose dbmate sequelize",
        "serve": "uvicorn gunicorn hypercorn nodemon http-server serve caddy nginx streamlit",
    }
) | _by_name(
    {
        "test": """go test|cargo test|cargo nextest|dotnet test|swift test|mix test|flutter test|deno test|bun test|
            node --test|mvn verify|mvn test|gradle check|zig test|artisan test|rails test|manage.py test""",
        "lint": "go vet|cargo clippy|deno lint|terraform validate|helm lint",
        "types": "cargo check|deno check",
        "format": "go fmt|cargo fmt|terraform fmt|mix format|dart format|go mod|ruff format|biome format",
        "build": """go build|cargo build|dotnet build|swift build|docker build|mvn package|mvn compile|mvn install|
            go install|next build|docker-compose build|flutter build|zig build|cargo install|gradle assemble""",
        "install": """pip install|pip3 install|npm install|npm i|npm add|npm ci|pnpm install|pnpm add|pnpm i|yarn add|
            yarn install|bun add|bun install|cargo add|go get|gem install|bundle install|bundle add|composer require|
            composer install|apt install|apt-get install|brew install|uv add|uv sync|uv pip|poetry add|poetry install|
            conda install|dotnet add|deno add|apk add|rustup component|rustup target|pipx install|dnf install|
            yum install|npm uninstall|pip uninstall|uv remove|yarn remove|npm remove""",
        "migrate": """manage.py migrate|prisma migrate|prisma db|rails db:migrate|artisan migrate|rake db:migrate|
            flask db|supabase db|drizzle-kit push|drizzle-kit migrate|mix ecto.migrate""",
        "serve": """manage.py runserver|flask run|rails s|rails server|docker-compose up|docker run|docker compose|
            php -s|next dev|vite dev|artisan serve""",
    },
    "|",
)
