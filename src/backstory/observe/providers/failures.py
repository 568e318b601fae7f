"""Failures of HTTP endpoints: which kind each status is, and the message for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from backstory.observe.providers import FailureKind, ProviderFailure

#: The longest pause that an endpoint may ask for.
MAX_RETRY_AFTER_S = 24 * 3600.0
#: What endpoints write about an account without credit. The status varies.
_NO_CREDIT = (
    *("insufficient_quota", "billing_error", "credit balance", "spend_limit", "billing_hard_limit"),
    "exceeded your",
)
_MESSAGES: dict[FailureKind, str] = {
    "auth": "{name} rejected the API key ({status}).",
    "quota": "{name} says that the account has no credit left ({status}).",
    "setup": "{name} does not know this model or address ({status}); see the settings `model` and `base_url`.",
    "rate_limit": "{name} asks for a pause ({status}).",
    "poison": "{name} rejected the request ({status}).",
    "transient": "{name} failed ({status}).",
}


def from_status(name: str, status: int, body: str = "", headers: Mapping[str, str] | None = None) -> ProviderFailure:
    """The failure that a status stands for. The body is only searched for signs and never shown: it may quote us."""
    kind = _kind(status, body.lower())
    message = _MESSAGES[kind].format(name=name, status=status)
    return ProviderFailure(kind, message, retry_after(headers or {}))


def _kind(status: int, body: str) -> FailureKind:
    if status == 402 or (status in (400, 403, 429) and any(sign in body for sign in _NO_CREDIT)):
        return "quota"
    if status in (401, 403):
        return "auth"
    if status in (404, 405, 410):
        return "setup"
    if status == 429:
        return "rate_limit"
    return "poison" if 400 <= status < 500 and status not in (408, 409, 425) else "transient"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait, from the header Retry-After, which has a number or a date. None if there is none."""
    value = headers.get("retry-after") or ""
    try:
        wait = float(value)
    except ValueError:
        try:
            wait = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return None if math.isnan(wait) else min(max(wait, 0.0), MAX_RETRY_AFTER_S)


def unreachable(name: str) -> ProviderFailure:
    return ProviderFailure("transient", f"{name} cannot be reached.")


def invalid_response(name: str) -> ProviderFailure:
    """The response does not follow the protocol. It may be the page of a proxy."""
    return ProviderFailure("transient", f"{name} sent a response that is not a model's answer.")


def not_installed(package: str, extra: str = "") -> ProviderFailure:
    extra = extra or package
    return ProviderFailure(
        "setup",
        f"The package `{package}` is not installed: `pip install 'backstory[{extra}]'`, then `backstory restart`.",
    )


def no_key(variable: str) -> ProviderFailure:
    return ProviderFailure(
        "setup",
        f"No API key is set. Set {variable} in the worker's environment, or run `backstory config set api_key KEY`.",
    )
