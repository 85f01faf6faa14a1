"""Chat models whose server takes a key in a header of its own, or in its place a token that expires.

Of a key and a token only one is sent. What was given as an argument goes before what the environment says, and then
the key before the token.
"""

from typing import Any, ClassVar, Self

from pydantic import Field, ModelWrapValidatorHandler, SecretStr, model_validator

from agentgraph.models.wire_model import WireChatModel
from agentgraph.models.wire_settings import from_environment

__all__ = ["BearerChatModel"]


class BearerChatModel(WireChatModel):
    """The base of chat models that send either a key or a bearer token.

    A wire format that derives from it gives `key_header`, `token_variables`, and `_call`.

    Args:
        auth_token: sent as `Authorization: Bearer ...` in place of the key. Kept out of sight as the key is.
        kwargs: as for `WireChatModel`.

    Example:
        >>> from agentgraph.models.anthropic import ChatAnthropic
        >>> ChatAnthropic(model="claude-sonnet-4-5", auth_token="token-of-a-gateway").auth_token
        SecretStr('**********')
    """

    key_header: ClassVar[str] = "x-api-key"
    token_variables: ClassVar[tuple[str, ...]] = ()

    auth_token: SecretStr | None = Field(default=None)

    @model_validator(mode="wrap")
    @classmethod
    def _choose(cls, given: Any, build: ModelWrapValidatorHandler[Self]) -> Self:
        """Let the one that was given as an argument stand alone; ask the environment for a token only after a key."""
        model = build(given)
        told = given if isinstance(given, dict) else {}
        if any(told.get(name) is not None for name in cls._names_of("api_key")):
            return model
        if any(told.get(name) is not None for name in cls._names_of("auth_token")):
            model.api_key = None
        elif model.api_key is None and (token := from_environment(cls.token_variables)) is not None:
            model.auth_token = SecretStr(token)
        return model

    @classmethod
    def _names_of(cls, field: str) -> frozenset[str]:
        alias = cls.model_fields[field].validation_alias
        choices = getattr(alias, "choices", ()) if alias is not None else ()
        return frozenset({field, *(name for name in choices if isinstance(name, str))})

    def _sent(self) -> tuple[SecretStr | None, bool]:
        """The secret, and whether it is a token; one that came out of a pickle has neither yet."""
        if self.api_key is not None and self.api_key.get_secret_value():
            return self.api_key, False
        if self.auth_token is not None:
            return self.auth_token, True
        if (key := super()._key()) is not None:
            return key, False
        token = from_environment(self.token_variables)
        return (None if token is None else SecretStr(token)), True

    def _key(self) -> SecretStr | None:
        return self._sent()[0]

    def _key_headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if self._sent()[1] else {self.key_header: key}

    @property
    def lc_secrets(self) -> dict[str, str]:
        """The arguments that are secrets, and the variables that hold them."""
        return {**super().lc_secrets, "auth_token": self.token_variables[0] if self.token_variables else "AUTH_TOKEN"}

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        return {**state, "__dict__": {**state["__dict__"], "auth_token": None}}
