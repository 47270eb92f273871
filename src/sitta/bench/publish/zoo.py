"""Put trained checkpoints into the zoo: in half precision, with a card for people and checksums."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from torch import nn

from sitta._util.files import atomic_write
from sitta.bench.publish.model_card import page
from sitta.errors import InvalidSetting, SittaError
from sitta.models import checkpoint
from sitta.models.zoo import NAME, SUFFIX, SUMS, digest, recorded

FILE_LIMIT_BYTES, ZOO_LIMIT_BYTES = 6_000_000, 45_000_000  # a clone must stay quick to fetch


def publish(checkpoints: Mapping[str, Path], zoo: Path, rows: pd.DataFrame | None = None) -> None:
    """Put checkpoints into a zoo by their names, all of them or none; others there stay.

    The same checkpoints and rows, which are those of a benchmark, give the same bytes.
    """
    if wrong := [n for n in checkpoints if not NAME.fullmatch(n) or n.endswith(SUFFIX)]:
        raise InvalidSetting(
            "That is no name for a model.", allowed="chest-mcu", got=repr(wrong[0])
        )
    sums = recorded(zoo)
    with TemporaryDirectory() as place:
        drafts = Path(place)
        for name, path in checkpoints.items():
            draft = drafts / f"{name}{SUFFIX}"
            text = page(name, _halved(Path(path), draft), rows)
            (drafts / f"{name}.md").write_text(text, "utf-8", newline="\n")
            sums[name] = digest(draft)
        _check_sizes(drafts, zoo)
        for draft in sorted(drafts.iterdir()):
            with atomic_write(zoo / draft.name) as published:
                shutil.copyfile(draft, published)
    there = sorted(name for name in sums if (zoo / f"{name}{SUFFIX}").is_file())
    with atomic_write(zoo / SUMS) as draft:
        lines = [f"{sums[name]}  {name}{SUFFIX}\n" for name in there]
        draft.write_text("".join(lines), "utf-8", newline="\n")


def _halved(path: Path, draft: Path) -> nn.Module:
    """Write a checkpoint in half precision, and load what was written."""
    model = checkpoint.load(path)
    checkpoint.save(model, draft, model.card, half=True)  # type: ignore[arg-type]
    half = checkpoint.load(draft)
    if not all(t.isfinite().all() for t in half.state_dict().values()):
        raise SittaError(f"{path} holds numbers that half precision cannot: they become infinite.")
    return half


def _check_sizes(drafts: Path, zoo: Path) -> None:
    own, others = (
        {path.stem: path.stat().st_size for path in folder.glob(f"[!.]*{SUFFIX}")}
        for folder in (drafts, zoo)
    )
    together = others | own
    smaller = "train a smaller network, such as the preset compact"
    checks = [(f"{name} is", size, FILE_LIMIT_BYTES, smaller) for name, size in own.items()]
    whole = f"{len(together)} models together are"
    checks.append((whole, sum(together.values()), ZOO_LIMIT_BYTES, "leave some out"))
    for what, size, limit, fix in checks:
        if size > limit:
            raise SittaError(
                f"{what} too large for the zoo.",
                allowed=f"{limit / 1e6:g} MB in half precision",
                got=f"{size / 1e6:.1f} MB",
                fix=fix,
            )
