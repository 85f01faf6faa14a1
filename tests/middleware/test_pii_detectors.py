"""The detectors of sensitive values: what they find, what they leave, and that no text makes them slow."""

import time

import pytest

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import (
    PIIDetectionError,
    RedactionRule,
    detect_credit_card,
    detect_email,
    detect_ip,
    detect_mac_address,
    detect_url,
)

DETECTORS = {
    "email": detect_email,
    "credit_card": detect_credit_card,
    "ip": detect_ip,
    "mac_address": detect_mac_address,
    "url": detect_url,
}

FOUND = [
    ("email", "ann@example.com", ["ann@example.com"]),
    ("email", "Mail to ann.b+c@mail.example.co.uk, or bob@x.org.", ["ann.b+c@mail.example.co.uk", "bob@x.org"]),
    ("email", "mailto:ann@example.com?subject=x", ["ann@example.com"]),
    ("email", "see ...ann@example.com", ["ann@example.com"]),
    ("email", "请联系ann@example.com谢谢", ["ann@example.com"]),
    ("email", "ann\uff20example\uff0ecom", ["ann\uff20example\uff0ecom"]),
    ("email", "ann\u200b@exam\u00adple.com", ["ann\u200b@exam\u00adple.com"]),
    ("email", "анна@пример.рф", ["анна@пример.рф"]),
    ("email", "a@b@example.com", ["b@example.com"]),
    ("email", "ann@example.com_old", ["ann@example.com"]),
    ("credit_card", "4111 1111 1111 1111", ["4111 1111 1111 1111"]),
    ("credit_card", "pay with 5555-5555-5555-4444, please", ["5555-5555-5555-4444"]),
    ("credit_card", "4111111111111111 12/27", ["4111111111111111"]),
    ("credit_card", "4111 1111 1111 1111 2027", ["4111 1111 1111 1111"]),
    ("credit_card", "3782 822463 10005", ["3782 822463 10005"]),
    ("credit_card", "12 4111\u00a01111\u00a01111\u00a01111", ["4111\u00a01111\u00a01111\u00a01111"]),
    ("credit_card", "٤١١١١١١١١١١١١١١١", ["٤١١١١١١١١١١١١١١١"]),
    ("ip", "from 192.168.0.1.", ["192.168.0.1"]),
    ("ip", "999.10.0.0.1", ["10.0.0.1"]),
    ("ip", "ip:fe80::1, 2001:db8::ff00:42:8329.", ["fe80::1", "2001:db8::ff00:42:8329"]),
    ("ip", "::ffff:10.0.0.1", ["::ffff:10.0.0.1"]),
    ("mac_address", "00:1A:2B:3C:4D:5E and 00-1a-2b-3c-4d-5f", ["00:1A:2B:3C:4D:5E", "00-1a-2b-3c-4d-5f"]),
    ("mac_address", "001a.2b3c.4d5e", ["001a.2b3c.4d5e"]),
    ("url", "See https://example.com/a?b=c#d.", ["https://example.com/a?b=c#d"]),
    ("url", "HTTPS://user:pass@example.com:8443/x", ["HTTPS://user:pass@example.com:8443/x"]),
    ("url", "www.example.com or example.org/path", ["www.example.com", "example.org/path"]),
    ("url", "请看https://example.com/页。谢谢", ["https://example.com/页"]),
    ("url", "xhttps://example.com", ["https://example.com"]),
]

LEFT = [
    ("email", "no address @ all, a@b, @example.com, ann@localhost"),
    ("credit_card", "4111 1111 1111 1112"),
    ("credit_card", "1234567890123456"),
    ("credit_card", "id a4111111111111111"),
    ("credit_card", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"),
    ("credit_card", "1700000000000 and 41111111111111111111111"),
    ("ip", "version 1.2.3, 300.1.1.1, at 12:30:45, std::vector, a::b"),
    ("mac_address", "00:1A:2B:3C:4D, 00:1A:2B:3C:4D:5EF"),
    ("url", "example.com is a name, and/or, 1.5/2, a.b, https://"),
]


@pytest.mark.parametrize(("kind", "text", "values"), FOUND)
def test_a_value_is_found_where_it_stands(kind, text, values):
    found = DETECTORS[kind](text)
    assert [match["value"] for match in found] == values
    assert [text[match["start"] : match["end"]] for match in found] == values
    assert {match["type"] for match in found} == {kind}


@pytest.mark.parametrize(("kind", "text"), LEFT)
def test_what_only_looks_like_a_value_is_left(kind, text):
    assert DETECTORS[kind](text) == []


HOSTILE = {
    "letters": "a",
    "dots": "a.",
    "ats": "a@",
    "at dots": "@a.",
    "digits": "1",
    "groups": "4111 ",
    "triples": "111-",
    "octets": "1.",
    "colons": "a:",
    "pairs": "00:",
    "zeros": "::",
    "schemes": "https://",
    "paths": "a.b/",
    "wide": "\uff41\uff0e\uff20",
    "hidden": "a\u200b",
    "spaces": " ",
}


@pytest.mark.parametrize("kind", DETECTORS)
@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_a_long_hostile_text_does_not_slow_a_detector(kind, unit):
    text = (unit * 200_000)[:200_000]
    began = time.process_time()
    DETECTORS[kind](text)
    assert time.process_time() - began < 2, "the time must grow with the length of the text, not with its square"


STRATEGIES = [
    ("email", "redact", "ann@example.com", "[REDACTED_EMAIL]"),
    ("email", "mask", "ann@example.com", "ann@****.com"),
    ("email", "hash", "ann@example.com", "<email_hash:71d4f55f>"),
    ("credit_card", "mask", "4111-1111-1111-1111", "****-****-****-1111"),
    ("credit_card", "mask", "4111 1111 1111 1111", "**** **** **** 1111"),
    ("credit_card", "mask", "4111111111111111", "************1111"),
    ("ip", "mask", "192.168.0.17", "*.*.*.17"),
    ("ip", "mask", "fe80::1", "****"),
    ("mac_address", "mask", "00:1a:2b:3c:4d:5e", "**:**:**:**:**:5e"),
    ("mac_address", "mask", "00-1a-2b-3c-4d-5e", "**-**-**-**-**-5e"),
    ("url", "mask", "https://example.com", "[MASKED_URL]"),
    ("mac_address", "redact", "00:1a:2b:3c:4d:5e", "[REDACTED_MAC_ADDRESS]"),
]


@pytest.mark.parametrize(("kind", "strategy", "value", "instead"), STRATEGIES)
def test_a_strategy_puts_its_form_in_the_place_of_the_value(kind, strategy, value, instead):
    text, found = RedactionRule(kind, strategy).resolve().apply(f"It is {value}, he said.")
    assert text == f"It is {instead}, he said."
    assert [match["value"] for match in found] == [value]


def test_a_mask_of_an_own_type_leaves_the_last_four_characters():
    assert RedactionRule("key", "mask", r"sk-\w+").resolve().apply("sk-abcdef")[0] == "****cdef"
    assert RedactionRule("pin", "mask", r"\b\d{4}\b").resolve().apply("1234")[0] == "****"


def test_a_detector_of_the_users_may_leave_out_the_value_and_the_type():
    rule = RedactionRule("name", "hash", lambda text: [{"start": 0, "end": 3}] if text.startswith("Ann") else None)
    given = RedactionRule("name", "hash", lambda text: [{"start": 0, "end": 3, "text": "Ann", "type": "name"}])
    assert rule.resolve().apply("Ann!") == given.resolve().apply("Ann!")
    assert rule.resolve().apply("Bob!") == ("Bob!", [])


def test_matches_that_overlap_are_one():
    matches = [{"start": 4, "end": 8}, {"start": 0, "end": 5}, {"start": 1, "end": 2}, {"start": 8, "end": 9}]
    text, found = RedactionRule("x", detector=lambda _: matches).resolve().apply("abcdefghij")
    assert text == "[REDACTED_X][REDACTED_X]j"
    assert [(one["start"], one["end"]) for one in found] == [(0, 8), (8, 9)]


def test_an_empty_match_of_an_expression_is_none():
    assert RedactionRule("x", detector="a*").resolve().apply("baab")[0] == "b[REDACTED_X]b"


def test_a_text_without_values_is_the_same_object():
    text = "nothing here"
    assert RedactionRule("email").resolve().text(text) is text


def test_the_error_of_a_block_does_not_show_the_value():
    with pytest.raises(PIIDetectionError) as caught:
        RedactionRule("email", "block").resolve().apply("ann@example.com")
    error = caught.value
    assert str(error) == "A text has 1 value(s) of type 'email', which is to be blocked."
    assert repr(error) == "PIIDetectionError(pii_type='email', count=1)"
    assert error.matches == [{"type": "email", "value": "ann@example.com", "start": 0, "end": 15}]


WRONG = {
    "unknown type": (("passport",), {}, ConfigurationError, "there are those for email, credit_card"),
    "unknown strategy": (("email", "drop"), {}, ConfigurationError, "block, redact, mask, hash"),
    "no expression": (("x",), {"detector": "("}, ConfigurationError, "no regular expression"),
    "no detector": (("x",), {"detector": 5}, ConfigurationTypeError, "detector is int"),
    "no type": (("",), {}, ConfigurationTypeError, "expected was a name"),
}


@pytest.mark.parametrize(("given", "options", "kind", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_rule_is_refused_with_what_is_expected(given, options, kind, said):
    with pytest.raises(kind, match=said):
        RedactionRule(*given, **options).resolve()


@pytest.mark.parametrize("match", [{}, {"start": 0, "end": 99}, {"start": 2, "end": 1}, {"start": "0", "end": 1}, 7])
def test_a_match_without_a_place_is_refused_without_showing_it(match):
    rule = RedactionRule("x", detector=lambda _: [match]).resolve()
    with pytest.raises(ConfigurationTypeError, match="without a place in the text"):
        rule.apply("secret")
