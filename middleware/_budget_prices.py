"""What calls of models cost: a table of prices, the user's own or that of the package `genai-prices`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from langchain_core.runnables.base import RunnableBinding

from agentgraph.errors import ConfigurationError, ConfigurationTypeError

__all__ = ["ModelName", "Price", "Prices", "Tokens", "decimal_of", "name_of"]

_MILLION = Decimal(1_000_000)
_DATE = re.compile(r"(-\d{4}-\d{2}-\d{2}|-\d{8}|@\d{8}|-latest|-\d{3})$")


class Tokens(NamedTuple):
    """The tokens of one call.

    Attributes:
        input: of the request, those of the cache included.
        output: of the answer.
        cache_read: of the request, those that the provider had in its cache.
        cache_write: of the request, those that it has put there.
    """

    input: int
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class ModelName(NamedTuple):
    """How a model is called: its provider ("" where it says none) and its name."""

    provider: str
    name: str


@dataclass(frozen=True)
class Price:
    """What a model costs, in US dollars for a million tokens; numbers, or texts such as "0.15".

    Attributes:
        input: of requests.
        output: of answers.
        cached_input: of requests, the part that the provider has in its cache. Default: as `input`.
        cache_write: of requests, the part that the provider puts into its cache. Default: as `input`.

    Raises:
        ConfigurationError: a price is negative or no number.

    Example:
        >>> Price(input="1.25", output=10).of(Tokens(input=1000, output=100))
        Decimal('0.00225')
    """

    input: Decimal | float | str
    output: Decimal | float | str
    cached_input: Decimal | float | str | None = None
    cache_write: Decimal | float | str | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            given = getattr(self, one.name)
            object.__setattr__(self, one.name, None if given is None else decimal_of(one.name, given))

    def of(self, tokens: Tokens) -> Decimal:
        """What a call with so many tokens costs, in US dollars."""
        cached = self.input if self.cached_input is None else self.cached_input
        written = self.input if self.cache_write is None else self.cache_write
        fresh = max(tokens.input - tokens.cache_read - tokens.cache_write, 0)
        parts = ((fresh, self.input), (tokens.cache_read, cached), (tokens.cache_write, written))
        total = sum((count * Decimal(price) for count, price in (*parts, (tokens.output, self.output))), Decimal(0))
        return (total / _MILLION).normalize()


@dataclass(frozen=True)
class Prices:
    """Where prices are looked up.

    Attributes:
        table: by the model's name, or "provider:name"; None for the table of `genai-prices`.
        needed: whether a limit of money depends on them, so that an unknown model is an error.
    """

    table: Mapping[str, Price] | None
    needed: bool

    def __post_init__(self) -> None:
        _check_table(self.table)
        if self.needed and self.table is None:
            _genai_prices()

    def cost(self, model: ModelName, tokens: Tokens) -> Decimal:
        """What a call costs; 0 where the price is not known and not needed.

        Raises:
            ConfigurationError: the price is needed, and not known.
        """
        if self.table is None:
            found = self._by_package(model, tokens) if self.needed else Decimal(0)
        else:
            found = self._by_table(model, tokens, self.table)
        if found is None and self.needed:
            where = "the data of genai-prices" if self.table is None else f"the prices given ({self._known()})"
            raise ConfigurationError(
                f"A limit of cost needs the price of the model {model.name[:100]!r} of {model.provider[:100]!r}, which "
                f"is not in {where}. Give it: prices={{{model.name[:100]!r}: Price(input=..., output=...)}}."
            )
        return Decimal(0) if found is None else found

    def _known(self) -> str:
        return ", ".join(list(self.table or {})[:10]) or "none"

    @staticmethod
    def _by_table(model: ModelName, tokens: Tokens, table: Mapping[str, Price]) -> Decimal | None:
        undated = _DATE.sub("", model.name)
        places = [f"{model.provider}:{name}" for name in (model.name, undated)]
        price = next((table[place] for place in (*places, model.name, undated) if place in table), None)
        return None if price is None else price.of(tokens)

    @staticmethod
    def _by_package(model: ModelName, tokens: Tokens) -> Decimal | None:
        package = _genai_prices()
        usage = package.Usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cache_read_tokens=tokens.cache_read or None,
            cache_write_tokens=tokens.cache_write or None,
        )
        for provider in (model.provider or None, None):
            try:
                found: Decimal = package.calc_price(usage, model_ref=model.name, provider_id=provider).total_price
            except LookupError:
                continue
            return found
        return None


def name_of(model: Any) -> ModelName:
    """How a chat model is called; its kind stands for the name of one that has none."""
    while isinstance(model, RunnableBinding):
        model = model.bound
    kind = str(getattr(model, "_llm_type", "") or type(model).__name__)
    named = next((one for key in ("model_name", "model", "model_id") if (one := getattr(model, key, None))), kind)
    return ModelName(_provider(model), str(named).removeprefix("models/"))


def _provider(model: Any) -> str:
    try:
        # langchain-core's description of a model for tracers is the one place where all chat models say it.
        return str(model._get_ls_params().get("ls_provider") or "")  # noqa: SLF001 (see above)
    except Exception:  # noqa: BLE001 - a description that cannot be made must not end a run
        return ""


def decimal_of(name: str, given: Any) -> Decimal:
    """An amount of money; a float means the digits that it is written with.

    Raises:
        ConfigurationTypeError: it is neither a number nor a text.
        ConfigurationError: it is negative or not finite, or the text is no number.
    """
    if isinstance(given, bool) or not isinstance(given, Decimal | int | float | str):
        raise ConfigurationTypeError(f"{name} is {repr(given)[:200]}; expected was an amount of US dollars.")
    try:
        value = Decimal(str(given))
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value < 0:
        raise ConfigurationError(f"{name} is {repr(given)[:200]}; expected was an amount of US dollars, 0 or more.")
    return value


def _check_table(table: Any) -> None:
    if table is None:
        return
    if not isinstance(table, Mapping) or not all(isinstance(name, str) for name in table):
        raise ConfigurationTypeError(f"prices is {repr(table)[:200]}; expected was a dict from names to Price objects.")
    for name, price in table.items():
        if not isinstance(price, Price):
            raise ConfigurationTypeError(
                f"The price of {name[:100]!r} is {repr(price)[:200]}; expected was Price(input=..., output=...)."
            )


def _genai_prices() -> Any:
    try:
        import genai_prices  # noqa: PLC0415 - an extra, and large
    except ImportError as error:
        raise ConfigurationError(
            "A limit of cost needs the prices of models. Give prices={'name': Price(...)}, or install the table that "
            "the package genai-prices has: pip install 'agentgraph-runtime[prices]'."
        ) from error
    return genai_prices
