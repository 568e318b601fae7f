"""The provider `anthropic`: the Messages API through the SDK. Each round is a new conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.observe.providers import Answer, Ask, Choice, failures, model_call, token_count
from backstory.text import tokens

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

NAME = "Anthropic"
DEFAULT_URL = "https://api.anthropic.com"
#: Maximum output tokens, thinking included. Enough for the largest round.
MAX_TOKENS = 12_000


class Anthropic:
    """A model behind the Messages API."""

    def __init__(self, choice: Choice, client: AsyncAnthropic) -> None:
        self._choice, self._client = choice, client

    async def __call__(self, ask: Ask) -> Answer:
        import anthropic

        try:
            message: Any = await self._client.messages.create(
                model=self._choice.model,
                max_tokens=MAX_TOKENS,
                system=ask.system,
                messages=[{"role": "user", "content": ask.prompt}],
            )
        except anthropic.APIStatusError as error:
            raise failures.from_status(NAME, error.status_code, str(error.body), error.response.headers) from None
        except anthropic.APIConnectionError:
            raise failures.unreachable(NAME) from None
        except (anthropic.AnthropicError, ValueError):
            raise failures.invalid_response(NAME) from None
        return self._answer(ask, message)

    def _answer(self, ask: Ask, message: Any) -> Answer:
        try:
            usage, text = message.usage, "".join(block.text for block in message.content if block.type == "text")
            cached = token_count(usage.cache_read_input_tokens)
            uncached = token_count(usage.input_tokens, tokens(ask.system) + tokens(ask.prompt))
            total = uncached + cached + token_count(usage.cache_creation_input_tokens)
            call = model_call(self._choice, ask, text, (total, usage.output_tokens, cached))
            return Answer(text, call, is_cut=message.stop_reason == "max_tokens")
        except (AttributeError, TypeError):
            raise failures.invalid_response(NAME) from None

    async def close(self) -> None:
        await self._client.close()


def connect(choice: Choice) -> Anthropic:
    """Make the client. Nothing is sent yet."""
    try:
        import anthropic
    except ImportError:
        raise failures.not_installed("anthropic") from None
    if not choice.api_key:
        raise failures.no_key("ANTHROPIC_API_KEY")
    # The SDK must not retry: `pauses` decides when to try again. Our own timeout ends a call first.
    client = anthropic.AsyncAnthropic(
        api_key=choice.api_key, base_url=choice.base_url or DEFAULT_URL, max_retries=0, timeout=choice.call_s + 5
    )
    return Anthropic(choice, client)
