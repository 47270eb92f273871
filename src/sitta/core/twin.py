"""A structural twin of the user's model: a new module tree on the same tensors.

Methods run the twin and only ever read the user's model, so there is nothing to reset. A twin holds
the state of the pass under way, so one thread uses it at a time: ``Twins`` keeps a pool of them.
"""

from __future__ import annotations

import copy
import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from sitta.core.accel.optimizer import Optimizer
from sitta.core.capture import CapturedStatistics
from sitta.core.moments import divergence, precise
from sitta.core.norm import MixedNorm, Pair, Pool, StatisticsMixer, mean_distance, mix_norm
from sitta.core.norm_adapters import mixed_families, norm_layers
from sitta.core.parameters import ParameterSubstitution
from sitta.errors import InvalidSetting, UnsupportedModel

Output = str | int | Callable[[Any], Tensor] | None
_NOTHING = nullcontext()
WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def unwrap(model: nn.Module) -> nn.Module:
    """The network inside DataParallel, DistributedDataParallel or ``torch.compile``."""
    while True:
        inner = model.module if isinstance(model, WRAPPERS) else getattr(model, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def twin(
    model: nn.Module, mixing: StatisticsMixer, sources: Mapping[str, Pair] | None = None
) -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
    """A copy of the module tree that shares every parameter and all statistics with ``model``.

    Layers with statistics to mix ask ``mixing``; it is in evaluation mode; other buffers are its
    own. ``sources`` gives a mean and a variance to layers that keep none, by their names. Returns
    the twin, without the model's wrapper, and its own buffers, each with the model's.
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
        for name, child in list(parent._modules.items()):  # also under a second name
            if child is not None:
                setattr(parent, name, unwrap(child))
    for module in other.modules():
        module.training = False  # not .eval(): a model may rewrite its weights in there
    for name, layer, adapter in norm_layers(other):
        if adapter.replaces(layer):
            mix_norm(layer, adapter, mixing, name)
        elif sources and name in sources:
            mix_norm(layer, adapter, mixing, name, sources[name])
    pairs = [(memo[id(b)], b) for b in root.buffers() if memo.get(id(b), b) is not b]
    return other, pairs


def require_eager(root: nn.Module) -> None:
    """Refuse TorchScript, with its own reason."""
    if isinstance(root, torch.jit.ScriptModule):
        raise UnsupportedModel(
            "The model is TorchScript, whose layers cannot be exchanged.",
            fix="give the eager nn.Module it was made from",
        )


def _require_copyable(root: nn.Module) -> None:
    """Refuse what would lead the twin's forward pass back into the user's own layers."""
    require_eager(root)
    own = set(root.modules())
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if not isinstance(value, FunctionType):
                continue
            outside = inspect.getclosurevars(value)
            used = [*outside.nonlocals.values(), *outside.globals.values()]
            if any(isinstance(v, nn.Module) and v in own for v in used):
                raise UnsupportedModel(
                    f"'{name}' of module '{path}' is a function that refers to the model itself, "
                    "so a copy of the model would still run the original layers.",
                    fix="make it a method of the module's class",
                )


def _memo(root: nn.Module) -> dict[int, Any]:
    """The memo of deepcopy: shared parameters and running statistics, and clones of the rest."""
    running = (t for _, layer, a in norm_layers(root) if a.mixes for t in a.buffers(layer))
    shared: dict[int, Any] = {id(t): t for t in chain(root.parameters(), running)}
    for module in root.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor) and not value.is_leaf:
                shared[id(value)] = value.detach().clone()
    for buffer in root.buffers():
        if id(buffer) not in shared:
            with torch.inference_mode(False):  # whatever mode the caller is in
                shared[id(buffer)] = buffer.detach().clone()
    return shared


class Twin:
    """One twin of a model and the passes it can make; the arguments are those of ``Method``."""

    def __init__(
        self,
        model: nn.Module,
        output: Output = None,
        accelerate: bool = True,
        sources: Mapping[str, Pair] | None = None,
    ) -> None:
        self._model, self._output = model, output
        self._mixing = StatisticsMixer()
        self.module, self._private = twin(model, self._mixing, sources)
        self._optimizer = Optimizer(self.module) if accelerate else None
        self._parameters = ParameterSubstitution(self.module)
        self._channels_last = accelerate  # until the model refuses it
        norms = [m for m in self.module.modules() if isinstance(m, MixedNorm)]
        self._features = sum(m.adapter.features(m) for m in norms)
        self._mixes = any(m.source is not None for m in norms)
        self._tensors = tuple(chain(model.parameters(), model.buffers()))

    @property
    def notes(self) -> set[str]:
        """Codes of the notes that layers raised since the last refresh."""
        return self._mixing.notes

    @property
    def served(self) -> int:
        """How many layers mixed statistics in the last pass."""
        return self._mixing.served

    @property
    def distance(self) -> Tensor:
        """How far the images of the last pass are from the source's statistics, ``(N,)``."""
        return self._mixing.distance()

    def distance_of(self, captured: CapturedStatistics) -> Tensor:
        """How far captured statistics are from the source's, ``(N,)``."""
        distances = []
        for label, mean, var in captured:
            layer = self.module.get_submodule(label)
            assert isinstance(layer, MixedNorm)  # noqa: S101
            if layer.source is not None:
                source = (layer.source[0].to(mean), layer.source[1].to(mean))
                distances.append(divergence(mean, var, *source, layer.adapter.eps(layer)))
        return mean_distance(distances, self.distance)

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
        captured: CapturedStatistics | None = None,
        parameters: Mapping[str, Tensor] | None = None,
        same_rows: bool = False,
        depths: Sequence[int] | None = None,
    ) -> Tensor:
        """Logits ``(R, N, C, *S)`` of one pass of R members over N images.

        Args:
            rows: ``(R * N, C, *S)``, member by member; or ``(N, C, *S)`` if ``same_rows``.
            lambdas: ``(R,)``. With ``pool="first"`` and nothing captured yet, the first one is 0.
            pool: Where the statistics of an image come from.
            unbiased: Mix with the unbiased variance.
            captured: Captured statistics: filled if empty, else replayed.
            parameters: Tensors to use in place of the model's parameters of these names.
            same_rows: Whether every member sees the same rows.
            depths: ``(R,)`` how many layers of each member, in the order of calls, stay at source
                statistics whatever its lambda.
        """
        deep = None if depths is None else torch.tensor(depths, device=rows.device)
        lambdas, times = lambdas.to(rows.device, precise(rows)), len(lambdas) if same_rows else 1
        images, capturing = len(rows) * times // len(lambdas), captured is not None and not captured

        def forward(memory: torch.memory_format) -> Any:
            if captured is not None and capturing:
                captured.begin(2 * self._features * images, lambdas)
            self._mixing.begin(lambdas, images, pool, unbiased, captured, deep)
            batch = rows.clone(memory_format=memory)  # a model may work in place on its input
            batch = torch.cat([batch] * times) if times > 1 else batch
            optimised = self._optimizer.optimised(batch, times) if self._optimizer else _NOTHING
            with optimised, self._parameters.substituted(parameters or {}):
                return self.module(batch)

        raw = self._in_best_layout(forward, len(rows) * times, rows)
        if self._mixes and not self._mixing.served and not self._mixing.is_source:
            raise UnsupportedModel(
                f"The forward pass uses none of the model's {mixed_families()} layers, so lambda "
                "has no effect.",
                fix=f"use lam=1, or a model that calls its {mixed_families()} layers",
            )
        logits = logits_of(raw, self._output, (len(rows) * times, *rows.shape[1:]))
        logits = logits.to(precise(logits)).contiguous()
        return logits.view(len(lambdas), -1, *logits.shape[1:])

    def _in_best_layout(
        self, forward: Callable[[torch.memory_format], Any], count: int, rows: Tensor
    ) -> Any:
        """The pass with channels last where that is faster, unless the model cannot have it."""
        pays = rows.dim() == 4 and rows.device.type == "cpu" and count > 1
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


def logits_of(raw: Any, output: Output, shape: Sequence[int]) -> Tensor:
    """The tensor of logits in what the model returned for rows of this shape."""
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
    if chosen.dim() < 3 or chosen.shape[0] != shape[0] or not chosen.is_floating_point():
        raise UnsupportedModel(
            "The model's output is not a map of logits (N, C, *S) with a row for each image.",
            got=f"{_describe(chosen)} for an input of shape {tuple(shape)}",
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
    """A pool of twins of one model, each used by one thread at a time; arguments as of ``Twin``."""

    def __init__(self, model: nn.Module, *more: Any) -> None:
        self._new = partial(Twin, model, *more)
        self._free: deque[Twin] = deque([self._new()])

    @contextmanager
    def borrow(self) -> Iterator[Twin]:
        """A twin for one adaptation, in step with the model as it is now."""
        try:
            twin = self._free.pop()
        except IndexError:
            twin = self._new()
        if twin.is_stale():
            twin = self._new()
        twin.refresh()
        try:
            yield twin
        finally:
            self._free.append(twin)
