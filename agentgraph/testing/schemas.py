"""Answers in a schema, the provider's own way: a response format in the request, a JSON text in the answer."""

from functools import partial
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.utils.function_calling import convert_to_json_schema
from pydantic import BaseModel

__all__ = ["structured"]


def structured(model: BaseChatModel, schema: Any, *, include_raw: bool) -> Runnable[LanguageModelInput, Any]:
    """A model that is sent a schema as `response_format` and whose answer is read as JSON.

    Args:
        model: the model.
        schema: a pydantic class, TypedDict or JSON schema.
        include_raw: whether to return the message and a failure to read it, beside the value.

    Returns:
        A runnable from messages to the value.
    """
    json_schema = convert_to_json_schema(schema)
    described = {"name": json_schema["title"], "schema": json_schema}
    bound = model.bind(response_format={"type": "json_schema", "json_schema": described})
    parser: BaseOutputParser[Any] = JsonOutputParser()
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        parser = PydanticOutputParser(pydantic_object=schema)
    if include_raw:
        return bound | RunnableLambda(partial(_read, parser))
    return bound | parser


def _read(parser: BaseOutputParser[Any], message: AIMessage) -> dict[str, Any]:
    try:
        return {"raw": message, "parsed": parser.invoke(message), "parsing_error": None}
    except OutputParserException as error:
        return {"raw": message, "parsed": None, "parsing_error": error}
