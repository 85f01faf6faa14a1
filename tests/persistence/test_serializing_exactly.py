"""Where the code of a class, or the kind of a key, would change a value on its way back."""

import datetime as dt
import enum
import uuid
import zoneinfo
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import AfterValidator, BaseModel, PrivateAttr, field_validator, model_validator

from agentgraph import AgentState, create_agent, open_checkpointer
from agentgraph.errors import CheckpointError
from agentgraph.persistence import StrictSerializer
from agentgraph.testing import ScriptedModel

THREAD = {"configurable": {"thread_id": "1"}}


class Colour(enum.Enum):
    RED = 1


class Phase(enum.StrEnum):
    ASK = "ask"


@dataclass(frozen=True)
class Point:
    x: int


@dataclass
class Counted:
    number: int
    tags: Any = None

    def __post_init__(self) -> None:
        self.number += 1
        self.tags = defaultdict(list, self.tags or {})


@dataclass(frozen=True, slots=True)
class Doubled:
    number: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", self.number * 2)


class Hashed(BaseModel):
    word: str

    @field_validator("word")
    @classmethod
    def hashed(cls, word: str) -> str:
        return f"#{word}"


class Marked(BaseModel):
    word: Annotated[str, AfterValidator(lambda word: f"#{word}")]


class Seen(BaseModel):
    times: int = 0

    @model_validator(mode="after")
    def once_more(self) -> "Seen":
        self.times += 1
        return self


class Begun(BaseModel):
    times: int = 0

    def model_post_init(self, context: Any) -> None:
        self.times += 1


class Patch(BaseModel):
    name: str = ""
    note: str | None = None


class Guarded(BaseModel):
    number: int
    _cache: dict[str, int] = PrivateAttr(default_factory=dict)

    @field_validator("number")
    @classmethod
    def small(cls, number: int) -> int:
        if number > 5:
            raise ValueError("too much")
        return number


TYPES = [Colour, Phase, Point, Counted, Doubled, Hashed, Marked, Seen, Begun, Patch, Guarded]


def there_and_back(value: Any) -> Any:
    serde = StrictSerializer(TYPES)
    return serde.loads_typed(serde.dumps_typed(value))


@pytest.mark.parametrize(
    "value",
    [Counted(1), Doubled(1), Hashed(word="a"), Marked(word="a"), Seen(), Begun(), [Hashed(word="a")]],
    ids=repr,
)
def test_code_of_a_class_that_changes_a_value_changes_it_once(value):
    assert there_and_back(there_and_back(value)) == value


def test_what_a_class_makes_of_a_plain_value_is_made_again():
    tags = there_and_back(Counted(1, {"a": [1]})).tags

    assert (type(tags), tags) == (defaultdict, {"a": [1]})


def test_a_field_that_was_not_set_is_not_set_afterwards():
    assert there_and_back(Patch(name="n")).model_dump(exclude_unset=True) == {"name": "n"}


def test_a_model_that_its_validators_refuse_today_has_its_private_attributes():
    value = Guarded(number=1)
    value.number = 9

    assert there_and_back(value)._cache == {}


def test_models_inside_a_model_that_langgraph_wrote_are_models():
    class_of = type("Outer", (BaseModel,), {"__annotations__": {"all": list[Hashed]}, "__module__": __name__})
    globals()["Outer"] = class_of
    stored = JsonPlusSerializer().dumps_typed(class_of(all=[Hashed(word="a")]))

    assert [type(one) for one in StrictSerializer([class_of]).loads_typed(stored).all] == [Hashed]


@pytest.mark.parametrize(
    "key",
    [
        Colour.RED,
        Phase.ASK,
        Point(1),
        (1, Colour.RED),
        2**70,
        frozenset({1}),
        uuid.UUID(int=1),
        dt.date(2026, 1, 2),
        "text",
        7,
        None,
        (1, ("a", 2.5)),
    ],
    ids=repr,
)
def test_a_key_comes_back_as_what_it_was(key):
    ((back, value),) = there_and_back({"deep": [{key: {key: "value"}}]})["deep"][0].items()

    assert (type(back), back) == (type(key), key)
    assert value == {key: "value"}


def test_keys_inside_of_objects_come_back_too():
    value = [HumanMessage("hi", additional_kwargs={"by": {Colour.RED: Counted(1, {Phase.ASK: [2]})}}, id="1")]

    back = there_and_back(value)

    assert back == value
    assert type(*back[0].additional_kwargs["by"][Colour.RED].tags) is Phase


def test_langgraph_reads_a_dict_with_objects_as_keys():
    stored = StrictSerializer(TYPES).dumps_typed({"by": {dt.date(2026, 1, 2): 1}})

    assert JsonPlusSerializer().loads_typed(stored) == {"by": {dt.date(2026, 1, 2): 1}}


@pytest.mark.parametrize("depth", [40])
def test_many_dicts_within_each_other_are_written_once_each(depth):
    value: Any = Point(1)
    for _ in range(depth):
        value = {1: Counted(1, {2: value})}

    assert there_and_back(value) == value


def test_a_moment_keeps_its_time_zone():
    night = dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))

    back = there_and_back(night)

    assert (back.tzinfo, back.fold, back.isoformat()) == (night.tzinfo, 1, night.isoformat())
    assert JsonPlusSerializer().loads_typed(StrictSerializer().dumps_typed(night)).tzinfo == night.tzinfo


def test_a_value_that_holds_itself_is_refused():
    circle: list[Any] = []
    circle.append(circle)
    keyed: dict[Any, Any] = {1: circle}

    for value in (circle, keyed):
        with pytest.raises(CheckpointError, match=r"list|dict"):
            StrictSerializer().dumps_typed(value)


def test_a_field_of_the_state_keeps_its_enum_keys(tmp_path):
    class Stock(AgentState):
        stock: dict[Colour, int]

    with open_checkpointer(f"sqlite:///{tmp_path}/threads.db") as saver:
        agent = create_agent(ScriptedModel("ok"), state_schema=Stock, checkpointer=saver)
        agent.invoke({"messages": "hi", "stock": {Colour.RED: 2}}, THREAD)

        assert agent.get_state(THREAD).values["stock"] == {Colour.RED: 2}


def test_a_dataclass_without_code_of_its_own_is_not_compared():
    @dataclass
    class Held:
        value: Any = field(default=None)

    class Odd(list[int]):
        __hash__ = None  # type: ignore[assignment] # as lists have it

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

    serde = StrictSerializer([Held])

    assert list(serde.loads_typed(serde.dumps_typed(Held(Odd([1])))).value) == [1]
