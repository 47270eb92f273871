"""Put trained checkpoints into the zoo: in half precision, with a card for people and checksums."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from torch import nn

from sitta.benchmark.cards import page
from sitta.errors import InvalidSetting, SittaError
from sitta.models import checkpoint
from sitta.models.zoo import NAME, SHIPPED, SUFFIX, SUMS, digest, recorded
from sitta.storage import finished

MOST, MOST_TOGETHER = 6_000_000, 45_000_000  # bytes: a clone must stay quick to fetch


def publish(checkpoints: Mapping[str, Path], zoo: Path, rows: pd.DataFrame | None = None) -> None:
    """Put checkpoints into a zoo, all of them or none; others that are there stay.

    The same checkpoints and rows give the same bytes.

    Args:
        checkpoints: Files by the names that they shall have, such as ``chest-mcu``.
        zoo: The folder; made if need be.
        rows: Results of a benchmark, for the figures on other domains.

    Raises:
        SittaError: A name that cannot be, weights that half precision cannot hold, or files that
            are too large, each or together.
    """
    for name in checkpoints:
        _check_name(name)
    with TemporaryDirectory() as place:
        drafts = {n: Path(place) / f"{n}{SUFFIX}" for n in sorted(checkpoints)}
        models = {n: _halved(Path(checkpoints[n]), draft) for n, draft in drafts.items()}
        _check_sizes(drafts, zoo)
        pages = {n: page(n, model, rows) for n, model in models.items()}
        sums = recorded(zoo) | {n: digest(draft) for n, draft in drafts.items()}
        for name, draft in drafts.items():
            with finished(zoo / draft.name) as path:
                shutil.copyfile(draft, path)
            _write(zoo / f"{name}.md", pages[name])
    there = sorted(n for n in sums if (zoo / f"{n}{SUFFIX}").is_file())
    _write(zoo / SUMS, "".join(f"{sums[n]}  {n}{SUFFIX}\n" for n in there))


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name) or name.endswith(SUFFIX):
        raise InvalidSetting("That is no name for a model.", allowed="chest-mcu", got=repr(name))
    if (SHIPPED / f"{name}{SUFFIX}").is_file():
        raise InvalidSetting(f"{name} ships with Sitta: another one would never be found.")


def _halved(path: Path, draft: Path) -> nn.Module:
    """Write a checkpoint in half precision, and load what was written."""
    if _is_half(path):
        shutil.copyfile(path, draft)
        return checkpoint.load(draft)
    model = checkpoint.load(path)
    checkpoint.save(model, draft, model.card, half=True)  # type: ignore[arg-type]
    half = checkpoint.load(draft)
    if not all(t.isfinite().all() for t in half.state_dict().values()):
        raise SittaError(f"{path} holds numbers that half precision cannot: they become infinite.")
    return half


def _is_half(path: Path) -> bool:
    from safetensors import safe_open

    checkpoint.card(path)  # says so if it is no checkpoint
    with safe_open(path, framework="numpy") as file:
        kinds = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    return not kinds & {"F32", "F64", "BF16"}


def _check_sizes(drafts: Mapping[str, Path], zoo: Path) -> None:
    sizes = {name: draft.stat().st_size for name, draft in drafts.items()}
    for name, size in sizes.items():
        if size > MOST:
            raise SittaError(
                f"{name} is too large for the zoo.",
                allowed=f"{MOST / 1e6:g} MB in half precision",
                got=f"{size / 1e6:.1f} MB",
                fix="train a smaller network, such as the preset compact",
            )
    for path in zoo.glob(f"[!.]*{SUFFIX}"):
        sizes.setdefault(path.stem, path.stat().st_size)
    if (total := sum(sizes.values())) > MOST_TOGETHER:
        raise SittaError(
            f"{len(sizes)} models together are too large for the zoo.",
            allowed=f"{MOST_TOGETHER / 1e6:g} MB",
            got=f"{total / 1e6:.1f} MB",
            fix="leave some out",
        )


def _write(path: Path, text: str) -> None:
    with finished(path) as draft:
        draft.write_text(text, "utf-8", newline="\n")
