"""Stateful tasks: simulators, what their calls do, and the state at the end against the wanted one."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.verify.budget import Budget
from prefkit.verify.end_state import perfect_matching, state_difference
from prefkit.verify.orders_simulator import OrdersSimulator
from prefkit.verify.paths import read_path
from prefkit.verify.simulator import CallResult, Simulator, ToolError, content_of, register, simulator_class, tool
from prefkit.verify.tool_calls import ToolCallsVerifier
from prefkit.verify.verdict import SCORED, Judgement, Status
from prefkit.verify.verifier import Source

VERIFIER = ToolCallsVerifier()
SHOP = {
    "now": "2026-03-01",
    "customers": {"4": {"name": "Ada"}, "5": {"name": "Bo"}},
    "orders": {
        "17": {"customer": 4, "total": 59.9, "status": "delivered"},
        "18": {"customer": 4, "total": 10, "status": "delivered"},
        "19": {"customer": 5, "total": 7.5, "status": "paid"},
    },
}
END = {
    "orders": {"17": {"status": "refunded", "refunded": 59.9}},
    "refunds": [{"order": 17, "amount": 59.9}],
    "messages": [{"customer": 4}],
}


def refund(order: Any, **more: Any) -> dict[str, Any]:
    return {"name": "refund_order", "arguments": {"order": order, **more}}


def tell(customer: int = 4, text: str = "Your refund is on its way.") -> dict[str, Any]:
    return {"name": "send_message", "arguments": {"customer": customer, "text": text}}


def judged(answer: Any, folder: Path | None = None, **changes: Any) -> Judgement:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    line = {"simulator": "orders", "state": SHOP, "end": END, "answer": text} | changes
    check = VERIFIER.read(line, "1", Source(folder or Path(__file__).parent, 2.0))
    json.dumps(list(VERIFIER.key(check)))
    steps = VERIFIER.judge(check)
    with pytest.raises(StopIteration) as end:
        next(steps)
    return end.value.value


def said(answer: Any, **changes: Any) -> tuple[str, str]:
    judgement = judged(answer, **changes)
    return str(judgement.status), judgement.reason


# Refund order 17 and tell the customer


@pytest.mark.parametrize(
    "answer",
    [
        [refund(17), tell()],
        [tell(text="Hello!"), refund(17)],
        [refund(17, amount=59.9), tell()],
        [refund(17.0), tell()],
        [{"name": "get_order", "arguments": {"order": 17}}, refund(17), tell()],
        [refund(17), refund(17), tell()],  # the second fails: nothing is left to refund
        [refund(99), refund("17"), {"name": "reset", "arguments": {}}, refund(17), tell(9), tell()],
        f"I refund it.\n```json\n{json.dumps([refund(17), tell()])}\n```",
        f"<tool_call>{json.dumps(refund(17))}</tool_call><tool_call>{json.dumps(tell())}</tool_call>",
    ],
)
def test_what_happened_decides_not_which_calls_were_made(answer: Any) -> None:
    assert said(answer) == ("PASS", "wanted end state")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([refund(17)], "wrong end state: messages"),
        ([tell()], "wrong end state: orders.17.status"),
        ([refund(17), tell(), tell()], "wrong end state: messages"),
        ([refund(17), tell(5)], "wrong end state: messages"),
        ([refund(17), refund(18), tell()], "wrong end state: orders.18.refunded"),
        ([refund(18), tell()], "wrong end state: orders.17.status"),
        ([refund(17, amount=10), tell()], "wrong end state: orders.17.status"),
        ([refund(17, amount=29.9), refund(17, amount=30), tell()], "wrong end state: refunds"),
        ([refund(17), {"name": "cancel_order", "arguments": {"order": 19}}, tell()], "wrong end state: orders.19.status"),
        ([refund(True), tell()], "wrong end state: orders.17.status"),
        ("Order 17 is refunded and the customer knows.", "no tool call in the answer"),
        ("", "empty answer"),
        ('[{"name": "refund_order", "arguments": {"order": 17}}', "not JSON: expecting ',' delimiter"),
        ("refund_order(order=17)", 'call of "refund_order" is not JSON'),
    ],
)
def test_side_effects_and_things_left_undone_are_wrong(answer: Any, reason: str) -> None:
    judgement = judged(answer)
    assert (judgement.status, judgement.reason) == (Status.WRONG, reason)
    assert judgement.feedback


def test_feedback_says_what_each_call_gave() -> None:
    feedback = judged([refund(99), refund(18)]).feedback
    assert feedback is not None
    assert 'refund_order({"order": 99}) gave the error: there is no order 99' in feedback
    assert '"amount": 10' in feedback
    assert "17" not in feedback


@pytest.mark.parametrize("text", ['[{"name": "a", "name": "b"}]', '{"name": "refund_order", "arguments": {"order": NaN}}', "[" * 1000])
def test_json_that_breaks_the_rules_is_policy(text: str) -> None:
    assert judged(text).status is Status.POLICY


def test_too_many_calls_are_a_limit() -> None:
    assert said([tell()] * 201) == ("LIMIT", "limit: calls (more than 200)")
    assert said([tell()] * 200)[0] == "WRONG"


def test_where_nothing_should_happen_prose_passes() -> None:
    assert said("Order 99 does not exist; nothing to refund.", end={}) == ("PASS", "wanted end state")
    assert said([refund(99)], end={}) == ("PASS", "wanted end state")
    assert said([refund(17)], end={}) == ("WRONG", "wrong end state: orders.17.refunded")
    assert said("", end={}) == ("WRONG", "empty answer")


def test_ends_may_come_from_accepted_calls() -> None:
    calls = [refund(17), tell()]
    assert said(calls[::-1], end=[], accepted=[calls]) == ("PASS", "wanted end state")
    other = [refund(17), tell(text="Done.")]
    assert said(other, end=[], accepted=[calls]) == ("WRONG", "wrong end state: messages")
    assert said(other, end=[], accepted=[calls], ignore=["messages[*].text"]) == ("PASS", "wanted end state")
    assert said(other, end=[], accepted=[calls, other]) == ("PASS", "wanted end state")
    assert said(calls, accepted=[calls]) == ("PASS", "wanted end state")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"accepted": [[refund(17)]]}, "gold: wrong end state: messages"),
        ({"accepted": [[refund(99)]]}, "gold: refund_order fails: there is no order 99"),
        ({"accepted": [[{"name": "reset", "arguments": {}}]]}, 'gold: reset fails: there is no tool "reset"'),
        ({"accepted": [["x"]]}, 'gold: not a list of calls: ["x"]'),
        ({"state": {"orders": []}}, "start state: orders must be an object"),
        ({"state": {"orders": {"1": {}}}}, "start state: order 1 needs customer, total and status"),
        ({"end": [{"x": float("inf")}]}, "task: number out of range: Infinity"),
    ],
)
def test_a_task_that_does_not_hold_together_is_unverifiable(changes: dict[str, Any], reason: str) -> None:
    assert said([refund(17), tell()], **changes) == ("UNVERIFIABLE", reason)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"simulator": "nothing"}, "unknown simulator"),
        ({"simulator": 5}, '"simulator" must be'),
        ({"simulator": "os:system"}, "has no Simulator system"),
        ({"simulator": "prefkit.nothing:X"}, "cannot be imported"),
        ({"simulator": "../x:Y"}, "unknown simulator"),
        ({"state": []}, '"state" must be'),
        ({"end": 5}, '"end" must be'),
        ({"end": []}, 'expected "end"'),
        ({"accepted": [refund(17)]}, '"accepted" must be'),
        ({"ignore": "x"}, '"ignore" must be'),
        ({"ignore": ["a..b"]}, "is no path"),
        ({"ordered": "yes"}, '"ordered" must be'),
    ],
)
def test_a_broken_line_is_refused(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        judged("x", **changes)


def test_an_answer_cannot_name_a_simulator_or_a_state() -> None:
    text = json.dumps({"simulator": "os:system", "state": END, "end": {}, "tool_calls": []})
    assert said(text) == ("WRONG", "no tool call in the answer")


# Simulators


class Counter(Simulator):
    @tool("Add to a number.", {"name": {"type": "string"}, "by": {"type": "integer"}})
    def add(self, name: str, by: int = 1) -> int:
        self.state[name] = self.state.get(name, 0) + by
        if self.state[name] > 100:
            raise ToolError("more than 100")
        return self.state[name]

    @tool("Fail halfway.", {"how": {"type": "string"}})
    def fail(self, how: str) -> Any:
        self.state["half"] = True
        if how == "nan":
            return float("nan")
        if how == "object":
            return object()
        if how == "state":
            self.state["set"] = {1, 2}
        return {}[how]

    @tool("A list from the state.")
    def listed(self) -> Any:
        return self.state.setdefault("list", [])

    @tool("Add to that list.", {"item": {}})
    def push(self, item: Any) -> None:
        self.state.setdefault("list", []).append(item)


def test_calls_change_the_state_and_give_values() -> None:
    counter = Counter({"a": 1})
    assert counter.call("add", {"name": "a"}) == CallResult(2)
    assert counter.call("add", {"name": "b", "by": 5.0}) == CallResult(5)
    assert counter.state == {"a": 2, "b": 5}


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("add", {"name": "a", "by": 200}, "more than 100"),
        ("add", {"by": 1}, "name is missing"),
        ("add", {"name": "a", "by": "1"}, 'by must be an integer, not "1"'),
        ("add", {"name": "a", "by": True}, "by must be an integer, not true"),
        ("add", {"name": "a", "more": 1}, "more must not be there"),
        ("call", {}, 'there is no tool "call"'),
        ("__init__", {"state": {}}, 'there is no tool "__init__"'),
        ("fail", {"how": "key"}, "the tool failed (KeyError)"),
        ("fail", {"how": "nan"}, "the tool failed (ValueError)"),
        ("fail", {"how": "object"}, "the tool failed (TypeError)"),
        ("fail", {"how": "state"}, "the tool failed (KeyError)"),
    ],
)
def test_a_failed_call_changes_nothing_and_stops_nothing(name: str, arguments: dict[str, Any], error: str) -> None:
    counter = Counter({"a": 1})
    assert counter.call(name, arguments) == CallResult(error=error)
    assert counter.state == {"a": 1}
    assert counter.call("add", {"name": "a"}).value == 2


def test_the_start_state_and_arguments_and_results_are_copies() -> None:
    start: dict[str, Any] = {"list": []}
    counter, item = Counter(start), [1]
    first = counter.call("listed", {}).value
    counter.call("push", {"item": item})
    item.append(2)
    assert (start, first, counter.state) == ({"list": []}, [], {"list": [[1]]})


def test_tools_are_described_as_a_model_is_told_of_them() -> None:
    described = {declared["name"]: declared for declared in OrdersSimulator.tools()}
    assert set(described) == {"list_orders", "get_order", "cancel_order", "refund_order", "send_message"}
    assert described["refund_order"]["parameters"]["required"] == ["order"]
    assert described["refund_order"]["parameters"]["additionalProperties"] is False
    with pytest.raises(TypeError, match="parameters and properties differ: b"):

        @tool("x", {"a": {}, "b": {}})
        def wrong(self: Simulator, a: int) -> None: ...


def test_simulators_of_a_users_own(tmp_path: Path) -> None:
    source = (
        "from prefkit.verify.simulator import Simulator, tool\n"
        "class Lamp(Simulator):\n"
        "    @tool('Switch it.', {'on': {'type': 'boolean'}})\n"
        "    def switch(self, on):\n"
        "        self.state['on'] = on\n"
    )
    (tmp_path / "lamps.py").write_text(source)
    task = {"simulator": "lamps:Lamp", "state": {"on": False}, "end": {"on": True}, "folder": tmp_path}
    assert said({"name": "switch", "arguments": {"on": True}}, **task) == ("PASS", "wanted end state")
    assert said({"name": "switch", "arguments": {"on": 1}}, **task) == ("WRONG", "wrong end state: on")
    first = simulator_class("lamps:Lamp", tmp_path)
    (tmp_path / "lamps.py").write_text(source + "        self.state['count'] = 1\n")
    second = simulator_class("lamps:Lamp", tmp_path)
    assert content_of(first) != content_of(OrdersSimulator)
    assert said({"name": "switch", "arguments": {"on": True}}, **task) == ("WRONG", "wrong end state: count")
    assert second is not first
    (tmp_path / "broken.py").write_text("1/0")
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        simulator_class("broken:X", tmp_path)
    register("counters", Counter)
    assert simulator_class("counters") is Counter
    with pytest.raises(ValueError, match="counters"):
        register("counters", "other:Class")


def test_orders_are_kept_by_their_rules() -> None:
    shop = OrdersSimulator(SHOP)
    assert shop.call("list_orders", {"customer": 4}).value == [17, 18]
    assert shop.call("cancel_order", {"order": 17}).error == "order 17 is delivered and cannot be cancelled"
    assert shop.call("cancel_order", {"order": 19}).value == "order 19 is cancelled"
    assert shop.call("refund_order", {"order": 19}).error == "order 19 is cancelled and cannot be refunded"
    assert shop.call("refund_order", {"order": 18, "amount": 10.01}).error == "of order 18 10 can be refunded, not 10.01"
    assert shop.call("refund_order", {"order": 18, "amount": 3.3}).value == {"number": 1, "order": 18, "amount": 3.3}
    assert shop.call("refund_order", {"order": 18}).value == {"number": 2, "order": 18, "amount": 6.7}
    assert shop.call("get_order", {"order": 18}).value == {"customer": 4, "total": 10, "status": "refunded", "refunded": 10.0}
    assert shop.call("refund_order", {"order": 17, "amount": -1}).error == "amount must be more than 0, not -1"
    assert shop.call("refund_order", {"order": 17, "amount": 0.001}).error == "of order 17 59.9 can be refunded, not 0.0"
    assert shop.call("send_message", {"customer": 9, "text": "x"}).error == "there is no customer 9"
    assert shop.call("send_message", {"customer": 4, "text": ""}).error


# End states


def differs(start: Any, wanted: Any, end: Any, ordered: bool = False, ignore: tuple[str, ...] = ()) -> str | None:
    return state_difference(start, wanted, end, [read_path(path) for path in ignore], ordered, Budget(1_000_000, 20.0))


@pytest.mark.parametrize(
    ("start", "wanted", "end", "where"),
    [
        ({"a": 1}, {"a": 1}, {"a": 1.0}, None),
        ({"a": 1}, {"a": 1}, {"a": True}, "a"),
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 2}, None),
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 4}, "b"),
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 3}, "b"),
        ({"a": 1}, {"a": 1}, {"a": 1, "new": 1}, "new"),
        ({"a": 1}, {"a": 1, "new": 1}, {"a": 1}, "new"),
        ({"a": 1, "b": 1}, {"b": {"$absent": True}}, {"a": 1}, None),
        ({"a": 1, "b": 1}, {"b": {"$absent": True}}, {"a": 1, "b": 1}, "b"),
        ({}, {"o": {"x": 1}}, {"o": {"x": 1, "time": 5}}, None),
        ({"o": {}}, {"o": {"x": 1}}, {"o": {"x": 1, "time": 5}}, "o.time"),
        ({"o": {"k": {"v": 1}}}, {}, {"o": {"k": {"v": 2}}}, "o.k.v"),
        ({"l": []}, {"l": [{"a": 1}, {"b": 2}]}, {"l": [{"b": 2, "t": 0}, {"a": 1}]}, None),
        ({"l": []}, {"l": [{"a": 1}, {"a": 1}]}, {"l": [{"a": 1}, {"a": 2}]}, "l"),
        ({"l": []}, {"l": [{}, {"a": 1}]}, {"l": [{"a": 1}, {"a": 2}]}, None),
        ({"l": []}, {"l": [1, 2]}, {"l": [2, 1, 1]}, "l"),
        ({"l": [{"id": 1, "v": 1}]}, {"l": [{"id": 1}]}, {"l": [{"id": 1, "v": 2}]}, "l"),
        ({"l": [{"id": 1, "v": 1}]}, {"l": [{"id": 1, "v": 2}]}, {"l": [{"id": 1, "v": 2}]}, None),
        ({"l": [1]}, {}, {"l": [1]}, None),
        ({"l": [1]}, {}, {"l": [1, 2]}, "l"),
        ({"a": []}, {"a": {}}, {"a": []}, "a"),
        ({"a": None}, {"a": None}, {"a": None}, None),
        ({"a b": 1}, {"a b": 2}, {"a b": 1}, '["a b"]'),
        ([1], [2], [1], "$"),
    ],
)
def test_the_end_is_held_against_what_is_wanted_and_what_was(start: Any, wanted: Any, end: Any, where: str | None) -> None:
    assert differs(start, wanted, end) == where


def test_lists_in_order() -> None:
    assert differs({"l": []}, {"l": [1, 2]}, {"l": [2, 1]}) is None
    assert differs({"l": []}, {"l": [1, 2]}, {"l": [2, 1]}, ordered=True) == "l[0]"
    assert differs({"l": []}, {"l": [{"a": 1}, {}]}, {"l": [{"a": 1, "t": 1}, {"b": 2}]}, ordered=True) is None


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("o.*.at", None),
        ("o.k.at", None),
        ('o["k"].at', None),
        ("o.k", None),
        ("o", None),
        ("o[*].at", "o.k.at"),
        ("at", "o.k.at"),
        ("o.k.at.x", "o.k.at"),
    ],
)
def test_what_is_ignored_does_not_matter(path: str, where: str | None) -> None:
    assert differs({"o": {"k": {"v": 1}}}, {}, {"o": {"k": {"v": 1, "at": 5}}}, ignore=(path,)) == where


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 5).flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=n, max_size=n)))
def test_matching_agrees_with_trying_every_pairing(fits: list[list[bool]]) -> None:
    slow = any(all(fits[i][j] for i, j in enumerate(order)) for order in itertools.permutations(range(len(fits))))
    assert perfect_matching(fits) == slow


def test_a_large_matching_takes_little_time() -> None:
    assert perfect_matching([[j <= i for j in range(300)] for i in range(300)])
    assert not perfect_matching([[j < 150 for j in range(300)] for _ in range(300)])
    items = [{"a": i % 7, "b": i} for i in range(250)]
    assert differs({"l": []}, {"l": [{"a": i % 7} for i in range(250)]}, {"l": items[::-1]}) is None


small = st.recursive(
    st.sampled_from([None, True, 1, 2, "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(small, small)
def test_an_end_written_out_in_full_is_itself_and_nothing_else(start: Any, end: Any) -> None:
    assert differs(start, end, copy.deepcopy(end)) is None or isinstance(start, dict)
    assert differs(end, end, copy.deepcopy(end)) is None
    if isinstance(start, dict) and isinstance(end, dict):
        whole = end | {key: {"$absent": True} for key in start.keys() - end.keys()}
        if all(not isinstance(value, dict) for value in start.values()):
            assert differs(start, whole, end) is None


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "name": st.sampled_from(["refund_order", "send_message", "cancel_order", "x"]),
                "arguments": st.dictionaries(
                    st.sampled_from(["order", "amount", "customer", "text", "x"]),
                    st.sampled_from([17, 17.0, True, None, 10**300, -1, 1e300, "\ud800", [], {"a": []}, 0.001, "17"]),
                    max_size=3,
                ),
            }
        ).map(json.dumps)
        | st.text(st.characters(categories=None), max_size=40),
        max_size=4,
    ).map("\n".join)
)
def test_every_answer_gets_a_verdict(answer: str) -> None:
    judgement = judged(answer)
    assert judgement.status in SCORED
    assert judgement.status is not Status.PASS
    json.dumps([judgement.reason, judgement.feedback], ensure_ascii=False).encode("utf-8")
