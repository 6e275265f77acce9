"""Lazy: applying an operator makes a node; compiled graphs are optimised, planned, and run in one arena."""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from attrs import Factory, evolve, field, fields

from nnc_func.config import config
from nnc_func.engine import settings
from nnc_func.engine.allocators import Allocator, by_name
from nnc_func.engine.allocators.base import is_ours
from nnc_func.engine.allocators.portfolio import PLANNING
from nnc_func.engine.compile_stats import Stats, plannable
from nnc_func.engine.force import forced
from nnc_func.engine.interpreted import Interpreted
from nnc_func.engine.linkers.base import Linker
from nnc_func.engine.linkers.kernel_calls import link
from nnc_func.engine.orders import DEFAULT, Order, OrderProblem
from nnc_func.engine.planning.kernel_table import NO_TABLE, KernelTable
from nnc_func.engine.planning.layout_pass import relaid
from nnc_func.engine.planning.passes import PASSES, Pass, Passes
from nnc_func.engine.planning.planner import Planned, arranged, planned_smallest
from nnc_func.engine.planning.request import Request
from nnc_func.engine.planning.schedule import ListScheduler, Scheduler
from nnc_func.engine.running.program import Program
from nnc_func.engine.symbolic import SymbolicProgram
from nnc_func.errors import NncError, PlanError
from nnc_func.facets.kernels import CALL
from nnc_func.facets.places import Place
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import Variable
from nnc_func.graph.node import Value
from nnc_func.layer import Layer, evolved, forwards, layer, opens
from nnc_func.layer_protocols import DeviceSignature, GraphSignature, OperatorSignature, SymbolSignature
from nnc_func.memo import Few

if TYPE_CHECKING:
    from nnc_func.engine.joint_choice.problem import JointProblem
    from nnc_func.engine.planning.budgets import Budget
    from nnc_func.engine.planning.joint_passes import JointChoice
    from nnc_func.engine.planning.levels import FastMemory
    from nnc_func.engine.rematerialising import Strategy
    from nnc_func.engine.spilling import Policy

A = TypeVar("A")


@layer(on="graph", needs=GraphSignature)
class Lazy(Layer, Generic[A]):
    """Records, optimises, plans memory, runs.

    Raises PlanError where it is made with a setting that is of another kind than its attribute says.

    Attributes
    ----------
    allocator
        Maps lifetimes to offsets; any function from a `Problem` to offsets.
    orders
        The orders that are tried, by name or as functions from an `OrderProblem` to a sequence of its tasks; the one
        with the least simulated peak is run, or another one if that takes less memory after all.
    check_numerics
        Raise NumericsError where a kernel gives a NaN or an infinity.
    alignment
        Offsets in the arena are multiples of it, in bytes: a power of two.
    kernels
        Recorded choices of kernels; what it does not name is the device's choice. See `Program.autotune`.
    streams
        How many kernels may run at the same time, where the device can; see `with_streams`.
    scheduler
        Maps tasks to streams and an order of issue; any function from `Tasks` and a number of streams.
    budget
        What a program may take, see `with_memory_budget` and `with_time_budget`; None: as it is planned.
    joint
        Whether order, kernels, offsets and so on are chosen together, see `with_joint_choice`; None: one by one.
    fast_memory
        What it may take of the device's first place, see `with_fast_memory`; None: as it is planned.
    passes
        What makes plans, see `with_passes`.
    linker
        What makes of a plan and memory what runs, see `with_linker`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> lazy.compile(inputs=[x], outputs=[x * 2 + 1]).plan.verify()
    <plan: 1 kernels, arena 64 bytes, ratio 1.0000>
    """

    graph: GraphSignature[A]
    bind: Callable[..., Any] = forwards()  # nothing is computed
    allocator: Allocator = field(default=PLANNING, validator=settings.callable_)
    orders: tuple[Order | str, ...] = field(default=DEFAULT, validator=settings.orders)
    check_numerics: bool = False
    alignment: int = field(default=64, validator=settings.alignment)
    kernels: KernelTable = field(default=NO_TABLE, validator=settings.kernels)
    streams: int = field(default=1, validator=settings.streams)
    scheduler: Scheduler = field(default=ListScheduler(), validator=settings.callable_)
    budget: Budget | None = field(default=None, validator=settings.budget)
    fast_memory: FastMemory | None = field(default=None, validator=settings.fast_memory)
    passes: Passes = field(default=PASSES, validator=settings.passes, repr=False)
    joint: JointChoice | None = field(default=None, validator=settings.joint)
    linker: Linker = field(default=link, validator=settings.callable_, repr=False)
    operator: OperatorSignature[A] = opens("graph.optimiser.operator")
    symbol: SymbolSignature[A] = opens("graph.optimiser.operator.symbol")
    device: DeviceSignature[A] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.operator.device, takes_self=True)
    )
    programs: OrderedDict[Any, Any] = field(init=False, factory=OrderedDict, eq=False, repr=False)
    few: Few = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: Few(self.programs), takes_self=True)
    )  # of these, those that call functions of the user's
    known: dict[Any, Any] = field(init=False, factory=dict, eq=False, repr=False)
    growing: OrderedDict[Any, Any] = field(init=False, factory=OrderedDict, eq=False, repr=False)  # see `growing.step`

    role: ClassVar[Literal["engine"]] = "engine"

    def asarray(self, value: Any, dtype: Any = None, place: Place = None) -> Any:
        """A value of this engine: a constant, in a place."""
        return self.symbol.constant(value, dtype, *(() if place is None else (place,)))

    def held(self, array: Any) -> Any:
        """A value of this engine that shows a device array; not copied."""
        return self.symbol.held(array)

    def compile(self, graph: ComputationGraph, donated: Sequence[int] = ()) -> Any:
        """The graph optimised and planned: a `Program`, or an `Interpreted` one on a device without memory.

        A graph with unknown extents is optimised once and planned once for each distinct binding, at the call.
        Inputs that are `donated`, by position, may be written over.
        """
        with uncollected(self.symbol.table.walking), self.symbol.table.walking:
            start = time.perf_counter()
            optimised, report = self.graph.optimised(graph)
            between = time.perf_counter()
            if graph.symbols:
                return SymbolicProgram(self, optimised, graph, report, between - start, donated)
            return self.program(optimised, graph, report, between - start, donated=donated)

    def incremental(self, graph: ComputationGraph, retain: Any, lift: Any) -> Any:
        """As `compile`, of an `IncrementalProgram`; where `retain` is a list, `lift` makes values of its members."""
        from nnc_func.engine.incremental.compile import compiled

        return compiled(self, graph, retain, lift)

    def program(
        self,
        graph: ComputationGraph,
        source: ComputationGraph,
        report: Any,
        seconds: float,
        arenas: Any = None,
        donated: Sequence[int] = (),
    ) -> Any:
        """A graph that is optimised already, planned and bound, to run in these arenas or in its own."""
        with uncollected(self.symbol.table.walking), self.symbol.table.walking:
            return self._program(graph, source, report, seconds, arenas, donated)

    def _program(
        self,
        graph: ComputationGraph,
        source: ComputationGraph,
        report: Any,
        seconds: float,
        arenas: Any,
        donated: Sequence[int],
    ) -> Any:
        start = time.perf_counter()
        if not plannable(self.device):
            if self.budget is not None or self.fast_memory is not None:
                raise PlanError(
                    f"{self.device!r} has no memory to plan, so that no budget can be kept; compile without"
                )
            stats = Stats(source.statistics, graph.statistics, report, seconds, 0.0)
            return Interpreted(graph, source, self.device, stats, self.check_numerics)
        graph = relaid(graph, self.kernels)
        recomputation = traffic = joint = None
        request = self.request(graph, donated=donated)
        if self.joint is not None:
            from nnc_func.engine.planning.joint_plan import planned_jointly

            both = planned_jointly(request, self.joint, self.budget)
            graph, found, joint, recomputation = both.graph, both.planned, both.report, both.recomputation
        elif self.budget is not None:
            from nnc_func.engine.planning.budgets import fitted

            fit = fitted(self.budget, request)
            graph, found, recomputation = fit.graph, fit.planned, fit.recomputation
        elif self.fast_memory is not None:
            from nnc_func.engine.planning.levels import levelled

            levels = levelled(self.fast_memory, request)
            graph, found, traffic = levels.graph, levels.planned, levels.traffic
        else:
            found = planned_smallest(request)
        plan = found.plan
        if plan.streams > 1 or config.spec >= 1 or joint is not None or not self.is_ours:
            self.verify(found, graph)
        bind_calls = sum(i.kernel == CALL.name for i in plan.instructions)
        taken = time.perf_counter() - start
        stats = Stats(
            source.statistics, graph.statistics, report, seconds, taken, recomputation, bind_calls, traffic, joint
        )
        if config.debug >= 1:
            print(f"{graph.name}: {stats}, {plan!r}", file=sys.stderr)
        if config.debug >= 3:
            print(report, file=sys.stderr)
        return Program(
            plan,
            self.device,
            found.constants,
            [n.data for n in graph.variables],
            check_numerics=self.check_numerics,
            graph=graph,
            source=source,
            stats=stats,
            blocks=found.blocks,
            arenas=arenas,
            engine=self,
            linker=self.linker,
        )

    def request(self, graph: ComputationGraph, **more: Any) -> Request:
        """What is asked of the planner for a graph whose shapes are known; `more` are attributes of `Request`."""
        asked: dict[str, Any] = {"checked": self.check_numerics, "streams": self.streams, **more}
        return Request(
            graph, self.device, self.passes, self.allocator, self.orders, self.alignment,
            table=self.kernels, scheduler=self.scheduler, **asked,
        )  # fmt: skip

    def verify(self, found: Planned, graph: ComputationGraph) -> None:
        """Verify a plan; one that passes of a user's own have made is held against its graph, too.

        Raises
        ------
        PlanError
            It is not safe, or computes something else.
        """
        plan, constants = found.plan.verify(), found.constants
        if not self.passes.others():
            return
        from nnc_func.engine.verifying.graphs import check_graph

        if len(constants) != len(plan.constants):
            raise PlanError(f"{len(constants)} constants are given for the plan's {len(plan.constants)}")
        device: Any = self.device
        try:
            host = [device.to_numpy(array) for array in constants]
        except NncError:
            return  # a device without elements computes nothing
        check_graph(plan, host, graph)

    @property
    def is_ours(self) -> bool:
        """Whether all that makes plans is this library's own; others' plans are verified before they run."""
        return not self.passes.others() and is_ours(self.allocator)

    def order_problem(self, graph: ComputationGraph) -> OrderProblem:
        """What orders are asked of a graph whose shapes are known: the instructions of its program, and their buffers.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> from nnc_func import models
        >>> from nnc_func.engine.orders import lower_bound, simulated_peak
        >>> stack = nnc.lazy(nnc.Null())
        >>> problem = stack.engine.order_problem(models.get("lenet-5").make(stack, seed=None))
        >>> len(problem), simulated_peak(problem, range(len(problem))), lower_bound(problem)
        (10, 101312, 101312)
        """
        with uncollected(self.symbol.table.walking), self.symbol.table.walking:
            optimised, _ = self.graph.optimised(graph)
            found = arranged(self.request(relaid(optimised, self.kernels))).ordering
            if found is None:
                raise PlanError("no order was asked: the pass `order` is not this library's own")
            return found

    def joint_problem(self, graph: ComputationGraph, work: float = 1.1) -> JointProblem:
        """What is asked of a graph where all is chosen together: its program's instructions, their buffers and kernels.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> from nnc_func import models
        >>> from nnc_func.engine.joint_choice.search import JointSearch
        >>> stack = nnc.lazy(nnc.Null())
        >>> problem = stack.engine.joint_problem(models.get("lenet-5").make(stack, seed=None))
        >>> print(JointSearch().solved(problem))
        101312 bytes, proven, 1 steps
        """
        from nnc_func.engine.planning.joint_plan import joint_problem_of

        with uncollected(self.symbol.table.walking), self.symbol.table.walking:
            optimised, _ = self.graph.optimised(graph)
            return joint_problem_of(self.request(relaid(optimised, self.kernels)), work)

    def force(self, values: Sequence[Any]) -> list[Any]:
        """Device arrays with the values of these: computed together, and kept by their nodes.

        Raises
        ------
        UnboundError
            A value depends on an input; names it and the line where it was made.
        """
        lifted = [self.operator.lift(v) if isinstance(v, (Value, Variable)) else v for v in values]
        found = iter(forced(self, [v for v in lifted if isinstance(v, Value)]))
        return [next(found) if isinstance(v, Value) else self.device.asarray(v) for v in lifted]

    def with_allocator(self, allocator: Allocator | str) -> Lazy[A]:
        """This engine with another allocator: a function, or the name of one of `nnc_func.engine.allocators`.

        Raises
        ------
        PlanError
            There is no allocator of that name.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> nnc.lazy().engine.with_allocator("best_fit").allocator
        BestFit()
        """
        return evolved(self, allocator=by_name(allocator) if isinstance(allocator, str) else allocator)

    def with_orders(self, *orders: Order | str) -> Lazy[A]:
        """This engine with other orders to choose among: names of `nnc_func.engine.orders.ORDERS`, or functions.

        Programs take as many bytes as with the best of them by simulated peak, and no more than with the first one;
        values are the same in any order. "minimum_cut" has a budget; the other orders that search ("exact",
        "local_search", "portfolio") take seconds where graphs have thousands of nodes.

        Raises
        ------
        PlanError
            There is no order of that name, or none at all; or, where a program is compiled, a function gives no valid
            sequence.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> lazy = lazy.swap(engine=lazy.engine.with_orders("least_peak", lambda problem: range(len(problem))))
        >>> x = lazy.input("x", (2,), "float32")
        >>> lazy.compile([x], lazy.ops.exp(x @ x)).plan.order
        'least_peak'
        """
        return evolved(self, orders=orders)

    def with_kernels(self, table: KernelTable) -> Lazy[A]:
        """This engine with another table of kernels."""
        return evolved(self, kernels=table)

    def with_streams(self, streams: int, scheduler: Scheduler | None = None) -> Lazy[A]:
        """This engine with programs that run on several threads, where that is estimated to pay.

        The calling thread is one of them. While kernels run side by side BLAS has cores / streams threads for each, if
        threadpoolctl is installed (the extra `parallel`); without it, set ``OMP_NUM_THREADS`` before NumPy is loaded.
        Values are those of one stream, but for the last bits of matrix products, which depend on BLAS's threads.
        Memory is shared only among what cannot run at the same time, so that programs may take more of it. Programs
        that keep values from run to run, and runs that are observed, have one stream.

        Parameters
        ----------
        streams
            How many threads; as many as there are cores is best.
        scheduler
            See `ListScheduler`, the default.

        Raises
        ------
        PlanError
            Less than one stream, or no number of them.

        Examples
        --------
        >>> import numpy as np
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> lazy = lazy.swap(engine=lazy.engine.with_streams(2))
        >>> x = lazy.input("x", (1 << 20,), "float32")
        >>> program = lazy.compile([x], [lazy.ops.exp(x), lazy.ops.sin(x)])
        >>> sorted(i.stream for i in program.plan.instructions)
        [0, 1]
        >>> [round(float(y[0]), 4) for y in program(np.ones(1 << 20, "float32"))]
        [2.7183, 0.8415]
        """
        return evolved(self, streams=streams, scheduler=self.scheduler if scheduler is None else scheduler)

    def with_passes(self, **passes: Pass) -> Lazy[A]:
        """This engine with other passes, by name: functions from a `Draft` that they may change to the next.

        The names are the attributes of `nnc_func.engine.planning.passes.Passes`, where this library's own stand on one
        page. A plan that others have made is verified before it runs.

        Raises
        ------
        PlanError
            There is no pass of that name, or what is given for it is no function.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> apart = lazy.swap(engine=lazy.engine.with_passes(lend=lambda draft: draft))
        >>> x = apart.input("x", (2,), "float32")
        >>> apart.compile([x], x * 2 + 1).plan.kernels
        1
        """
        unknown = sorted(passes.keys() - {each.name for each in fields(Passes)})
        if unknown:
            names = ", ".join(each.name for each in fields(Passes))
            raise PlanError(f"there is no pass {', '.join(unknown)}; there are {names}")
        return evolved(self, passes=evolve(self.passes, **passes))

    def with_linker(self, linker: Linker) -> Lazy[A]:
        """This engine with another linker: a function that makes of a plan and memory what runs.

        Programs of any kind run by it: with variables, with unknown extents, those that keep values from run to run,
        and those that are read from files. See `nnc_func.engine.linkers.base.Executable` for what it returns.

        Parameters
        ----------
        linker
            Is given the plan, the device, the arrays of the plan's constants, and its arenas: by place a run of bytes.

        Raises
        ------
        PlanError
            It is no function; at the first call or `prepare`: it returned no executable.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> from nnc_func.engine.linkers.kernel_calls import link
        >>> linked = []
        >>> def noting(plan, device, constants, memory):
        ...     linked.append([i.op.name for i in plan.instructions])
        ...     return link(plan, device, constants, memory)
        >>> lazy = nnc.lazy()
        >>> lazy = lazy.swap(engine=lazy.engine.with_linker(noting))
        >>> x = lazy.input("x", (2,), "float64")
        >>> lazy.compile([x], x + 1)([1.0, 2.0])
        array([2., 3.])
        >>> linked
        [['add']]
        """
        return evolved(self, linker=linker)

    def with_memory_budget(self, nbytes: int | str | None, strategy: Strategy | str = "greedy") -> Lazy[A]:
        """This engine with programs that take so much memory: values are computed again where they would take more.

        What counts are a run's arenas and fresh results; inputs, variables and constants are there before. Kernels
        with less scratch are taken first, which may round otherwise; what is computed again, random numbers too, is the
        same to the bit.

        Parameters
        ----------
        nbytes
            Bytes, or a number with a unit: ``"500MB"`` (10⁶), ``"1.5 GiB"`` (2³⁰). None: no budget.
        strategy
            What is computed again: a name of `nnc_func.engine.rematerialising.STRATEGIES`, or any function like them.

        Raises
        ------
        PlanError
            That is no number of bytes, or there is no such strategy. Compiling: the budget is below the least that any
            of the strategies found; says that, whose it is, and what is proven.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> small = lazy.swap(engine=lazy.engine.with_memory_budget("48 KiB"))
        >>> x = small.input("x", (1000,), "float64")
        >>> layers = [x]
        >>> for _ in range(12):
        ...     layers.append(small.ops.sort(layers[-1] * 0.5))
        >>> total = sum(small.ops.sum(layer * layers[-1]) for layer in reversed(layers[:-1]))
        >>> print(small.compile([x], total).stats.recomputation)
        46.9 KiB instead of 93.8 KiB: 12 of 71 computed again, 40.9% more arithmetic
        """
        from nnc_func.engine.planning.budgets import Budget, as_bytes

        return evolved(self, budget=None if nbytes is None else Budget(as_bytes(nbytes), None, strategy))

    def with_time_budget(self, factor: float | None, strategy: Strategy | str = "greedy") -> Lazy[A]:
        """This engine with programs that take as little memory as computing values again gives within that time.

        Parameters
        ----------
        factor
            How many times longer a run may take, as estimated from arithmetic and bytes: 1.2. None: no budget.
        strategy
            As of `with_memory_budget`.

        Raises
        ------
        PlanError
            The factor is below 1, or there is no such strategy.
        """
        from nnc_func.engine.planning.budgets import Budget

        return evolved(self, budget=None if factor is None else Budget(None, factor, strategy))

    def with_joint_choice(self, work: float = 1.1, *, steps: int = 4_000, seed: int = 0) -> Lazy[A]:
        """This engine with programs whose order, kernels, aliases, offsets and recomputation are chosen together.

        What is as small as it can be is the arena. Graphs of up to 60 instructions are searched exactly, larger ones
        from the chain of separate choices on; a program takes no more memory than by that chain, nor than
        `with_time_budget` finds in as much time. What was found is told beside both, in `stats.joint`. Kernels with
        less scratch may round otherwise; all else is the same to the bit. It takes seconds where graphs have hundreds
        of nodes, and a minute where they have thousands. The plan is verified.

        Parameters
        ----------
        work
            How many times longer a run may take, as estimated, than with the kernels that are chosen by themselves.
        steps
            Of each search: states, placements and orders that are looked at.
        seed
            Of what searches draw.

        Raises
        ------
        PlanError
            The numbers are no such; passes of a user's own stand in the places that it takes.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> from nnc_func import models
        >>> stack = nnc.lazy(nnc.Null())
        >>> stack = stack.swap(engine=stack.engine.with_joint_choice(steps=1_000))
        >>> program = stack.engine.compile(models.get("lenet-5").training(stack, seed=None))
        >>> print(program.stats.joint)  # doctest: +NORMALIZE_WHITESPACE
        chain 379 KiB, in as much time 379 KiB, joint 254 KiB, proven, 65 steps:
        0 computed again, 1 other kernels, 1.008 of the time
        """
        from nnc_func.engine.planning.joint_passes import JointChoice

        return evolved(self, joint=JointChoice(work, steps, seed))

    def with_fast_memory(
        self, nbytes: int | str | None, slow: str | None = None, policy: Policy | str = "cover"
    ) -> Lazy[A]:
        """This engine with programs that take so much of the device's first place, and move values to another one.

        What counts are a run's arena in the first place, scratch of kernels included, and fresh results there; inputs,
        variables and constants are there before. A value leaves between two uses, by the operator `transfer`, and
        comes back by another one; it is written to slow memory once. What the graph itself brings from slow memory is
        dropped, and brought again. Kernels and values are those of the program without, to the bit, unless only kernels
        with less scratch do.

        Parameters
        ----------
        nbytes
            Bytes, or a number with a unit: ``"500MB"`` (10⁶), ``"1.5 GiB"`` (2³⁰). None: as much as there is.
        slow
            The place to which values are moved; None: the device's second one.
        policy
            What is moved when: a name of `nnc_func.engine.spilling.POLICIES`, or any function like them.

        Raises
        ------
        PlanError
            That is no number of bytes, or there is no such policy, or there is a memory budget, too. Compiling: the
            device has one place, or the capacity is below the least that was found; says that, and which instruction
            needs it.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy(nnc.Places(fast=nnc.NumPy(), slow=nnc.NumPy()))
        >>> small = lazy.swap(engine=lazy.engine.with_fast_memory("48 KiB"))
        >>> x = small.input("x", (1000,), "float64")
        >>> layers = [x]
        >>> for _ in range(12):
        ...     layers.append(small.ops.sort(layers[-1] * 0.5))
        >>> total = sum(small.ops.sum(layer * layers[-1]) for layer in reversed(layers[:-1]))
        >>> told = small.compile([x], total).stats.traffic
        >>> told.fast_bytes, told.without, told.moved
        (48072, 96072, 96000)
        """
        from nnc_func.engine.planning.budgets import as_bytes
        from nnc_func.engine.planning.levels import FastMemory

        return evolved(self, fast_memory=None if nbytes is None else FastMemory(as_bytes(nbytes), slow, policy))

    def checking_numerics(self, on: bool = True) -> Lazy[A]:
        """This engine with a check of every kernel's results for NaN and infinity."""
        return evolved(self, check_numerics=on)
