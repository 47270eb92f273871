"""``sitta doctor``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from sitta.cli import app, command
from sitta.cli.options import AsJson
from sitta.cli.show import print_json, say

if TYPE_CHECKING:
    from sitta.inference.doctor import Diagnosis


@command(app, "sitta doctor")
def doctor(as_json: AsJson = False) -> None:
    """Check the installation: versions, devices, extras, folders, models, and what to do."""
    from sitta.inference.doctor import diagnose

    diagnosis = diagnose()
    if as_json:
        print_json({"healthy": diagnosis.healthy, **asdict(diagnosis)})
    else:
        _print(diagnosis)
    if not diagnosis.healthy:
        raise typer.Exit(1)


def _print(diagnosis: Diagnosis) -> None:
    say("versions")
    for name, version in diagnosis.versions.items():
        say(f"  {name:<12} {version or 'missing'}")
    say(f"devices\n  {', '.join(diagnosis.devices) or 'none: torch is missing'}")
    threads = ", ".join(f"{k} {v}" for k, v in diagnosis.threads.items() if v is not None)
    say(f"threads\n  {threads}")
    if diagnosis.memory:
        say(f"memory\n  {diagnosis.memory['total']} GB, {diagnosis.memory['free']} GB free")
    say("folders")
    for folder in diagnosis.folders:
        free = f"{folder['free'] / 1e9:.1f} GB free" if folder["writable"] else "cannot be written"
        say(f"  {folder['for']}: {folder['path'] or 'none'}, {free}")
    sick = [model["name"] for model in diagnosis.zoo if model["problem"]]
    names = f": {', '.join(sick)}" if sick else ""
    say(f"zoo\n  {len(diagnosis.zoo)} models, {len(sick)} damaged{names}\nextras")
    for extra in diagnosis.extras:
        state = "installed" if extra["installed"] else extra["install"]
        say(f"  {extra['name']:<12} {extra['for']:<24} {state}")
    say("" if diagnosis.findings else "\nAll is well.")
    for finding in diagnosis.findings:
        say(f"{finding.severity}: {finding.what}\n  what to do: {finding.fix}")
