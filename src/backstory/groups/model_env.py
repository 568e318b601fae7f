"""The variables with which the agent of a group reaches its model."""

from __future__ import annotations

from collections.abc import Mapping

#: Variables of which one must be set.
CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
#: Variables that name a file, which the agent must see.
CERTIFICATES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
#: Variables that the agent gets from whoever starts it: who pays for the model, and how to reach it.
MODEL_ENV = frozenset(
    {
        *CREDENTIALS,
        *CERTIFICATES,
        *("ANTHROPIC_BASE_URL", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
        *("DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    }
)


def model_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that the agent gets."""
    return {name: value for name, value in env.items() if name in MODEL_ENV and value}
