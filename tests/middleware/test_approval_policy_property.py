"""Policies over all inputs: the order of rules does not count, and digests tell values apart."""

import json

from agentgraph.middleware._policy_grants import canonical, merged
from agentgraph.middleware._policy_paths import Path
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgraph.errors import ConfigurationError
from agentgraph.middleware import ApprovalGrant, ApprovalPolicyMiddleware, ApprovalRule, Argument

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TESTS = st.sampled_from([Argument.at_most(5), Argument.more_than(5), Argument.equals("a"), str.isupper])
RULES = st.builds(
    ApprovalRule,
    st.sampled_from(["deny", "ask", "allow"]),
    tools=st.sampled_from([None, "pay", "p*", "close"]),
    arguments=st.none() | st.dictionaries(st.sampled_from(["$.a", "$.b[*]", "$.c"]), TESTS, max_size=2),
)
ARGS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


def typed(value):
    """A value with the types of all its parts, for comparing by Python's own rules."""
    if isinstance(value, dict):
        return dict, frozenset((key, typed(one)) for key, one in value.items())
    return (list, tuple(map(typed, value))) if isinstance(value, list) else (type(value), repr(value))


@given(rules=st.lists(RULES, max_size=5), args=ARGS, data=st.data())
@settings(max_examples=150, deadline=None)
def test_the_order_of_rules_does_not_change_the_outcome(rules, args, data):
    call = {"name": "pay", "args": args}
    shuffled = data.draw(st.permutations(rules))

    first, second = (ApprovalPolicyMiddleware(one).explain(call).outcome for one in (rules, shuffled))

    assert first == second


@given(rules=st.lists(RULES, max_size=4), more=RULES, args=ARGS)
@settings(max_examples=150, deadline=None)
def test_a_rule_more_that_denies_or_asks_never_opens_a_guard(rules, more, args):
    call = {"name": "pay", "args": args}
    strictness = ["allow", "ask", "deny"].index

    before, after = (ApprovalPolicyMiddleware(one).explain(call).outcome for one in (rules, [*rules, more]))

    assert strictness(after) >= strictness(before) or more.outcome == "allow"


@given(one=JSON, other=JSON)
@settings(max_examples=300, deadline=None)
def test_two_values_have_one_canonical_form_only_if_they_are_the_same(one, other):
    assert (canonical(one) == canonical(other)) is (typed(one) == typed(other))


@given(value=JSON)
@settings(max_examples=150, deadline=None)
def test_a_value_read_again_has_the_same_form(value):
    text = canonical(value)

    assert canonical(json.loads(text)) == text


def test_what_merely_looks_alike_has_another_form():
    alike = [1, 1.0, "1", True, [1], {"1": 1}, None, "null", 0.0, -0.0, "é", "e\u0301", "\ud800", ""]

    assert len({canonical(one) for one in alike}) == len(alike)


def test_what_is_no_json_has_no_form_and_no_grant():
    circle = []
    circle.append(circle)
    strange = [{1: 2}, (1,), float("nan"), float("inf"), b"x", object(), {"a": {None: 1}}, circle, 10**5000]

    assert [canonical(one) for one in strange] == [None] * len(strange)
    assert [ApprovalGrant().key("r", "pay", {"x": one}, None) for one in strange] == [None] * len(strange)


@given(text=st.text(alphabet="$.[]'*a0-_ \\\n", max_size=12))
@settings(max_examples=300, deadline=None)
def test_a_path_is_read_or_refused_and_then_finds_or_misses(text):
    try:
        path = Path.of(text)
    except ConfigurationError:
        return
    found = path.find({"a": [{"a": 1}, []], "0": {"a": None}})
    assert found.values or found.is_missing or "[*]" in text


def test_the_newest_grants_are_kept_when_there_are_too_many():
    old = {str(n): {"made": 0.0, "ends": 10.0 + n} for n in range(500)}

    kept = merged(old, {"new": {"made": 5.0, "ends": 1000.0}})

    assert kept == {**{key: one for key, one in old.items() if key != "0"}, "new": {"made": 5.0, "ends": 1000.0}}
