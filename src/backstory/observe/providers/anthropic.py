"""Anthropic's Messages API, by Anthropic's own client: every round is a fresh question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.observe.providers import Answer, Ask, Choice, call_of, counted, failing
from backstory.text import tokens

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

WHO = "Anthropic"
ADDRESS = "https://api.anthropic.com"
#: Enough for the largest round; a model that thinks first thinks within it.
MOST_TOKENS = 12_000


class Anthropic:
    """A model behind the Messages API."""

    def __init__(self, choice: Choice, client: AsyncAnthropic) -> None:
        self._choice, self._client = choice, client

    async def __call__(self, ask: Ask) -> Answer:
        import anthropic

        try:
            message: Any = await self._client.messages.create(
                model=self._choice.model,
                max_tokens=MOST_TOKENS,
                system=ask.system,
                messages=[{"role": "user", "content": ask.prompt}],
            )
        except anthropic.APIStatusError as error:
            raise failing.of_status(WHO, error.status_code, str(error.body), error.response.headers) from None
        except anthropic.APIConnectionError:
            raise failing.no_answer(WHO) from None
        except (anthropic.AnthropicError, ValueError):
            raise failing.no_sense(WHO) from None
        return self._answer(ask, message)

    def _answer(self, ask: Ask, message: Any) -> Answer:
        try:
            usage, text = message.usage, "".join(block.text for block in message.content if block.type == "text")
            cached = counted(usage.cache_read_input_tokens)
            read = counted(usage.input_tokens, tokens(ask.system) + tokens(ask.prompt))
            total = read + cached + counted(usage.cache_creation_input_tokens)
            call = call_of(self._choice, ask, text, (total, usage.output_tokens, cached))
            return Answer(text, call, is_cut=message.stop_reason == "max_tokens")
        except (AttributeError, TypeError):
            raise failing.no_sense(WHO) from None

    async def close(self) -> None:
        await self._client.close()


def connect(choice: Choice) -> Anthropic:
    """Ready to be asked; nothing is sent yet."""
    try:
        import anthropic
    except ImportError:
        raise failing.not_installed("anthropic") from None
    if not choice.api_key:
        raise failing.no_key("ANTHROPIC_API_KEY")
    # Whether and when to try again, and when to give up, is ours to decide.
    client = anthropic.AsyncAnthropic(
        api_key=choice.api_key, base_url=choice.base_url or ADDRESS, max_retries=0, timeout=choice.call_s + 5
    )
    return Anthropic(choice, client)
