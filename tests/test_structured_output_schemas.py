"""Schemas of structured answers: every kind, their names, what is refused early, and what a misfit is told."""

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Generic, Literal, NotRequired, Required, TypeVar, Union

import pytest
from langgraph.errors import GraphInterrupt
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, field_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.v1 import BaseModel as ElderModel
from typing_extensions import TypeAliasType, TypedDict

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.structured_output import SchemaMismatchError, ToolStrategy
from agentgraph.structured_output.schemas import excerpt, legal_name

T = TypeVar("T")


class Contact(BaseModel):
    """A contact."""

    name: str
    age: int = Field(ge=0)


class Refusal(BaseModel):
    reason: str


@dataclass
class Point:
    """A point."""

    x: int
    y: int = 0


@pydantic_dataclass
class Span:
    start: date


class Size(TypedDict, total=False):
    """A size."""

    width: Required[int]
    unit: NotRequired[str]


class Box(BaseModel, Generic[T]):
    item: T


@dataclass
class Pair(Generic[T]):
    left: T


class Node(BaseModel):
    """A node."""

    value: int
    children: list["Node"] = []


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: date


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


CONTACT_JSON = {"title": "Contact", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def parse(schema: Any, data: Any) -> Any:
    (spec,) = ToolStrategy(schema).schema_specs
    return spec.parse(data)


@pytest.mark.parametrize(
    ("schema", "name", "kind", "data", "value"),
    [
        (Contact, "Contact", "pydantic", {"name": "Ann", "age": 3}, Contact(name="Ann", age=3)),
        (Point, "Point", "dataclass", {"x": 1}, Point(1)),
        (Span, "Span", "dataclass", {"start": "2026-01-02"}, Span(date(2026, 1, 2))),
        (Size, "Size", "typeddict", {"width": 3}, {"width": 3}),
        (CONTACT_JSON, "Contact", "json_schema", {"name": "Ann"}, {"name": "Ann"}),
        (Box[int], "Box_int", "pydantic", {"item": 1}, Box[int](item=1)),
        (Pair[int], "Pair_int", "dataclass", {"left": 1}, Pair(1)),
        (Annotated[Contact, "a note"], "Contact", "pydantic", {"name": "A", "age": 1}, Contact(name="A", age=1)),
        (Annotated[Point, Field(description="Where.")], "Point", "dataclass", {"x": 1}, Point(1)),
        (Annotated[Contact, ["unhashable"]], "Contact", "pydantic", {"name": "A", "age": 1}, Contact(name="A", age=1)),
        (
            Node,
            "Node",
            "pydantic",
            {"value": 1, "children": [{"value": 2}]},
            Node(value=1, children=[Node(value=2)]),
        ),
        (Strict, "Strict", "pydantic", {"when": "2026-01-02"}, Strict(when=date(2026, 1, 2))),
        (
            RootModel[dict[str, int]],
            "RootModel_dict_str_int",
            "pydantic",
            {"a": 1},
            RootModel[dict[str, int]]({"a": 1}),
        ),
        (TypeAliasType("Alias", Contact), "Contact", "pydantic", {"name": "A", "age": 1}, Contact(name="A", age=1)),
    ],
)
def test_every_kind_of_schema_is_named_described_and_read(
    schema: Any, name: str, kind: str, data: Any, value: Any
) -> None:
    (spec,) = ToolStrategy(schema).schema_specs
    assert (spec.name, spec.schema_kind, spec.json_schema["type"]) == (name, kind, "object")
    assert spec.parse(data) == value


@pytest.mark.parametrize(
    ("schema", "description"),
    [
        (Contact, "A contact."),
        (Point, "A point."),
        (Size, "A size."),
        (Refusal, ""),
        (Span, ""),
        (Annotated[Point, Field(description="Where.")], "Where."),
        ({"type": "object", "properties": {}, "description": "Anything."}, "Anything."),
    ],
)
def test_the_description_is_what_the_author_wrote(schema: Any, description: str) -> None:
    assert ToolStrategy(schema).schema_specs[0].description == description


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (Union[Contact, Refusal], ["Contact", "Refusal"]),  # noqa: UP007 - the older spelling of a union is a case
        (Union[Contact, Union[Point, Size]], ["Contact", "Point", "Size"]),  # noqa: UP007 - see above
        (Annotated[Cat | Dog, Field(discriminator="kind")], ["Cat", "Dog"]),
        (Annotated[Cat | Dog, "a note"], ["Cat", "Dog"]),
        (Box[int] | Box[str], ["Box_int", "Box_str"]),
        (TypeAliasType("Pet", Cat | Dog), ["Cat", "Dog"]),
    ],
)
def test_each_member_of_a_union_is_a_schema_of_its_own(schema: Any, names: list[str]) -> None:
    assert [spec.name for spec in ToolStrategy(schema).schema_specs] == names


def test_members_with_one_name_get_names_that_differ() -> None:
    other = type("Contact", (BaseModel,), {"__annotations__": {"mail": str}})
    long = type("L" * 64, (BaseModel,), {})
    longer = type("L" * 70, (BaseModel,), {})
    union: Any = Union[Contact, other, long, longer]  # noqa: UP007 - a union of classes made at run time
    specs = ToolStrategy(union).schema_specs
    assert [spec.name for spec in specs] == ["Contact", "Contact_2", "L" * 64, "L" * 62 + "_2"]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Contact", "Contact"),
        ("_private-1", "_private-1"),
        ("Contact Info", "Contact_Info"),
        ("Größe (cm)", "Groe_cm"),
        ("連絡先", "structured_response"),
        ("", "structured_response"),
        (" \n\t", "structured_response"),
        ("Box[int]", "Box_int"),
        ("../../etc/passwd", "etc_passwd"),
        ("a" * 65, "a" * 64),
        ("é" * 10_000, "e" * 64),
        ("x" * 63 + " y", "x" * 63 + "_"),
        ("tool\n", "tool"),
    ],
)
def test_every_title_becomes_a_legal_tool_name(title: str, name: str) -> None:
    assert legal_name(title) == name
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)
    assert ToolStrategy({"title": title, "type": "object", "properties": {}}).schema_specs[0].name == name


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (Contact(name="A", age=1), "give its class, Contact"),
        (Point(1), "give its class, Point"),
        (5, "5 is not a schema"),
        ("Contact", "Contact is not a schema"),
        (int, "<class 'int'>"),
        ([Contact], "is not a schema"),
        (list[Contact], "is not a schema"),
        (TypeAliasType("Raw", {"type": "object"}), "is not a schema"),
        (Contact | dict, "<class 'dict'> is not a schema"),
        (None, "leave None out"),
        (Contact | None, "leave None out"),
        (lambda: Contact, "is not a schema"),
        ("x" * 1_000_000, "x..."),
    ],
)
def test_what_is_no_schema_is_refused_with_what_would_be_one(schema: Any, told: str) -> None:
    with pytest.raises(ConfigurationTypeError, match="Expected a pydantic class, a dataclass, a TypedDict") as caught:
        ToolStrategy(schema)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_class_of_pydantic_1_is_refused_by_name() -> None:
    class Elder(ElderModel):
        name: str

    with pytest.raises(ConfigurationTypeError, match=r"'Elder' is a class of pydantic 1.*pydantic.BaseModel"):
        ToolStrategy(Elder)


class Socket:
    """Not a thing of JSON."""


class Wired(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    socket: Socket


class Undefined(BaseModel):
    later: "NeverDefined"  # type: ignore[name-defined]  # noqa: F821 - an undefined name is the case


@dataclass
class Odd:
    socket: Socket


@pytest.mark.parametrize("schema", [Wired, Undefined, Odd])
def test_fields_that_json_cannot_hold_are_refused_when_the_strategy_is_made(schema: type[Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"Schema '{schema.__name__}' cannot be described as a JSON schema"):
        ToolStrategy(schema)


@pytest.mark.parametrize("schema", [RootModel[list[int]], RootModel[int], RootModel[Cat | Dog]])
def test_a_model_of_something_else_than_an_object_is_refused(schema: type[Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"Expected an object.*Wrap the value in a model"):
        ToolStrategy(schema)


class Validated(BaseModel):
    code: str

    @field_validator("code")
    @classmethod
    def _known(cls, code: str) -> str:
        if code == "interrupt":
            raise GraphInterrupt
        if code == "broken":
            raise KeyError(code)
        raise ValueError("unknown code")


@pytest.mark.parametrize(
    ("schema", "data", "problems"),
    [
        (Contact, {"age": -4}, ("name: Field required (given: {'age': -4})", "age: Input should be greater than or")),
        (
            Point,
            {"x": "one"},
            ("x: Input should be a valid integer, unable to parse string as an integer (given: one)",),
        ),
        (Size, {}, ("width: Field required (given: {})",)),
        (Contact, "prose", ("the answer: Input should be an object (given: prose)",)),
        (Box[list[int]], {"item": [1, "b"]}, ("item[1]: Input should be a valid integer",)),
        (Validated, {"code": "x"}, ("code: Value error, unknown code (given: x)",)),
        (Validated, {"code": "broken"}, ("KeyError: 'broken'",)),
        (CONTACT_JSON, {}, ("the root: 'name' is a required property",)),
        (CONTACT_JSON, {"name": 5}, ("name: 5 is not of type 'string'",)),
    ],
)
def test_a_misfit_is_told_field_by_field(schema: Any, data: Any, problems: tuple[str, ...]) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        parse(schema, data)
    assert len(caught.value.problems) == len(problems)
    for told, expected in zip(caught.value.problems, problems, strict=True):
        assert told.startswith(expected)
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - pickled here


def test_an_interrupt_out_of_a_validator_passes() -> None:
    with pytest.raises(GraphInterrupt):
        parse(Validated, {"code": "interrupt"})


def nested(depth: int) -> Any:
    data: Any = 1
    for _ in range(depth):
        data = [data]
    return data


@pytest.mark.parametrize(
    ("schema", "make"),
    [
        (Contact, lambda: {"name": ["x" * 1_000_000], "age": "y" * 1_000_000}),
        (Box[list[int]], lambda: {"item": ["z" * 1000] * 10_000}),
        (Box[dict[str, int]], lambda: {"item": {"k" * 100_000: "v"}}),
        (CONTACT_JSON, lambda: {"name": ["x" * 1_000_000]}),
        ({**CONTACT_JSON, "additionalProperties": False}, lambda: {f"k{i}" * 100: i for i in range(10_000)}),
        (Box[int], lambda: {"item": nested(100_000)}),
        (CONTACT_JSON, lambda: {"name": nested(100_000)}),
    ],
)
def test_what_is_told_of_a_huge_answer_is_short(schema: Any, make: Callable[[], Any]) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        parse(schema, make())
    assert len(str(caught.value)) < 4000
    assert len(caught.value.problems) <= 11


def test_a_long_list_of_problems_says_how_many_more_there_are() -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        parse(Box[list[int]], {"item": ["z"] * 25})
    assert (len(caught.value.problems), caught.value.problems[-1]) == (11, "and 15 more")


def test_an_answer_out_of_python_objects_is_read_as_well() -> None:
    marker = {"name": "A", "age": 1, "other": object()}
    assert parse(Contact, marker) == Contact(name="A", age=1)


def test_the_same_class_is_analysed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Once(BaseModel):
        name: str

    ToolStrategy(Once)
    monkeypatch.setattr("agentgraph.structured_output.schemas.TypeAdapter", None)
    assert ToolStrategy(Once).schema_specs[0].parse({"name": "A"}) == Once(name="A")


def test_what_a_chat_model_does_to_a_schema_does_not_reach_other_strategies() -> None:
    ToolStrategy(Contact).schema_specs[0].json_schema["properties"].clear()
    assert set(ToolStrategy(Contact).schema_specs[0].json_schema["properties"]) == {"name", "age"}


def test_an_excerpt_can_always_be_sent() -> None:
    assert excerpt("a\ud800") == "a\\ud800"
    assert excerpt("x" * 100, 10) == "x" * 7 + "..."
    assert excerpt(nested(100_000)) == "a list that is nested too deeply to be shown"


def test_a_secret_of_the_answer_is_not_in_the_repr_of_the_spec() -> None:
    class Login(BaseModel):
        password: SecretStr = SecretStr("hunter2")

    assert "hunter2" not in repr(ToolStrategy(Login))
