from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, final

from .pictures import Svg
from .policy import Policy
from .tables import ArrowTable

__all__ = [
    "Context",
    "FINGERPRINT",
    "LabCell",
    "LabSuite",
    "Result",
    "Scenario",
    "Store",
    "__version__",
    "_panic",
    "check",
    "comparison_json",
    "comparison_svg",
    "comparison_table",
    "distribution_svg",
    "policies",
    "run",
]

__version__: str
FINGERPRINT: str
"""Hash of all sources that determine the results of runs. Results of equal fingerprints are equal."""

@final
class Scenario:
    """Machines, their VMs and tasks, and a length. Immutable, hashable, and picklable with all files that it names."""

    def __new__(
        cls, text: str, name: str = "scenario.toml", files: Mapping[str, bytes] | None = None
    ) -> Scenario:
        """Read a scenario from TOML (``docs/scenarios.md``), or from XML of SimSo 0.8.5.

        ``files`` has the contents of files to which the scenario refers, by path. Other files are read from the disk,
        relative to the directory of ``name``. Raises :class:`InputError`.
        """

    @staticmethod
    def from_file(path: str | PathLike[str]) -> Scenario:
        """Read the scenario in the file at ``path``: TOML, or XML of SimSo (``docs/python.md``).

        Raises :class:`InputError`.
        """

    @staticmethod
    def from_dict(
        values: Mapping[str, Any], *, name: str = "scenario.toml", files: Mapping[str, bytes] | None = None
    ) -> Scenario:
        """Convert a dict with the keys of a scenario's TOML. Raises :class:`InputError`."""

    @staticmethod
    def from_rtapp(
        source: str | PathLike[str] | Mapping[str, Any],
        *,
        cpus: int = 1,
        length: str = "10s",
        policy: str | None = None,
    ) -> Scenario:
        """Convert a JSON file of rt-app, or a dict with its content, on ``cpus`` CPUs. Raises :class:`InputError`."""

    @staticmethod
    def from_tasks(
        tasks: str | PathLike[str] | Sequence[tuple[int, int]],
        *,
        cpus: int = 1,
        length: str = "1s",
        partitioned: bool = False,
    ) -> Scenario:
        """Make the scenario of a set of periodic tasks.

        ``tasks`` is a CSV file with the columns ``id``, ``period_us`` and ``wcet_us``, or a list of pairs: period and
        execution time in microseconds. With ``partitioned``, the policy assigns each task to one CPU. Raises
        :class:`InputError`.
        """

    @staticmethod
    def _from_csv(csv: str, cpus: int, length_ns: int, partitioned: bool, name: str) -> Scenario: ...
    def set(self, path: str, value: object) -> Scenario:
        """Return a copy in which the key at ``path`` has ``value``, both as in ``tactus sim --vary``."""

    @property
    def text(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def files(self) -> dict[str, bytes]: ...
    @property
    def title(self) -> str: ...
    @property
    def cpus(self) -> int: ...
    @property
    def hosts(self) -> int: ...
    @property
    def length_ns(self) -> int: ...
    @property
    def warm_up_ns(self) -> int: ...
    @property
    def seed(self) -> int | None: ...
    @property
    def policy(self) -> str | None: ...
    @property
    def names(self) -> list[str]: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Result:
    """The result of a run. Times are in nanoseconds of simulated time."""

    def _samples(self, measure: str) -> dict[str, list[float]]: ...
    def _metrics(self, expressions: Mapping[str, str]) -> str: ...
    def json(self) -> str:
        """Return the report as JSON, byte for byte as ``tactus sim --json`` prints it."""

    @property
    def report(self) -> dict[str, Any]:
        """The report (``docs/report.md``)."""

    @property
    def policy(self) -> str: ...
    @property
    def seed(self) -> int: ...
    def _repr_html_(self) -> str: ...
    @property
    def elapsed(self) -> float:
        """Duration of the run in seconds of real time."""

    @property
    def replay(self) -> str:
        """Command that repeats the run, or an expression in Python if the command cannot."""

    @property
    def scenario(self) -> Scenario: ...
    @property
    def broken_laws(self) -> list[str] | None:
        """Findings of the auditor; ``None`` without ``audit=True``."""

    @property
    def trace(self) -> ArrowTable:
        """All events, with the columns ``time_ns``, ``machine``, ``event``, ``cpu``, ``entity`` and ``value``.

        ``value`` is the end of a time slice for ``run`` and ``extend``, an instant for ``release`` (the deadline) and
        ``set_alarm``, a duration for ``ran``, ``thaw``, ``woke``, ``irq``, ``period`` and ``other``, a number of bytes for
        ``sent``, ``arrived`` and ``lost``, a number for ``skipped``, and the bits of the reasons for ``held``.
        """

    @property
    def jobs(self) -> ArrowTable:
        """All jobs: ``entity``, ``release_ns``, ``deadline_ns``, ``start_ns``, ``completion_ns`` and ``response_ns``."""

    @property
    def sched_switch(self) -> ArrowTable:
        """Context switches of the first host, with the columns of LISA."""

    @property
    def sched_wakeup(self) -> ArrowTable:
        """Wake-ups on the first host, with the columns of LISA."""

    def svg(self, from_ns: int = 0, to_ns: int | None = None, width: int = 1100) -> Svg:
        """Draw the schedule from ``from_ns`` to ``to_ns``, by default its first tenth, as an SVG document.

        The run is repeated up to ``to_ns``.
        """

    def write_trace(self, path: str | PathLike[str]) -> None:
        """Write all events as ``tactus sim --trace`` does.

        The extension selects the format: text (``.txt``), Perfetto (``.pftrace``) or chrome://tracing (``.json``).
        Repeats the run. Raises :class:`InputError` for another extension, and ``OSError`` if the file cannot be written.
        """

    def write_ftrace(self, path: str | PathLike[str]) -> None:
        """Write the trace of the first host in ftrace's text format, which LISA and TRAPpy read. Repeats the run."""

@final
class Context:
    """The machine during a call of a :class:`~tactus_sched.policy.Policy`. Times are in nanoseconds."""

    @property
    def now(self) -> int:
        """Current instant."""

    @property
    def here(self) -> int:
        """CPU to which the current call relates."""

    @property
    def cpus(self) -> int:
        """Number of CPUs."""

    def _params(self, entity: int) -> tuple[int, int | None, int | None, int | None, int | None, int]: ...
    def state(self, entity: int) -> str:
        """Return ``"blocked"``, ``"waiting"`` or ``"running"``."""

    def is_waiting(self, entity: int) -> bool:
        """Return whether ``entity`` waits for a CPU and is not held."""

    def is_held(self, entity: int) -> bool:
        """Return whether ``entity`` is held."""

    def last_cpu(self, entity: int) -> int:
        """Return the CPU on which ``entity`` runs or last ran."""

    def may_run(self, entity: int, cpu: int) -> bool:
        """Return whether ``entity`` may run on ``cpu``."""

    def running(self, cpu: int) -> int | None:
        """Return the entity that runs on ``cpu``."""

    def is_kicked(self, cpu: int) -> bool:
        """Return whether ``cpu`` will pick without a further kick."""

    def idle_cpu_for(self, entity: int) -> int | None:
        """Return an idle CPU for ``entity``, its last CPU if possible."""

    def take_ran(self, cpu: int) -> tuple[int, int] | None:
        """Take the uncharged running time of the entity on ``cpu``: the entity and the time."""

    def kick(self, cpu: int) -> None:
        """Make ``cpu`` pick again soon."""

    def cut(self, cpu: int, until: int) -> None:
        """Shorten the time slice of the entity on ``cpu`` to ``until``, later than now."""

    def hold(self, entity: int, reason: str = "throttled") -> None:
        """Hold ``entity``: ``"throttled"``, ``"parked"``, ``"depleted"`` or ``"co-stopped"``."""

    def release(self, entity: int, reason: str = "throttled") -> None:
        """End a hold for this reason."""

    def confine(self, entity: int, cpus: list[int] | None = None) -> None:
        """Confine ``entity`` to these CPUs, within its affinity; ``None`` removes the confinement."""

    def set_alarm(self, owner: str, index: int, at: int, *, on: int | None = None, slot: int = 0) -> None:
        """Call :meth:`Policy.alarm` at ``at``, later than now, on CPU ``on``.

        ``owner`` is ``"policy"``, ``"cpu"`` or ``"entity"``, and ``index`` its number. Each owner has the slots 0 to 3.
        """

    def clear_alarm(self, owner: str, index: int, *, slot: int = 0) -> None:
        """Clear an alarm, which need not be set."""

def run(
    scenario: Scenario,
    policy: str | Callable[[], Policy] | None = None,
    *,
    knobs: list[str] = ...,
    guest_policy: str | None = None,
    guest_knobs: list[str] = ...,
    seed: int | None = None,
    trace: bool = False,
    switches: bool = False,
    jobs: bool = False,
    audit: bool = False,
    progress: Callable[[int, int], Any] | None = None,
) -> Result: ...
def _panic(replay: str) -> None: ...
def check(
    scenario: Scenario, policy: str | Callable[[], Policy] | None, knobs: list[str]
) -> None:
    """Raise :class:`InputError` if ``scenario`` cannot be run under ``policy`` with ``knobs``."""

def comparison_json(results: list[Result]) -> str: ...
def comparison_table(results: list[Result]) -> str: ...
def comparison_svg(
    results: list[Result], from_ns: int = 0, to_ns: int | None = None, width: int = 1100
) -> str: ...
def distribution_svg(title: str, about: str, measure: str, samples: list[tuple[str, list[float]]]) -> str: ...
def policies() -> str: ...

@final
class LabCell:
    """One run of an experiment of a paper, at one point with one seed. Picklable."""

    def __new__(cls, experiment: str, extent: str, point: str, seed: int) -> LabCell: ...
    @property
    def experiment(self) -> str: ...
    @property
    def point(self) -> str:
        """The point as JSON."""

    @property
    def seed(self) -> int: ...
    @property
    def length_ns(self) -> int: ...
    def play(self, goes_on: Callable[[int, int], Any] | None = None) -> str:
        """Run the cell and return its measurements as JSON. Releases the GIL."""

@final
class Store:
    """The finished runs in a directory, in the format of ``tactus lab run``."""

    def __new__(cls, directory: str | PathLike[str]) -> Store: ...
    def get(self, inputs: str) -> str | None:
        """Return the measurements of the run with these inputs as JSON."""

    def put(self, inputs: str, measured: str) -> None:
        """Store the measurements of the run with these inputs, a JSON object."""

@final
class LabSuite:
    """A selection of experiments of the papers in a directory."""

    def __new__(
        cls,
        papers: str | PathLike[str],
        claims: list[str] = ...,
        extent: str = "usual",
        seeds: int | None = None,
    ) -> LabSuite: ...
    @property
    def size(self) -> int:
        """Number of all runs."""

    def cells(self, store: Store) -> list[LabCell]:
        """Return the runs that are not in ``store``, the longest run first."""

    def put(self, store: Store, cell: LabCell, json: str) -> None:
        """Store the measurements of ``cell``."""

    def figures(self, store: Store) -> dict[str, str]:
        """Return the figures of the selected experiments whose runs are in ``store``: SVG documents by name."""

    def verdicts(self, store: Store) -> str:
        """Return the verdicts on the selected claims as JSON. All runs must be in ``store``."""
