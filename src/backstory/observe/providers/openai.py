"""Any endpoint that speaks OpenAI's chat completions: OpenAI, OpenRouter, Ollama, vLLM, LM Studio, Gemini's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.observe.providers import Answer, Ask, Choice, ProviderFailure, call_of, failing

if TYPE_CHECKING:
    from openai import AsyncOpenAI

WHO = "The endpoint"
ADDRESS = "https://api.openai.com/v1"


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
            raise failing.of_status(WHO, error.status_code, str(error.body), error.response.headers) from None
        except openai.APIConnectionError:
            raise failing.no_answer(WHO) from None
        except (openai.OpenAIError, ValueError):
            raise failing.no_sense(WHO) from None
        return self._answer(ask, completion)

    def _answer(self, ask: Ask, completion: Any) -> Answer:
        # Some answer 200 and put the refusal inside.
        refusal = getattr(completion, "error", None)
        if isinstance(refusal, dict):
            code = refusal.get("code")
            raise failing.of_status(WHO, code if isinstance(code, int) else 500, str(refusal))
        try:
            choice = completion.choices[0]
            text, usage = choice.message.content or "", completion.usage
            if choice.finish_reason == "content_filter" and not text:
                raise ProviderFailure("poison", f"{WHO} does not want to tell of this.")
            # Not every server counts, and not every one rightly.
            cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None)
            told = (getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None), cached)
            call = call_of(self._choice, ask, text, told)
            return Answer(text, call, is_cut=choice.finish_reason == "length")
        except (AttributeError, TypeError, IndexError):
            raise failing.no_sense(WHO) from None

    async def close(self) -> None:
        await self._client.close()


def connect(choice: Choice) -> OpenAI:
    """Ready to be asked; nothing is sent yet."""
    try:
        import openai
    except ImportError:
        raise failing.not_installed("openai") from None
    if choice.base_url and not choice.model:
        raise ProviderFailure("setup", "`base_url` is set and `model` is not: `backstory config set model NAME`.")
    if not choice.api_key and not choice.base_url:
        raise failing.no_key("OPENAI_API_KEY")
    # A server of one's own wants no key. Whether and when to try again, and when to give up, is ours to decide.
    client = openai.AsyncOpenAI(
        api_key=choice.api_key or "none",
        base_url=choice.base_url or ADDRESS,
        max_retries=0,
        timeout=choice.call_s + 5,
    )
    return OpenAI(choice, client)
