"""A plan becomes a program without its graph: it is verified, given constants and variables, bound to a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnc_func.device.shared.bind_kernels import BindKernels, kernel_device
from nnc_func.device.shared.narrow_emulation import kernel_named
from nnc_func.engine.compile_stats import plannable
from nnc_func.engine.copying import COPY, FILL
from nnc_func.engine.linkers.kernel_calls import linker_of
from nnc_func.engine.plan import Plan
from nnc_func.engine.running.program import Program
from nnc_func.errors import DeviceError, DTypeError, NncError, PlaceError, PlanError, ShapeError
from nnc_func.facets.kernels import CALL, Kernel
from nnc_func.facets.places import ADVICE, Place, settled
from nnc_func.graph.leaves import Variable, brought, owned
from nnc_func.graph.origin import describe
from nnc_func.layer import chain


def bound(
    plan: Plan,
    device: Any,
    constants: Sequence[Any] = (),
    variables: Sequence[Any] | Mapping[str, Any] = (),
    check_numerics: bool = False,
    admit: Callable[[Plan], None] | None = None,
    **knowledge: Any,
) -> Program:
    """A program of a plan, which is verified first; whoever made it is not believed.

    Parameters
    ----------
    plan
        Instructions, buffers, offsets.
    device
        Has memory, and the kernels that the plan names.
    constants
        Their arrays, in the plan's order.
    variables
        By name, or in the plan's order: `Variable` objects, or values, of which new variables are made.
    admit
        Called with the plan once it is verified, and before any memory is made for it: raises where it takes too much.
    knowledge
        What else is known: `graph`, `source`, `stats`, `blocks`, `arenas`, `linker`, and the `engine` that tunes it.

    Raises
    ------
    PlanError
        The plan contradicts itself, or another number of constants or variables is given.
    ShapeError, DTypeError
        A constant or variable of another shape or dtype than the plan's.
    DeviceError
        The device has no memory to plan in, or has not a kernel that the plan names.
    PlaceError
        The device has not a place that the plan names.
    """
    if not isinstance(plan, Plan):
        raise PlanError(f"a plan is wanted, Plan.parse(text) or program.plan, given {type(plan).__name__}")
    device = kernel_device(device)
    if not plannable(device):
        raise DeviceError(f"{device!r} has no memory to plan in, so a plan cannot run there")
    _verify(plan, device)
    if admit is not None:
        admit(plan)
    if check_numerics and plan.commit < len(plan.instructions):
        raise PlanError(
            f"the plan {plan.name!r} writes variables in place from instruction {plan.commit} on, where a check of its "
            "numbers could fail half-way: run it without check_numerics, or plan its graph with it"
        )
    check_kernels(plan, device)
    if len(constants) != len(plan.constants):
        raise PlanError(f"the plan {plan.name!r} has {len(plan.constants)} constants, given {len(constants)}")
    arrays = [
        fitting(device, plan, slot, array, f"constant {at}")
        for at, (slot, array) in enumerate(zip(plan.constants, constants, strict=True))
    ]
    made = [
        _variable(device, plan, slot, given, name)
        for slot, (name, given) in zip(plan.variables, _named(plan, variables), strict=True)
    ]
    program = Program(plan, device, arrays, made, check_numerics=check_numerics, **knowledge)
    program.prepare()
    return program


def _verify(plan: Plan, device: Any) -> None:
    """Verify it; of one that was made for another machine, say so where it is refused."""
    try:
        plan.verify()
    except PlanError as error:
        if not plan.machine or plan.machine == (here := setting_of(device)):
            raise
        raise PlanError(
            f"the plan {plan.name!r} was made for {plan.machine}, and {device!r} has {here or 'no such library'}: "
            f"compile its graph here ({error})"
        ) from None


def setting_of(device: Any) -> str:
    """What plans with kernels of a library depend on, on this device; empty where it has none."""
    return str(getattr(device, "library_setting", ""))


def on_stack(
    stack: Any, plan: Plan, constants: Sequence[Any] = (), variables: Sequence[Any] | Mapping[str, Any] = ()
) -> Program:
    """A program of a plan on the device of a stack: nothing is optimised or planned.

    Parameters
    ----------
    plan
        Of another program, or read from text: ``Plan.parse(text, stack)``.
    constants
        Tensors, arrays or numbers, in the plan's order.
    variables
        By name, or in the plan's order: tensors made by `variable`, or values for new ones.

    Raises
    ------
    PlanError, ShapeError, DTypeError, DeviceError
        As `bound`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> plan = Plan.parse('''plan "counted"
    ... @0 = output 0
    ... %0 = input "x" : float64[2]
    ... %1 = variable "w" : float64[2]
    ... %2 = add(%0, %1) : in @0
    ... commit
    ... %3 = add(%1, %0) : in @2
    ... update "w" <- %3
    ... return %2''', stack)
    >>> program = stack.program(plan, variables={"w": [0.0, 1.0]})
    >>> program([1.0, 1.0]), program([1.0, 1.0])
    (array([1., 2.]), array([2., 3.]))
    """

    def bindable(value: Any) -> Any:
        carrier = stack.carrier(value)
        return carrier if isinstance(carrier, Variable) else stack.concrete(value)

    if isinstance(variables, Mapping):
        variables = {name: bindable(v) for name, v in variables.items()}
    else:
        variables = [bindable(v) for v in variables]
    engine = next((e for e in chain(stack.top) if e.role == "engine"), None)
    check, linker = getattr(engine, "check_numerics", False), linker_of(engine)
    return bound(plan, stack.device, [bindable(c) for c in constants], variables, check, linker=linker)


def check_kernels(plan: Plan, device: Any) -> None:
    """Raise DeviceError where a kernel does not run on the array namespace of its place, or there is no such place.

    Nor does a plan whose kernels are calls of a layer's `bind` run where there is none, or the other way round.
    """
    calls = [i.kernel == CALL.name for i in plan.instructions if i.op not in (COPY, FILL)]
    wants = isinstance(device, BindKernels)
    if (wants and not all(calls)) or (any(calls) and not getattr(device, "asks_bind", False)):
        which = "without a layer whose `bind` computes" if wants else "whose layer's `bind` computes"
        raise DeviceError(f"the plan {plan.name!r} is of a device {which}, unlike {device!r}: compile the graph here")
    places = [s.aval.place for s in plan.slots]
    has = {place: _kernels_on(device, place) for place in set(places)}
    applied = {(i.op, i.kernel, places[i.results[0]]) for i in plan.instructions if not i.view}
    missing = {
        (op, name, place): [kernel.library] if kernel.library else sorted(kernel.namespaces or ())
        for op, name, place in applied
        if (kernel := kernel_named(op, name)) is not None and not _runs(kernel, *has[place])
    }
    for t, i in enumerate(plan.instructions) if missing else ():
        runs_on = None if i.view else missing.get((i.op, i.kernel, places[i.results[0]]))
        if runs_on is not None:
            where = describe(i.origin)
            raise DeviceError(
                f"instruction {t} ({i.op.name}{f' at {where}' if where else ''}) wants the kernel {i.kernel!r}, which "
                f"{device!r} has not: it runs on {', '.join(runs_on)}; plan the graph for this device"
            )


def _runs(kernel: Kernel, namespace: str | None, libraries: frozenset[str]) -> bool:
    if kernel.library is not None and kernel.library not in libraries:
        return False
    return kernel.namespaces is None or namespace in kernel.namespaces


def _kernels_on(device: Any, place: Place) -> tuple[str | None, frozenset[str]]:
    """What the arrays of a place are of, as kernels name it, and the libraries that are there beside."""
    places = getattr(device, "places", ())
    there = device.at(place) if places else device
    settled(place, places)
    name = next((n for d in chain(there) if (n := getattr(d, "like", None) or getattr(d, "name", None))), None)
    return name, getattr(there, "libraries", frozenset())


def fitting(device: Any, plan: Plan, slot: int, value: Any, what: str) -> Any:
    """The value as an array of the device, of the slot's shape and dtype."""
    aval = plan.slots[slot].aval
    array = brought(device, value, place=aval.place)
    found = device.aval(array)
    if found.shape != aval.shape:
        raise ShapeError(f"{what} of the plan {plan.name!r} is {aval!r}, given {found!r}")
    if found.place != aval.place:
        raise PlaceError(f"{what} of the plan {plan.name!r} is {aval!r}, given {found!r}; {ADVICE}")
    if found.dtype != aval.dtype:
        if not isinstance(value, (bool, int, float, list, tuple)):
            raise DTypeError(f"{what} of the plan {plan.name!r} is {aval!r}, given {found!r}; cast it first")
        array = brought(device, value, aval.dtype, aval.place)  # Python's numbers have no dtype of their own
    return array


def _named(plan: Plan, given: Sequence[Any] | Mapping[str, Any]) -> list[tuple[str, Any]]:
    names = plan.variable_names or tuple(str(n) for n in range(len(plan.variables)))
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise PlanError(f"the plan {plan.name!r} has the variables {[*names]}, given {[*given]}")
        return [(name, given[name]) for name in names]
    if len(given) != len(names):
        raise PlanError(f"the plan {plan.name!r} has {len(names)} variables {[*names]}, given {len(given)}")
    return list(zip(names, given, strict=True))


def _variable(device: Any, plan: Plan, slot: int, given: Any, name: str) -> Variable:
    aval = plan.slots[slot].aval
    if isinstance(given, Variable):
        if given.aval != aval:
            raise ShapeError(f"variable {name!r} of the plan {plan.name!r} is {aval!r}, given {given!r}")
        return given
    try:
        array = owned(device, fitting(device, plan, slot, given, f"variable {name!r}"))
    except NncError:
        raise
    except (MemoryError, ValueError, TypeError) as error:
        raise PlanError(f"variable {name!r} of the plan {plan.name!r}: {error}") from None
    return Variable(name, array, aval, device)
