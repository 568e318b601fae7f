"""The provider `openai`: chat completions of OpenAI, OpenRouter, Ollama, vLLM, LM Studio, Gemini and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.observe.providers import Answer, Ask, Choice, ProviderFailure, failures, model_call

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NAME = "The endpoint"
DEFAULT_URL = "https://api.openai.com/v1"


class OpenAI:
    """A model behind chat completions."""

    def __init__(self, choice: Choice, client: AsyncOpenAI) -> None:
        self._choice, self._client = choice, client

    async def __call__(self, ask: Ask) -> Answer:
        import openai

        try:
            completion: Any = await self._client.chat.completions.create(
                model=self._choice.model,
                messages=[{"role": "system", "content": ask.system}, {"role": "user", "content": ask.prompt}],
            )
        except openai.APIStatusError as error:
            raise failures.from_status(NAME, error.status_code, str(error.body), error.response.headers) from None
        except openai.APIConnectionError:
            raise failures.unreachable(NAME) from None
        except (openai.OpenAIError, ValueError):
            raise failures.invalid_response(NAME) from None
        return self._answer(ask, completion)

    def _answer(self, ask: Ask, completion: Any) -> Answer:
        # Some endpoints answer 200 with an error inside.
        error = getattr(completion, "error", None)
        if isinstance(error, dict):
            code = error.get("code")
            raise failures.from_status(NAME, code if isinstance(code, int) else 500, str(error))
        try:
            choice = completion.choices[0]
            text, usage = choice.message.content or "", completion.usage
            if choice.finish_reason == "content_filter" and not text:
                raise ProviderFailure("poison", f"{NAME} refused to answer because of its content filter.")
            # Some servers report no usage, or a wrong one.
            cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None)
            reported = (getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None), cached)
            call = model_call(self._choice, ask, text, reported)
            return Answer(text, call, is_cut=choice.finish_reason == "length")
        except (AttributeError, TypeError, IndexError):
            raise failures.invalid_response(NAME) from None

    async def close(self) -> None:
        await self._client.close()


def connect(choice: Choice) -> OpenAI:
    """Make the client. Nothing is sent yet."""
    try:
        import openai
    except ImportError:
        raise failures.not_installed("openai") from None
    if choice.base_url and not choice.model:
        raise ProviderFailure("setup", "`base_url` is set and `model` is not: `backstory config set model NAME`.")
    if not choice.api_key and not choice.base_url:
        raise failures.no_key("OPENAI_API_KEY")
    # A local server needs no key. The SDK must not retry: `pauses` decides when to try again. Our own timeout ends a
    # call first.
    client = openai.AsyncOpenAI(
        api_key=choice.api_key or "none",
        base_url=choice.base_url or DEFAULT_URL,
        max_retries=0,
        timeout=choice.call_s + 5,
    )
    return OpenAI(choice, client)
