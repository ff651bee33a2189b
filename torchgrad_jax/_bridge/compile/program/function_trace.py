"""One run of a compiled function on tracers, and what its result is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...._core.arrays import tree
from ...._core.arrays.meta import meta
from ...._core.arrays.python_numbers import Number
from ...._core.arrays.shapes import Size
from ...._core.errors.messages import AsWritten
from ...._core.state import MODES, next_sequence_nr
from ...._engine.entry.bind import ops
from ...._engine.graph.history import grad_fn_of, requires_grad_of
from ...._engine.memory.tensor import Tensor
from ..arguments import object_trees
from ..arguments.array_arguments import put_tensors_for_traced_arrays
from ..arguments.number_log import NumberLog, ReturnedNumber
from ..trace.kept_tensors import KeptTensors, take_kept_tensors
from ..trace.kernel_calls import Kernels
from ..trace.outside_results import ContainersFromOutside, describe_outside_result, own_constants
from ..trace.python_watch import PythonWatch
from ..trace.traced_program import TracedProgram, trace_program
from .compiled_backward import BackwardDescription, spent_graph, trace_backward
from .gradients_read import graphs_of_gradients
from .results import (
    MadeTensor,
    ResultArray,
    ResultTensor,
    is_known,
    made_inside,
    refuse_new_objects,
    result_of_memory,
    with_class,
    with_common_bases,
)


class FunctionTrace:
    """Runs a function on tracers once.

    Args:
        fn: the function.
        kept_arguments: the arguments by whose identities or values kinds of calls are told apart.
        watch: what the function reads in Python.
        given: the arguments as they were given.
    """

    def __init__(self, fn: Any, kept_arguments: list[Any], watch: PythonWatch, given: Any) -> None:
        self._fn, self._kept_arguments, self._watch = fn, kept_arguments, watch
        self._containers = ContainersFromOutside(given, watch.guards.visited_ids, watch.is_object)
        self._gradients: list[Any] = []
        self.kept_tensors: list[KeptTensors] = []
        """Where the function keeps tensors that it made: they are the last results."""
        self.backward: BackwardDescription | None = None
        """The pass from the results, where they have a graph; it was traced as well."""
        self.gradients_with_graph: dict[Any, Any] = {}
        """The leaves whose gradients have a graph afterwards, and what is left of it."""
        self.made: list[tuple[ResultTensor, MadeTensor]] = []
        """The results that are tensors, and what the function made for them."""
        self.spec: Any = None
        """How the result is put together of its leaves."""
        self.outs: list[Any] = []
        """What each leaf of the result is."""

    @property
    def n_gradients(self) -> int:
        """How many gradients of the pass from the results are the program's last results."""
        return len(self._gradients) - (0 if self.backward is None else len(self.backward.reads))

    def run(
        self, tensors: Sequence[Tensor], log: NumberLog, *, checked: bool, kernels: Kernels | None = None
    ) -> TracedProgram:
        """The steps of the function on these tensors and its effects; nothing outside changes.

        Args:
            tensors: the arguments that are tensors, each once.
            log: what is done with numbers.
            checked: whether the program checks what eager calls check.
            kernels: gets the kernels that the program is to call, if it is.
        """
        traced, (self.spec, self.outs) = trace_program(
            lambda: self._call(*log.arguments()),
            tensors,
            lambda: self._gradients,
            log,
            checked=checked,
            kernels=kernels,
        )
        return traced

    def _call(self, args: Any, kwargs: Any) -> tuple[list[Tensor], Any]:
        began = next_sequence_nr()
        leaves, out_spec = self._flattened(self._result_of(args, kwargs))
        objects = [x for x in leaves if not (x in self._containers or is_known(x))]
        refuse_new_objects(objects, self._watch.knows, MODES.run.uses, self._kept_arguments)
        kept = [] if objects else take_kept_tensors(MODES.run.uses, self._watch.guards, leaves)
        if kept:
            self.kept_tensors = kept
            leaves, out_spec = self._flattened((tree.unflatten(leaves, out_spec), [k.take() for k in kept]))
        try:
            tensors, outs = self._describe_results(leaves, began)
        except Exception as error:
            if MODES.run.uses.log.reads_arguments():
                raise
            why = f"the graph of its results raises {type(error).__name__}: {error}"
            raise AsWritten(why, lasting=True) from error
        self.gradients_with_graph = graphs_of_gradients(MODES.run.uses, began)
        self._watch.take(last=True)
        return tensors, (out_spec, outs)

    def _result_of(self, args: Any, kwargs: Any) -> Any:
        """What the function returns. Nobody else may hold it: who does is looked for."""
        result = self._fn(*args, **kwargs)
        self._watch.function_returned()
        return result

    def _flattened(self, result: Any) -> tuple[list[Any], Any]:
        one = lambda x: isinstance(x, Size) or x in self._containers  # noqa: E731 - read here alone
        object_trees.refuse_repeated(result, self._is_new_object)
        return object_trees.flatten(result, self._is_new_object, one)

    def _describe_results(self, leaves: list[Any], began: int) -> tuple[list[Tensor], list[Any]]:
        """What the program computes of the results, and what stands for each; the pass from them is traced, too.

        Where that raises, `backward()` would, or reading `grad_fn`: an eager call does not.
        """
        tensors: list[Tensor] = []
        outs: list[Any] = []
        live = []
        views: dict[int, Any] = {}
        impls = put_tensors_for_traced_arrays(leaves)
        own_constants(MODES.run.uses, leaves)
        leaves = with_common_bases(leaves)
        made = made_inside(leaves)
        for x in leaves:
            if not isinstance(x, Tensor):
                x = self._containers.description(x)
                outs.append(ReturnedNumber(x) if type(x) is Number else x)
                continue
            shared = views.get(id(x)) or describe_outside_result(MODES.run.uses, x)
            if shared is not None:
                views[id(x)] = shared
                outs.append(shared)
                continue
            fn_ = grad_fn_of(x)
            requires = requires_grad_of(x)
            m = x._m if x._m.dense else meta(x._m.shape, x._m.dtype, x._m.device)
            out = ResultTensor(len(tensors), m)
            if len(outs) in impls:
                outs.append(ResultArray(out, impls[len(outs)]))
                tensors.append(x)
                continue
            beside = result_of_memory(MODES.run.uses, out, x, made.get(len(outs)))
            if beside is not None:
                outs.append(beside)
                tensors.append(x)
                continue
            made_as = x
            if requires and fn_ is None:  # an input handed back
                x = ops.alias(x)
                fn_ = grad_fn_of(x)
            graph = spent_graph(MODES.run.uses, fn_, began) if requires else None
            if requires and graph is None:
                live.append((len(outs), x))
            out = ResultTensor(len(tensors), m, requires, graph)
            outs.append(with_class(out, made_as))
            tensors.append(x)
        self.made = [(o, MadeTensor(tensors[o.index])) for o in outs if isinstance(o, ResultTensor)]
        if live:
            before = self._watch.describe_change()
            results = [(outs[k].index, x) for k, x in live]
            self.backward, self._gradients = trace_backward(
                MODES.run.uses, results, began, [None if k in impls else x for k, x in enumerate(leaves)]
            )
            self._watch.take()
            if self._watch.describe_change() != before:
                raise AsWritten(
                    "a hook or a backward function prints, counts or keeps something when a backward pass comes from "
                    "its results",
                    lasting=True,
                )
        return tensors, outs

    def _is_new_object(self, x: Any) -> bool:
        """Whether a result is a dataclass that the function made, which is made again in each call."""
        made_of_attributes = object_trees.is_plain_object(x) or object_trees.is_object_in_python(x)
        return made_of_attributes and not self._watch.knows(x)
