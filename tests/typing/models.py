"""Usage of the chat models, read by mypy and pyright and never run."""

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from agentgraph import create_agent, init_chat_model
from agentgraph.models.anthropic import ChatAnthropic
from agentgraph.models.azure_openai import ChatAzureOpenAI
from agentgraph.models.gemini import ChatGemini
from agentgraph.models.ollama import ChatOllama
from agentgraph.models.openai import ChatOpenAI
from agentgraph.models.openai_responses import ChatOpenAIResponses
from agentgraph.models.transport import Timeouts


def a_key_is_a_text_or_a_secret() -> None:
    ChatOpenAI(model="gpt-5", api_key="key", default_headers={"X-Team": "a"}, timeout=Timeouts(first_event=60))
    ChatOpenAIResponses(model="gpt-5", api_key=SecretStr("key"))
    ChatAnthropic(model="claude-sonnet-4-5", api_key="key", max_tokens=1_000)
    ChatGemini(model="gemini-2.5-flash", google_api_key="key")
    ChatOllama(model="qwen3:8b", num_ctx=8_192)
    ChatAzureOpenAI(azure_endpoint="https://a.openai.azure.com", azure_deployment="d", api_key="key")


def each_is_a_chat_model() -> None:
    models: list[BaseChatModel] = [ChatOpenAI(model="m"), init_chat_model("openai:gpt-5", temperature=0)]
    for model in models:
        create_agent(model)
