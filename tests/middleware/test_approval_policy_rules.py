"""The rules of a policy by themselves: which one decides about a call, and why."""

import asyncio

import pytest
from langgraph.errors import GraphInterrupt

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import (
    ApprovalGrant,
    ApprovalPolicyMiddleware,
    ApprovalRule,
    ApprovalVerdict,
    Argument,
    Caller,
)
from agentgraph.tools import tool

NAN = float("nan")


def outcome(rules, args=None, *, name="pay", default="ask", **given):
    policy = ApprovalPolicyMiddleware(rules, default=default)
    return policy.explain({"name": name, "args": {} if args is None else args}, **given).outcome


def declaring(**metadata):
    @tool
    def pay(amount: int = 0) -> str:
        """Pay."""
        return "paid"

    pay.metadata = metadata
    return pay


def broken(value):
    raise KeyError(value)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("allow", "ask", "deny"), "deny"),
        (("deny", "ask", "allow"), "deny"),
        (("allow", "ask"), "ask"),
        (("ask", "allow"), "ask"),
        (("allow",), "allow"),
        ((), "ask"),
    ],
)
def test_deny_wins_over_ask_and_ask_over_allow_in_any_order(outcomes, expected):
    assert outcome([ApprovalRule(one) for one in outcomes]) == expected


@pytest.mark.parametrize("default", ["deny", "ask", "allow"])
def test_a_call_that_no_rule_is_about_is_treated_by_the_default(default):
    assert outcome([ApprovalRule("deny", tools="close")], default=default) == default


@pytest.mark.parametrize(
    ("tools", "fits"),
    [
        ("pay", True),
        (["close", "pay"], True),
        ({"pay"}, True),
        ("p*", True),
        ("*", True),
        ("[op]ay", True),
        ("Pay", False),
        ("pa", False),
        ("close", False),
    ],
)
def test_tools_are_meant_by_name_or_pattern(tools, fits):
    assert (outcome([ApprovalRule("deny", tools=tools)]) == "deny") is fits


ORDER = {"to": "ann", "items": [{"price": 5}, {"price": 50}], "a key": {"x-y": [1, 2]}, "none": []}


@pytest.mark.parametrize(
    ("path", "expected", "denied", "allowed"),
    [
        ("$.to", "ann", True, True),
        ("$.to", "eve", False, False),
        ("$.items[0].price", 5, True, True),
        ("$.items[1].price", 5, False, False),
        ("$.items[*].price", 50, True, False),
        ("$.items[*].price", Argument.at_most(50), True, True),
        ("$['a key'].x-y[1]", 2, True, True),
        ("$['a key'][*][*]", Argument.one_of(1, 2), True, True),
        ("$", ORDER, True, True),
        # What leads nowhere fits a rule that denies, and none that allows.
        ("$.cc", "ann", True, False),
        ("$.items[2].price", 5, True, False),
        ("$.items[*].name", "x", True, False),
        ("$.to[0]", "a", True, False),
        ("$.to[*]", "a", True, False),
        # An empty list is there, and has no element that fits.
        ("$.none[*]", "a", False, False),
    ],
)
def test_arguments_are_found_by_path(path, expected, denied, allowed):
    assert (outcome([ApprovalRule("deny", arguments={path: expected})], ORDER) == "deny") is denied
    assert (outcome([ApprovalRule("allow", arguments={path: expected})], ORDER) == "allow") is allowed


@pytest.mark.parametrize(
    ("test", "value", "said"),
    [
        (Argument.equals(1), 1, True),
        (Argument.equals(1), 1.0, True),
        (Argument.equals(1), 2, False),
        (Argument.equals(1), True, None),
        (Argument.equals(1), "1", None),
        (Argument.equals(None), None, True),
        (Argument.equals("a"), None, None),
        (Argument.equals({"a": [1]}), {"a": [1.0]}, True),
        (Argument.equals({"a": [1]}), {"a": [1], "b": 2}, False),
        (Argument.equals({"a": [1]}), {"a": ["1"]}, None),
        (Argument.equals([1]), [1, 2], False),
        (Argument.one_of("a", 2), "a", True),
        (Argument.one_of("a", 2), 3, False),
        (Argument.one_of("a", 2), ["a"], None),
        (Argument.contains("rm -rf"), "sudo\nRM -RF /", True),
        (Argument.contains("rm -rf"), "rm -r", False),
        (Argument.contains("5"), 5, None),
        (Argument.matches("a+"), "aa", True),
        (Argument.matches("a+"), "aab", False),
        (Argument.matches("a+", longest=3), "aaaa", None),
        (Argument.matches("a+"), 5, None),
        (Argument.less_than(5), 4.9, True),
        (Argument.less_than(5), 5, False),
        (Argument.at_most(5), 5, True),
        (Argument.at_most(5), 6, False),
        (Argument.more_than(5), 6, True),
        (Argument.more_than(5), 5, False),
        (Argument.at_least(5), 5, True),
        (Argument.at_least(5), 4, False),
        (Argument.at_least(5), 10**400, True),
        (Argument.more_than(5), "6", None),
        (Argument.more_than(5), True, None),
        (Argument.more_than(5), NAN, None),
        (str.isupper, "A", True),
        (str.isupper, "a", False),
        (str.isupper, 1, None),
        (broken, 1, None),
        (lambda value: asyncio.sleep(value), 0, None),  # noqa: PLW0108 - no function that tells that it is async
    ],
)
def test_what_a_test_cannot_judge_counts_against_the_call(test, value, said):
    found = {
        kind: outcome([ApprovalRule(kind, arguments={"$.x": test})], {"x": value}, default=other)
        for kind, other in (("deny", "allow"), ("ask", "allow"), ("allow", "ask"))
    }

    assert found == {
        "deny": "allow" if said is False else "deny",
        "ask": "allow" if said is False else "ask",
        "allow": "allow" if said is True else "ask",
    }


def test_a_rule_can_say_what_a_missing_argument_means():
    assert outcome([ApprovalRule("deny", arguments={"$.cc": "eve"}, if_missing=False)]) == "ask"
    assert outcome([ApprovalRule("allow", arguments={"$.cc": "ann"}, if_missing=True)]) == "allow"
    assert outcome([ApprovalRule("allow", arguments={"$.cc": "ann"}, if_missing=True)], {"cc": "eve"}) == "ask"


def test_a_users_function_cannot_change_what_runs():
    args = {"x": [1]}

    outcome([ApprovalRule("deny", arguments={"$.x": lambda value: value.clear() or True})], args)
    outcome([ApprovalRule("deny", when=lambda request: request.tool_call["args"].clear() or True)], args)

    assert args == {"x": [1]}


def test_an_interrupt_in_a_users_function_passes():
    def pausing(value):
        raise GraphInterrupt(())

    with pytest.raises(GraphInterrupt):
        outcome([ApprovalRule("deny", arguments={"$.x": pausing})], {"x": 1})


@pytest.mark.parametrize(
    ("metadata", "effects"),
    [
        ({"effect": "read"}, {"read"}),
        ({"effect": ["write", "external"]}, {"write", "external"}),
        ({"effect": "read", "destructiveHint": True}, {"read"}),
        ({"effect": "reed"}, {"undeclared"}),
        ({"effect": ["read", 5]}, {"undeclared"}),
        ({"readOnlyHint": True}, {"read"}),
        ({"annotations": {"readOnlyHint": True, "openWorldHint": True}}, {"read", "external"}),
        ({"readOnlyHint": False}, {"write"}),
        ({"destructiveHint": True}, {"write"}),
        ({"readOnlyHint": "yes"}, {"undeclared"}),
        ({}, {"undeclared"}),
    ],
)
def test_a_tool_declares_its_effects(metadata, effects):
    one = declaring(**metadata)

    denied = {kind for kind in EFFECTS if outcome([ApprovalRule("deny", declared=kind)], tool=one) == "deny"}
    allowed = {kind for kind in EFFECTS if outcome([ApprovalRule("allow", declared=kind)], tool=one) == "allow"}

    # One effect of several is enough to deny, and not to allow.
    assert denied == effects
    assert allowed == (effects if len(effects) == 1 else set())
    assert outcome([ApprovalRule("allow", declared=sorted(effects))], tool=one) == "allow"


EFFECTS = ("read", "write", "external", "undeclared")


@pytest.mark.parametrize(
    ("config", "context", "expected"),
    [
        ({"configurable": {"user_id": "ann"}}, None, Caller("ann", None)),
        ({"configurable": {"user_id": 5}}, None, Caller("5", None)),
        (
            {"configurable": {"user_id": "eve", "langgraph_auth_user_id": "ann"}},
            {"team": 1},
            Caller("ann", {"team": 1}),
        ),
        ({}, None, Caller(None, None)),
        (None, "ctx", Caller(None, "ctx")),
    ],
)
def test_the_caller_is_known_from_the_run(config, context, expected):
    seen = []

    outcome([ApprovalRule("deny", caller=seen.append)], config=config, context=context)

    assert seen == [expected]


@pytest.mark.parametrize(
    ("user", "denied", "allowed"),
    [("ann", True, True), ("bob", True, True), ("eve", False, False), (None, True, False)],
)
def test_a_rule_is_for_callers_and_one_without_an_id_is_on_the_safe_side(user, denied, allowed):
    config = {"configurable": {"user_id": user}}

    assert (outcome([ApprovalRule("deny", caller=["ann", "bob"])], config=config) == "deny") is denied
    assert (outcome([ApprovalRule("allow", caller=["ann", "bob"])], config=config) == "allow") is allowed


def test_a_verdict_names_the_rule_and_says_why():
    rules = [
        ApprovalRule("deny", tools=["pay", "send*"], arguments={"$.to": "eve"}, reason="Never to Eve.", name="eve"),
        ApprovalRule("ask", declared="write", caller="ann", when=broken),
        ApprovalRule("allow"),
    ]
    policy = ApprovalPolicyMiddleware(rules)
    ann = {"configurable": {"user_id": "ann"}}

    said = [
        policy.explain({"name": "pay", "args": {"to": "eve"}}),
        policy.explain({"name": "pay", "args": {"to": "bob"}}, tool=declaring(effect="write"), config=ann),
        policy.explain({"name": "pay", "args": {"to": "bob"}}),
        ApprovalPolicyMiddleware([]).explain({"name": "pay", "args": {}}),
    ]

    assert said == [
        ApprovalVerdict(
            "deny", "eve", "the rule 'eve' says 'deny' (tools pay, send*; $.to equals('eve')). Never to Eve."
        ),
        ApprovalVerdict("ask", "ask #2", "the rule 'ask #2' says 'ask' (declared write; caller ann; when broken)"),
        ApprovalVerdict("allow", "allow #3", "the rule 'allow #3' says 'allow' (every call)"),
        ApprovalVerdict("ask", "default", "no rule is about this call, and the default is 'ask'"),
    ]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "to",
        "$to",
        "$.",
        "$..to",
        "$.a.",
        "$[",
        "$[-1]",
        "$[01]",
        "$[1:2]",
        "$['']",
        "$['a",
        "$[?(@)]",
        f"${'.a' * 300}",
    ],
)
def test_a_malformed_path_is_refused_at_once(path):
    with pytest.raises(ConfigurationError, match="is no path"):
        ApprovalRule("deny", arguments={path: 1})


async def later(value):
    return True


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda: ApprovalRule("refuse"), ConfigurationError, "outcome is 'refuse'"),
        (lambda: ApprovalRule("deny", tools=5), ConfigurationTypeError, "tools is 5"),
        (lambda: ApprovalRule("deny", tools=[]), ConfigurationError, "at least one"),
        (lambda: ApprovalRule("deny", tools=""), ConfigurationError, "at least one"),
        (lambda: ApprovalRule("deny", declared="reed"), ConfigurationError, "declared has"),
        (lambda: ApprovalRule("deny", caller=[]), ConfigurationError, "caller is"),
        (lambda: ApprovalRule("deny", caller=later), ConfigurationTypeError, "plain function"),
        (lambda: ApprovalRule("deny", when=later), ConfigurationTypeError, "plain function"),
        (lambda: ApprovalRule("deny", when="x"), ConfigurationTypeError, "plain function"),
        (lambda: ApprovalRule("deny", arguments=["$.x"]), ConfigurationTypeError, "arguments is"),
        (lambda: ApprovalRule("deny", arguments={"$.x": later}), ConfigurationTypeError, "is async"),
        (lambda: ApprovalRule("deny", arguments={5: 1}), ConfigurationTypeError, "key 5"),
        (lambda: ApprovalRule("deny", if_missing="no"), ConfigurationTypeError, "if_missing is"),
        (lambda: ApprovalRule("deny", reason=5), ConfigurationTypeError, "reason is 5"),
        (lambda: ApprovalRule("deny", grant=ApprovalGrant()), ConfigurationError, "has a grant"),
        (lambda: ApprovalRule("ask", grant=3600), ConfigurationTypeError, "grant is 3600"),
        (lambda: ApprovalGrant(seconds=0), ConfigurationError, "more than 0"),
        (lambda: ApprovalGrant(seconds=float("inf")), ConfigurationError, "an end"),
        (lambda: ApprovalGrant(seconds=True), ConfigurationTypeError, "seconds is True"),
        (lambda: ApprovalGrant(scope="world"), ConfigurationError, "scope is 'world'"),
        (lambda: ApprovalGrant(match="name"), ConfigurationError, "match is 'name'"),
        (Argument.one_of, ConfigurationError, "no values"),
        (lambda: Argument.matches("("), ConfigurationError, "no regular expression"),
        (lambda: Argument.contains(""), ConfigurationError, "a text that is not empty"),
        (lambda: Argument.contains(5), ConfigurationError, "a text that is not empty"),
        (lambda: Argument.at_most("5"), ConfigurationTypeError, "expected was a number"),
        (lambda: Argument.at_most(NAN), ConfigurationTypeError, "expected was a number"),
        (lambda: ApprovalPolicyMiddleware(5), ConfigurationTypeError, "rules is 5"),
        (lambda: ApprovalPolicyMiddleware([{"outcome": "deny"}]), ConfigurationTypeError, "ApprovalRule objects"),
        (lambda: ApprovalPolicyMiddleware([], default="no"), ConfigurationError, "outcome is 'no'"),
        (lambda: ApprovalPolicyMiddleware([], default_grant=5), ConfigurationTypeError, "grant is 5"),
        (lambda: ApprovalPolicyMiddleware([], interrupt_mode="x"), ConfigurationError, "interrupt_mode"),
        (lambda: ApprovalPolicyMiddleware([], clock=5), ConfigurationTypeError, "clock is 5"),
        (lambda: ApprovalPolicyMiddleware([], caller_id=later), ConfigurationTypeError, "caller_id is"),
        (
            lambda: ApprovalPolicyMiddleware([ApprovalRule("deny", name="a"), ApprovalRule("ask", name="a")]),
            ConfigurationError,
            "'a' twice",
        ),
        (lambda: ApprovalPolicyMiddleware([ApprovalRule("deny", name="default")]), ConfigurationError, "'default'"),
    ],
)
def test_what_cannot_work_is_refused_at_once(make, error, told):
    with pytest.raises(error, match=told):
        make()
