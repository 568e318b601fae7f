"""What an endpoint's refusal means: one table for all that speak HTTP."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from backstory.observe.providers import FailureKind, ProviderFailure

#: A pause is never longer than this, whatever an endpoint says.
LONGEST_S = 24 * 3600.0
#: What endpoints call an account that has nothing left, under whatever status.
_EMPTY = ("insufficient_quota", "billing_error", "credit balance", "spend_limit", "billing_hard_limit", "exceeded your")
_SENTENCES: dict[FailureKind, str] = {
    "auth": "{who} refuses the key ({status}).",
    "quota": "{who} says that the account has nothing left ({status}).",
    "setup": "{who} does not know this model or address ({status}); see the settings `model` and `base_url`.",
    "rate_limit": "{who} asks for a pause ({status}).",
    "poison": "{who} does not take what it was asked ({status}).",
    "transient": "{who} failed ({status}).",
}


def of_status(who: str, status: int, said: str = "", headers: Mapping[str, str] | None = None) -> ProviderFailure:
    """The failure that a status stands for. What the endpoint said is looked at, never passed on: it may quote us."""
    kind = _kind(status, said.lower())
    sentence = _SENTENCES[kind].format(who=who, status=status)
    return ProviderFailure(kind, sentence, retry_after(headers or {}))


def _kind(status: int, said: str) -> FailureKind:
    if status == 402 or (status in (400, 403, 429) and any(sign in said for sign in _EMPTY)):
        return "quota"
    if status in (401, 403):
        return "auth"
    if status in (404, 405, 410):
        return "setup"
    if status == 429:
        return "rate_limit"
    return "poison" if 400 <= status < 500 and status not in (408, 409, 425) else "transient"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """For how long an endpoint does not want to be asked, in seconds: it may give a number or a date."""
    given = headers.get("retry-after") or ""
    try:
        wait = float(given)
    except ValueError:
        try:
            wait = (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return None if math.isnan(wait) else min(max(wait, 0.0), LONGEST_S)


def no_answer(who: str) -> ProviderFailure:
    return ProviderFailure("transient", f"{who} can not be reached.")


def no_sense(who: str) -> ProviderFailure:
    """Something came that is not of this protocol: a proxy's page, perhaps."""
    return ProviderFailure("transient", f"{who} answered with something that is no answer of a model.")


def not_installed(package: str, extra: str = "") -> ProviderFailure:
    extra = extra or package
    return ProviderFailure(
        "setup",
        f"The package `{package}` is not installed: `pip install 'backstory[{extra}]'`, then `backstory restart`.",
    )


def no_key(variable: str) -> ProviderFailure:
    return ProviderFailure(
        "setup", f"No key is set: put {variable} into the worker's environment, or `backstory config set api_key KEY`."
    )
