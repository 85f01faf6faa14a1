"""Which types schemas speak of."""

import enum
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, TypeVar

import pytest
from langchain_core.tools import BaseTool, tool
from pydantic import BaseModel
from typing_extensions import TypeAliasType

from agentgraph import AgentState
from agentgraph.errors import ConfigurationTypeError
from agentgraph.persistence import StrictSerializer, types_of
from tests.persistence import goods


class Size(enum.Enum):
    S = "s"


class Shape(enum.Enum):
    ROUND = "round"


class Leaf(BaseModel):
    size: Size


class Tree(BaseModel):
    leaves: list[Leaf] = []
    trees: "list[Tree]" = []


@dataclass
class Wood:
    trees: dict[str, Tree] = field(default_factory=dict)


class Pair(NamedTuple):
    one: Size
    two: Shape


class Base(TypedDict):
    size: Size


class Derived(Base, total=False):
    shape: Annotated[NotRequired[Shape], "mark"]


ThingT = TypeVar("ThingT", bound=Leaf)


class Box(BaseModel, Generic[ThingT]):
    thing: ThingT


class State(AgentState[Leaf]):
    wood: NotRequired[Annotated[Wood | None, "mark"]]


class Half(TypedDict):
    size: Size
    unknown: "OnlyForTypeCheckers"  # noqa: F821 - such names exist


Sizes = TypeAliasType("Sizes", "list[Size]")
SizeId = NewType("SizeId", Size)


@tool(response_format="content_and_artifact")
def measure(name: str) -> tuple[str, Wood]:
    """Measure."""
    return name, Wood()


class Measure(BaseTool):
    name: str = "measure"
    description: str = "measures"

    def _run(self) -> Leaf:
        raise NotImplementedError


async def grow() -> Tree:
    raise NotImplementedError


def named(value: Any) -> str:
    return (
        ",".join(sorted(map(named, value)))
        if isinstance(value, set)
        else getattr(value, "__name__", type(value).__name__)
    )


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (None, set()),
        (Any, set()),
        (int, set()),
        ({"type": "object"}, set()),
        (Size, {Size}),
        (list[Size], {Size}),
        (dict[str, Sequence[Size | None]], {Size}),
        (Optional[Size], {Size}),  # noqa: UP045 - users write it
        (Annotated[Size, Shape], {Size, Shape}),
        (Literal[Size.S, "x"], {Size}),
        (Leaf, {Leaf, Size}),
        (Tree, {Tree, Leaf, Size}),
        (Wood, {Wood, Tree, Leaf, Size}),
        (Pair, {Pair, Size, Shape}),
        (Derived, {Size, Shape}),
        (Box, {Box, Leaf, Size}),
        (Box[Leaf], {Box[Leaf], Box, Leaf, Size}),
        (SizeId, {Size}),
        (measure, {Wood, Tree, Leaf, Size}),
        (Measure(), {Leaf, Size}),
        (grow, {Tree, Leaf, Size}),
    ],
    ids=named,  # the order of a set, and where a function lies in memory, differ from process to process
)
def test_the_types_of_a_schema_are_found(schema, found):
    given = types_of(schema)

    assert {*given} - {Box} == found - {Box}
    assert len(given) == len({*given})


def test_the_types_of_a_state_are_found():
    assert {Wood, Tree, Leaf, Size} <= {*types_of(State)}


def test_a_name_that_only_type_checkers_see_hides_no_other_field():
    assert types_of(Half) == (Size,)


def test_the_data_classes_that_a_module_defines_are_registered():
    module = types.ModuleType("shop")
    exec("import enum\nfrom tests.persistence.goods import Coin\nclass Mine(enum.Enum):\n    A = 1", vars(module))  # noqa: S102 - a module of the test's own
    registry = StrictSerializer([module]).registry

    assert (module.Mine in registry, goods.Coin in registry) == (True, False)


@pytest.mark.parametrize("given", ["Order", 3, None, {"a": 1}], ids=repr)
def test_what_is_no_type_is_refused(given):
    with pytest.raises(ConfigurationTypeError, match="give the class itself, not its name"):
        StrictSerializer([given])
