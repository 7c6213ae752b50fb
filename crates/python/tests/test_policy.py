"""Policies in Python."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
import tactus_sched as ts


class RoundRobin(ts.Policy):
    """Runs the entities in turn for a quantum."""

    name = "turns"
    quantum = 10_000_000

    def start(self, cpus: int) -> None:
        self.queue: deque[int] = deque()

    def wake(self, entity: int, why: str, cx: ts.Context) -> None:
        self.queue.append(entity)
        cpu = cx.idle_cpu_for(entity)
        if cpu is not None:
            cx.kick(cpu)

    def sleep(self, entity: int, cx: ts.Context) -> None:
        self.queue.remove(entity)

    def put(self, cpu: int, entity: int, why: str, cx: ts.Context) -> None:
        if why != "blocked":
            self.queue.append(entity)

    def pick(self, cpu: int, cx: ts.Context) -> tuple[int, int] | None:
        for entity in self.queue:
            if cx.may_run(entity, cpu) and not cx.is_held(entity):
                self.queue.remove(entity)
                return entity, cx.now + self.quantum
        return None


class EarliestDeadline(RoundRobin):
    """Runs the entity whose period ends first, without limits. Equal to `edf` without enforcement on one CPU."""

    def start(self, cpus: int) -> None:
        super().start(cpus)
        self.deadlines: dict[int, int] = {}

    def attach(self, entity: int, cx: ts.Context) -> None:
        if ts.params(cx, entity).period_ns is None:
            raise ts.Refused("the entity has no period", "add slice and period")

    def wake(self, entity: int, why: str, cx: ts.Context) -> None:
        period = ts.params(cx, entity).period_ns
        assert period is not None
        self.deadlines[entity] = cx.now + period
        self.queue.append(entity)
        cx.kick(0)

    def pick(self, cpu: int, cx: ts.Context) -> tuple[int, int] | None:
        if not self.queue:
            return None
        entity = min(self.queue, key=lambda entity: (self.deadlines[entity], entity))
        self.queue.remove(entity)
        return entity, cx.now + 1_000_000_000


def scenario(root: Path) -> ts.Scenario:
    return ts.Scenario.from_file(root / "scenarios/parallel.toml")


def test_a_policy_in_python_obeys_the_laws(root: Path) -> None:
    result = ts.run(scenario(root), RoundRobin, audit=True)
    assert result.policy == "turns"
    assert result.broken_laws == []
    assert result.report["total"]["delivered_ns"] == ts.run(scenario(root), "round-robin").report["total"]["delivered_ns"]
    assert ts.run(scenario(root), RoundRobin).json() == ts.run(scenario(root), RoundRobin).json()


def test_the_rule_decides() -> None:
    # Two tasks of utilisation 0.45 and 0.5 meet their deadlines by deadline, but not in turns of 10 ms.
    tasks = [
        {"name": "short", "slice": "4500us", "period": "10ms", "workload": {"periodic": {"period": "10ms", "work": "4500us"}}},
        {"name": "long", "slice": "50ms", "period": "100ms", "workload": {"periodic": {"period": "100ms", "work": "50ms"}}},
    ]
    it = ts.Scenario.from_dict({"name": "x", "cpus": 1, "length": "2s", "task": tasks})

    def late(policy: object) -> int:
        return sum(entity["misses"] + entity["unfinished_late"] for entity in ts.run(it, policy).report["entities"])  # type: ignore[arg-type]

    assert late(EarliestDeadline) == 0
    assert late(RoundRobin) > 0


def test_a_refusal_has_reason_and_remedy() -> None:
    it = ts.Scenario.from_dict({"name": "x", "cpus": 1, "length": "1s", "task": [{"name": "hog", "workload": "hog"}]})
    with pytest.raises(ts.InputError) as raised:
        ts.run(it, EarliestDeadline)
    assert "no period" in str(raised.value) and "slice and period" in str(raised.value)


def test_an_exception_of_a_policy_is_the_cause(root: Path) -> None:
    class Broken(RoundRobin):
        def pick(self, cpu: int, cx: ts.Context) -> tuple[int, int] | None:
            raise KeyError("deadline")

    with pytest.raises(ts.PolicyError) as raised:
        ts.run(scenario(root), Broken)
    assert isinstance(raised.value.__cause__, KeyError)
    assert (raised.value.policy, raised.value.method) == ("turns", "pick")


@pytest.mark.parametrize("broken", ["twice", "unknown", "past", "hidden"])
def test_a_broken_law_ends_the_run(root: Path, broken: str, capfd: pytest.CaptureFixture[str]) -> None:
    class Broken(RoundRobin):
        def pick(self, cpu: int, cx: ts.Context) -> tuple[int, int] | None:
            picked = super().pick(cpu, cx)
            if picked is None or cx.now < 50_000_000:
                return picked
            match broken:
                case "twice":
                    return next(other for other in range(9) if cx.state(other) == "running"), cx.now + 1
                case "unknown":
                    return 99, cx.now + 1
                case "past":
                    return picked[0], cx.now
                case _:
                    cx.cut(cpu, cx.now)
                    return picked

    with pytest.raises((ts.LawError, ts.PolicyError)) as raised:
        ts.run(scenario(root), Broken)
    if isinstance(raised.value, ts.LawError):
        assert raised.value.replay == "tactus_sched.run(scenario, turns, seed=0)"
        assert "panicked" not in str(raised.value)
    assert capfd.readouterr().err == ""
    # The next run is not affected.
    assert ts.run(scenario(root), RoundRobin, audit=True).broken_laws == []


def test_a_context_ends_with_its_call(root: Path) -> None:
    kept: list[ts.Context] = []

    class Keeping(RoundRobin):
        def attach(self, entity: int, cx: ts.Context) -> None:
            kept.append(cx)

    ts.run(scenario(root), Keeping)
    with pytest.raises(RuntimeError, match="during a call"):
        kept[0].now
    with pytest.raises(TypeError):
        ts.Context()  # type: ignore[call-arg, unused-ignore]


def test_a_failure_while_a_run_is_repeated_is_raised(root: Path, tmp_path: Path) -> None:
    made = 0

    class FailsLater(RoundRobin):
        def start(self, cpus: int) -> None:
            nonlocal made
            made += 1
            if made == 2:
                raise KeyError("the second start")
            super().start(cpus)

    result = ts.run(scenario(root), FailsLater)
    with pytest.raises(ts.PolicyError):
        result.svg()
    # The next repeat succeeds.
    result.write_trace(tmp_path / "trace.txt")
    assert " run cpu=" in (tmp_path / "trace.txt").read_text()


def test_ctrl_c_under_a_policy_is_no_error_of_the_policy(root: Path) -> None:
    class Interrupted(RoundRobin):
        def pick(self, cpu: int, cx: ts.Context) -> tuple[int, int] | None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ts.run(scenario(root), Interrupted)


def test_what_is_not_a_policy_is_refused(root: Path) -> None:
    with pytest.raises(ts.InputError, match="is not a policy"):
        ts.run(scenario(root), RoundRobin())  # type: ignore[arg-type]
    tasks = ts.Scenario.from_tasks([(10_000, 1_000)], cpus=2, partitioned=True)
    with pytest.raises(ts.InputError, match="does not assign tasks"):
        ts.run(tasks, RoundRobin)
