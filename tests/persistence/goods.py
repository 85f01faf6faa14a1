"""Types of a user's, as they stand in states, tool artifacts and structured responses."""

import enum
from collections import UserString
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, computed_field, field_serializer


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Phase(enum.StrEnum):
    ASK = "ask"
    DONE = "done"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Place(NamedTuple):
    shelf: int
    colour: Colour


@dataclass
class Basket:
    goods: list[str]
    total: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.total += len(self.goods)


@dataclass(frozen=True, slots=True)
class Coin:
    cents: int
    colour: Colour = Colour.RED


@dataclass
class Parcel:
    """Made of more than its fields."""

    weight: float
    pounds: InitVar[float]

    def __post_init__(self, pounds: float) -> None:
        self.weight = pounds / 2


class Item(BaseModel):
    class Kind(enum.Enum):
        BOOK = "book"
        TOY = "toy"

    kind: Kind
    colour: Colour | None = None


class Order(BaseModel):
    number: int
    items: list[Item] = []
    anything: Any = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str


class Renamed(BaseModel):
    amount: int = Field(default=0, alias="Amount")


class Priced(BaseModel):
    model_config = ConfigDict(extra="forbid")

    net: int
    hidden: str = Field(default="", exclude=True)

    @computed_field
    def gross(self) -> int:
        return self.net * 2


class Numbers(RootModel[list[int]]):
    pass


class Login(BaseModel):
    user: str
    password: SecretStr


class Text(UserString):
    """A type that no checkpoint can hold by itself."""


class Letter(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    text: Text | str

    @field_serializer("text")
    def plain(self, text: Text | str) -> str:
        return str(text)
