"""Whatever the calls and the decisions: exactly what a person let through runs, once, and every call is answered."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgraph.testing import assert_valid_history, tool_call
from tests.contract import conftest
from tests.middleware.approving import APPROVE, Desk, edit, reject, respond

ROUNDS = 3

amounts = st.integers(0, 200)
names = st.sampled_from(["ann", "bob"])
actions = st.one_of(
    st.builds(lambda to, amount: ("transfer", {"to": to, "amount": amount}), names, amounts),
    st.builds(lambda account: ("close", {"account": account}), names),
    st.builds(lambda account: ("balance", {"account": account}), names),
)
edits = actions.map(lambda action: edit(action[0], **action[1]))
final = st.one_of(st.just(APPROVE), st.just(reject()), st.just(reject("no")), st.just(respond("done by hand")))


def large(request):
    return request.tool_call["args"]["amount"] > 100


EVERY = ["approve", "edit", "reject", "respond"]
GUARDS = {"transfer": {"allowed_decisions": EVERY, "when": large}, "close": True}


def needs_a_decision(action, before=()):
    """The policy in the words of its documentation; `before` are the forms of the call that a person has seen."""
    name, args = action
    if action in before or name == "balance":
        return False
    if name == "transfer":
        return args["amount"] > 100
    return not before or before[-1][0] != name


class Person:
    """What should happen, followed decision by decision."""

    def __init__(self, calls):
        self.forms = {call["id"]: [(call["name"], call["args"])] for call in calls}
        self.open = [key for key, forms in self.forms.items() if needs_a_decision(forms[-1])]
        self.stopped = set()

    def asked(self):
        return [self.forms[key][-1] for key in self.open]

    def decide(self, decisions):
        asked, self.open = self.open, []
        for key, decision in zip(asked, decisions, strict=True):
            if decision["type"] in {"reject", "respond"}:
                self.stopped.add(key)
            elif decision["type"] == "edit":
                action = decision["edited_action"]
                forms = self.forms[key]
                forms.append((action["name"], action["args"]))
                if needs_a_decision(forms[-1], forms[:-1]):
                    self.open.append(key)

    def log(self):
        ran = [forms[-1] for key, forms in self.forms.items() if key not in self.stopped]
        return sorted((name, *args.values()) for name, args in ran)


@settings(max_examples=60, deadline=None)
@given(batch=st.lists(actions, min_size=1, max_size=4), data=st.data(), ways=st.lists(st.booleans(), min_size=9))
def test_exactly_what_was_let_through_runs_once(batch, data, ways):
    calls = [tool_call(name, id=f"c{place}", **args) for place, (name, args) in enumerate(batch)]
    desk = Desk(None, calls, "done", guards=GUARDS)
    person = Person(calls)
    # Each step in a way of its own, so that a paused run is also resumed in another one.
    steps = iter([conftest._ainvoke if is_async else conftest._invoke for is_async in ways])
    desk._run = next(steps)
    desk.say()
    for number in range(ROUNDS + 1):
        if not desk.questions:
            break
        shown = [(one["name"], one["args"]) for one in desk.question.value["action_requests"]]
        assert shown == person.asked()
        assert person.log() == sorted(desk.log) or desk.log == []
        choice = final if number == ROUNDS else final | edits
        decisions = [data.draw(choice) for _ in shown]
        person.decide(decisions)
        desk._run = next(steps)
        desk.resume({"decisions": decisions})
    assert not desk.questions
    assert sorted(desk.log) == person.log()
    assert list(desk.answers()) == [call["id"] for call in calls]
    assert_valid_history(desk.messages)
    assert desk.messages[-1].text == "done"
