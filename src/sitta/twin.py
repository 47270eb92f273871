"""A structural twin of the user's model: a new module tree on the same tensors.

The twin is what an adapter runs. The user's model is only ever read, so there is nothing to reset.
A twin carries the state of the pass that is under way, so one thread uses it at a time: ``Twins``
lends them out.
"""

from __future__ import annotations

import copy
import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sitta import memory
from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.fast import Quick
from sitta.slots import Slots
from sitta.statistics import MixedNorm, Mixing, Pool, divergence, mix_norm, precise
from sitta.tape import Tape

Output = str | int | Callable[[Any], Tensor] | None
WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def unwrap(model: nn.Module) -> nn.Module:
    """The network inside DataParallel, DistributedDataParallel or ``torch.compile``.

    Example:
        >>> net = nn.Conv2d(1, 1, 1)
        >>> unwrap(nn.DataParallel(net)) is net
        True
    """
    while True:
        inner = model.module if isinstance(model, WRAPPERS) else getattr(model, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def twin(model: nn.Module, mixing: Mixing) -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
    """A copy of the module tree that shares every parameter and all statistics with ``model``.

    Its BatchNorms mix by ``mixing``; it is in evaluation mode; other buffers are its own.

    Args:
        model: Any network, wrapped or not. It is not changed.
        mixing: What the BatchNorms of the twin ask for their statistics.

    Returns:
        The twin, without the wrapper, and its own buffers, each with the model's.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
        >>> other, _ = twin(net, Mixing())
        >>> other[0].weight is net[0].weight, type(other[1]).__name__
        (True, 'MixedBatchNorm2d')
    """
    root = unwrap(model)
    _require_copyable(root)
    memo = _memo(root)
    try:
        with torch.inference_mode(False):
            other: nn.Module = copy.deepcopy(root, memo)
    except (TypeError, RuntimeError) as error:
        raise UnsupportedModel(
            f"The structure of {type(root).__name__} cannot be copied ({error}).",
            fix="keep locks, files, handles and computed tensors out of the module's attributes",
        ) from error
    for parent in list(other.modules()):
        for name, child in list(parent.named_children()):
            setattr(parent, name, unwrap(child))
    for name, module in other.named_modules():
        module.training = False  # not .eval(): a model may rewrite its weights in there
        if isinstance(module, _BatchNorm):
            mix_norm(module, mixing, name)
    pairs = [(memo[id(b)], b) for b in root.buffers() if memo.get(id(b), b) is not b]
    return other, pairs


def _require_copyable(root: nn.Module) -> None:
    """Refuse what would lead the twin's forward pass back into the user's own layers."""
    if isinstance(root, torch.jit.ScriptModule):
        raise UnsupportedModel(
            "The model is TorchScript, whose layers cannot be exchanged.",
            fix="give the eager nn.Module it was made from",
        )
    own = set(root.modules())
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, FunctionType) and own & _modules_in(value):
                raise UnsupportedModel(
                    f"'{name}' of module '{path}' is a function that refers to the model itself, "
                    "so a copy of the model would still run the original layers.",
                    fix="make it a method of the module's class",
                )


def _modules_in(function: FunctionType) -> set[nn.Module]:
    """Modules that a function refers to by a variable from outside."""
    found = inspect.getclosurevars(function)
    values = [*found.nonlocals.values(), *found.globals.values()]
    return {v for v in values if isinstance(v, nn.Module)}


def _memo(root: nn.Module) -> dict[int, Any]:
    """What deepcopy shall not copy: parameters and running statistics (computed tensors: once)."""
    shared: dict[int, Any] = {id(t): t for t in chain(root.parameters(), _running(root))}
    for module in root.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor) and not value.is_leaf:
                shared[id(value)] = value.detach().clone()
    for buffer in root.buffers():
        if id(buffer) not in shared:
            with torch.inference_mode(False):  # whatever mode the caller is in
                shared[id(buffer)] = buffer.detach().clone()
    return shared


def _running(root: nn.Module) -> Iterator[Tensor]:
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            yield from (t for t in (module.running_mean, module.running_var) if t is not None)


class Twin:
    """One twin and the passes it can make."""

    def __init__(self, model: nn.Module, output: Output = None) -> None:
        self._model, self._output = model, output
        memory.keep_freed()
        self._mixing = Mixing()
        self.module, self._private = twin(model, self._mixing)
        self._quick, self._slots = Quick(self.module), Slots(self.module)
        self._channels_last = True  # until the model refuses it
        norms = [m for m in self.module.modules() if isinstance(m, MixedNorm)]
        self._features = sum(m.num_features for m in norms)
        self._mixes = any(m.running_mean is not None for m in norms)
        self._tensors = tuple(chain(model.parameters(), model.buffers()))

    @property
    def notes(self) -> set[str]:
        """What the layers had to say about the passes since the last refresh."""
        return self._mixing.notes

    @property
    def distance(self) -> Tensor | None:
        """How far the images of the last pass are from the source's statistics, ``(N,)``."""
        return self._mixing.distance()

    def distance_of(self, tape: Tape) -> Tensor | None:
        """How far the statistics on a tape are from the source's, ``(N,)``."""
        found = []
        for label, mean, var in tape:
            layer = self.module.get_submodule(label)
            assert isinstance(layer, MixedNorm)  # noqa: S101
            source = layer.running_mean, layer.running_var
            if source[0] is not None and source[1] is not None:
                found.append(divergence(mean, var, source[0], source[1], layer.eps))
        return torch.stack(found).mean(dim=0) if found else None

    def is_stale(self) -> bool:
        """Whether the user has since given the model other tensors (``model.to``, for one)."""
        now = tuple(chain(self._model.parameters(), self._model.buffers()))
        return [*map(id, now)] != [*map(id, self._tensors)]

    def refresh(self) -> None:
        """Give the twin's own buffers the model's values again, so that no image leaves a trace."""
        self.notes.clear()
        with torch.inference_mode(False), torch.no_grad():
            for mine, theirs in self._private:
                mine.copy_(theirs)

    def run(
        self,
        rows: Tensor,
        lambdas: Tensor,
        *,
        pool: Pool,
        unbiased: bool = False,
        tape: Tape | None = None,
        parameters: Mapping[str, Tensor] | None = None,
        alike: bool = False,
    ) -> Tensor:
        """One pass of R members over N images.

        Args:
            rows: ``(R * N, C, *S)``, member by member; or ``(N, C, *S)`` if ``alike``.
            lambdas: ``(R,)``. With ``pool="first"`` and a tape that is empty, the first one is 0.
            pool: Where the statistics of an image come from.
            unbiased: Mix with the unbiased variance.
            tape: Keeps captured statistics: an empty one is filled, a filled one played back.
            parameters: Tensors to use in place of the model's parameters of these names.
            alike: Whether every member sees the same rows.

        Returns:
            Logits, ``(R, N, C, *S)``.
        """
        lambdas, times = lambdas.to(rows.device, precise(rows)), len(lambdas) if alike else 1
        images, is_new = len(rows) * times // len(lambdas), tape is not None and not tape

        def forward(memory: torch.memory_format) -> Any:
            if tape is not None and is_new:
                tape.clear()
                tape.reserve(2 * self._features * images, lambdas)
            self._mixing.begin(lambdas, images, pool, unbiased, tape)
            return self._forward(rows, times, memory, parameters)

        raw = self._in_best_layout(forward, rows, times)
        if self._mixes and not self._mixing.served and not self._mixing.is_source:
            raise UnsupportedModel(
                "The forward pass uses none of the model's BatchNorm layers, so that lambda has no "
                "effect.",
                fix="use lam=1, or a model that calls its BatchNorm layers",
            )
        seen = rows if times == 1 else rows[:1].expand(len(rows) * times, *rows.shape[1:])
        logits = logits_of(raw, self._output, seen)
        logits = logits.to(precise(logits)).contiguous()
        return logits.view(len(lambdas), -1, *logits.shape[1:])

    def _in_best_layout(
        self, forward: Callable[[torch.memory_format], Any], rows: Tensor, times: int
    ) -> Any:
        """The pass with channels last where that is faster, unless the model cannot have it."""
        pays = rows.dim() == 4 and rows.device.type == "cpu" and len(rows) * times > 1
        if not (pays and self._channels_last) or torch.is_grad_enabled():
            return forward(torch.preserve_format)
        try:
            return forward(torch.channels_last)
        except RuntimeError as error:
            if "view size is not compatible" not in str(error):
                raise
        self._channels_last = False  # it views tensors as if they were contiguous
        self.refresh()
        return forward(torch.preserve_format)

    def _forward(
        self,
        rows: Tensor,
        times: int,
        memory: torch.memory_format,
        parameters: Mapping[str, Tensor] | None,
    ) -> Any:
        rows = rows.clone(memory_format=memory)  # a model may work in place on what it is given
        rows = torch.cat([rows] * times) if times > 1 else rows
        self._quick.begin(rows, times)
        try:
            with self._slots.lend(parameters or {}):
                return self.module(rows)
        finally:
            self._quick.end()


def logits_of(raw: Any, output: Output, rows: Tensor) -> Tensor:
    """The tensor of logits in whatever the model returned."""
    if isinstance(raw, Tensor) and not (output is None or callable(output)):
        raise InvalidSetting(
            f"The model returns one tensor, in which there is no output {output!r} to choose.",
            fix="leave output= out",
        )
    try:
        chosen = output(raw) if callable(output) else raw if output is None else raw[output]
    except (KeyError, IndexError, TypeError) as error:
        raise InvalidSetting(
            f"output={output!r} is not in what the model returns.", allowed=_describe(raw)
        ) from error
    if not isinstance(chosen, Tensor):
        raise UnsupportedModel(
            "The model does not return a tensor of logits.",
            got=_describe(chosen),
            fix="name the logits by output=, a key, an index or a function of what it returns",
        )
    if chosen.dim() < 3 or chosen.shape[0] != rows.shape[0] or not chosen.is_floating_point():
        raise UnsupportedModel(
            "The model's output is not a map of logits (N, C, *S) with a row for each image.",
            got=f"{_describe(chosen)} for an input of shape {tuple(rows.shape)}",
        )
    return chosen


def _describe(raw: Any) -> str:
    if isinstance(raw, Tensor):
        return f"a tensor of shape {tuple(raw.shape)} and type {raw.dtype}"
    if isinstance(raw, Mapping):
        return f"a dict with the keys {', '.join(map(repr, raw))}"
    if isinstance(raw, (tuple, list)):
        return f"a {type(raw).__name__} of {len(raw)}, to be indexed from 0 to {len(raw) - 1}"
    return type(raw).__name__


class Twins:
    """Lends twins of one model to whoever calls, one to a thread at a time.

    Args:
        model: The user's model, only read.
        output: How to find the logits in what it returns.

    Example:
        >>> twins = Twins(nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)))
        >>> with twins.borrow() as one:
        ...     logits = one.run(torch.zeros(2, 1, 4, 4), torch.tensor([1.0]), pool="own")
        >>> logits.shape
        torch.Size([1, 2, 1, 4, 4])
    """

    def __init__(self, model: nn.Module, output: Output = None) -> None:
        self._model, self._output = model, output
        self._free: deque[Twin] = deque([Twin(model, output)])

    @contextmanager
    def borrow(self) -> Iterator[Twin]:
        """A twin for one adaptation, in step with the model as it is now."""
        try:
            one = self._free.pop()
        except IndexError:
            one = Twin(self._model, self._output)
        if one.is_stale():
            one = Twin(self._model, self._output)
        one.refresh()
        try:
            yield one
        finally:
            self._free.append(one)
