import langchain_core.messages
import langchain_core.rate_limiters
import pytest

import agentgraph.messages
import agentgraph.rate_limiters


@pytest.mark.parametrize("name", agentgraph.messages.__all__)
def test_every_word_is_langchain_cores_own_object(name: str) -> None:
    assert getattr(agentgraph.messages, name) is getattr(langchain_core.messages, name)


def test_the_words_are_sorted_and_shown_by_dir() -> None:
    names = agentgraph.messages.__all__
    assert names == sorted(names, key=lambda name: (name[0].islower(), name))
    assert set(names) <= set(dir(agentgraph.messages))


def test_an_unknown_word_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Telegram"):
        _ = agentgraph.messages.Telegram


def test_rate_limiters_are_langchain_cores_own() -> None:
    for name in agentgraph.rate_limiters.__all__:
        assert getattr(agentgraph.rate_limiters, name) is getattr(langchain_core.rate_limiters, name)
