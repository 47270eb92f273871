"""The routes."""

from __future__ import annotations

import asyncio
import gzip
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse

from sitta._version import __version__
from sitta.prediction.decisions import FILE, to_csv
from sitta.prediction.notes import NOTES, flagged
from sitta.prediction.scores import shown
from sitta.serve import documented as doc
from sitta.serve import progress, review, samples, schemas
from sitta.serve.archive import packed
from sitta.serve.body import bounded, posted
from sitta.serve.choice import Choice, require
from sitta.serve.errors import ApiError
from sitta.serve.negotiation import JSON, LINES, MASKS, wanted
from sitta.serve.render import RAW, TYPES, Rendering, kinds
from sitta.serve.samples import SAMPLES
from sitta.serve.schemas import all_of
from sitta.serve.service import Service
from sitta.serve.store import Entry

router = APIRouter(responses=doc.errors())
USE = "For research. Not a medical device."
PACKED = 2**20  # bytes of an image from which on packing takes less time than sending
LEVEL = 1  # of gzip: masks shrink to a hundredth even so
ABANDONED = 499  # nobody is there to read it


def _of_app(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Running = Annotated[Service, Depends(_of_app)]


@router.get("/api", summary="What this is")
async def about() -> schemas.About:
    """Name, version, and what it is for."""
    return schemas.About(version=__version__, use=USE, documentation="/openapi.json")


@router.get("/api/models", summary="Models", response_model=all_of("models", schemas.Model))
async def models(service: Running) -> Any:
    """The models that were given on the command line."""
    return {"models": service.description["models"]}


@router.get("/api/methods", summary="Methods", response_model=all_of("methods", schemas.Method))
async def methods(service: Running) -> Any:
    """The methods, with their settings."""
    return {"methods": service.description["methods"]}


@router.get("/api/notes", summary="Notes")
async def notes() -> schemas.Notes:
    """What the notes in an answer mean."""
    return schemas.Notes(
        notes={code: note.sentence for code, note in NOTES.items()},
        serious=sorted(code for code in NOTES if flagged([code])),
        severity={code: note.severity for code, note in NOTES.items()},
        advice={code: note.advice for code, note in NOTES.items()},
        remedy={code: r for code, note in NOTES.items() if (r := getattr(note, "remedy", ""))},
    )


@router.get("/api/scores", summary="Trust scores", response_model=all_of("scores", schemas.Score))
async def scores() -> Any:
    """The trust scores in an answer: how to show them, and what they mean."""
    return {"scores": [score.describe() for score in shown()]}


@router.get("/api/limits", summary="Limits")
async def limits(service: Running) -> schemas.Bounds:
    """How much one client may ask for."""
    return schemas.Bounds.model_validate(service.limits, from_attributes=True)


@router.get("/api/samples", summary="Samples", response_model=all_of("samples", schemas.Sample))
async def sample_list(service: Running) -> Any:
    """Phantom images to try the service with."""
    names = [model["name"] for model in service.description["models"]]
    model = samples.MODEL if samples.MODEL in names else names[0]
    return {"samples": [{"name": k, "title": s[0], "model": model} for k, s in SAMPLES.items()]}


@router.get("/api/samples/{name}", summary="A sample", **doc.FILE)
async def sample(service: Running, name: Annotated[str, Path(examples=[*SAMPLES][:1])]) -> Response:
    """The file of a sample."""
    if name not in SAMPLES:
        names = ", ".join(SAMPLES)
        raise ApiError(404, "no-sample", "There is no such sample.", allowed=names)
    path = await asyncio.to_thread(samples.draw, name, service.store.root)
    return FileResponse(path, media_type=TYPES[path.name[path.name.index(".") :]], filename=name)


@router.post("/api/predict", summary="Adapt to an image", **doc.PREDICT)
async def predict(request: Request, service: Running) -> Response:
    """Adapt a model to an image, or to the slices of one DICOM series.

    Answers with scores and links; or, if `Accept` asks for it, with the mask itself, or with a
    line of JSON for each event: `image` (an answer without scores, whose `image.raw` is there),
    `slice` (its scores; `draft.raw` and `draft-source.raw` hold the masks), then `answer` or
    `error`.
    """
    form = wanted(request.headers.get("accept", ""))
    events = progress.events(request, service, follow=form == LINES)
    try:
        first = await anext(events)
    except ClientDisconnect:
        return Response(status_code=ABANDONED)
    if form == LINES:
        return StreamingResponse(progress.lines(first, events), media_type=LINES)
    await events.aclose()
    return await _formed(service, first["answer"], form)


async def _formed(service: Service, answer: dict[str, Any], form: str) -> Response:
    """JSON, or the mask itself."""
    if form == JSON:
        return JSONResponse(answer)
    if form == "image/png" and answer["slices"] > 1:
        allowed = f"application/x-nifti, {JSON}"
        raise ApiError(406, "not-a-picture", "PNG holds no volume.", allowed=allowed)
    mask = await _part(service, answer["id"], f"mask{MASKS[form]}", None, Choice())
    return Response(mask.body, media_type=form)


@router.get("/api/results/{id}/{kind}", summary="A part of a result", **doc.FILE)
async def result(
    request: Request,
    service: Running,
    id: Annotated[str, Path(max_length=64, examples=["9Kx0..."])],
    kind: Annotated[str, Path(max_length=64, examples=["mask.png"])],
    slice: Annotated[int | None, Query(ge=0, le=2**31, description="Which, as shown.")] = None,
    mask: Annotated[str, Query(max_length=64, description="Of the result's masks.")] = "adapted",
    threshold: Annotated[float | None, Query(description="Of the adapted mask.")] = None,
    step: Annotated[int, Query(ge=1, le=64, description="To draw: every how many pixels.")] = 1,
    plane: Annotated[int, Query(ge=0, le=2, description="To draw: a slice, row or column.")] = 0,
) -> Response:
    """An image, a map or the scores.

    To draw, one slice of bytes row by row, with its sides in `X-Height`, `X-Width` and `X-Depth`:
    `image.raw` (of the type in `X-Values`, little-endian), `mask.raw`, `source.raw`, `members.raw`
    (a class a pixel), `uncertainty.raw` and `disagreement.raw` (255 = 1 bit). To keep: as the
    answer's `links` say. With `plane` 1 or 2, `slice` counts the rows or columns of a volume.
    """
    packs = "gzip" in request.headers.get("accept-encoding", "")
    return await _part(service, id, kind, slice, Choice(mask, threshold), step, packs, plane)


async def _part(
    service: Service, id: str, kind: str, number: int | None, choice: Choice, *drawn: Any
) -> Response:
    entry = service.store.get(id, draft=True)
    require(entry.answer, choice, entry.is_corrected)
    response = await asyncio.to_thread(_rendered, entry, kind, number, choice, *drawn)
    service.store.measure(id)
    return response


def _rendered(
    entry: Entry,
    kind: str,
    number: int | None,
    choice: Choice,
    step: int = 1,
    is_gzip: bool = False,
    plane: int = 0,
) -> Response:
    """A slice to draw, or a file to keep."""
    name, dot, ending = kind.partition(".")
    ending = dot + ending
    rendering = Rendering(entry, plane if ending == ".raw" else 0)  # files have slices alone
    if ending == ".raw" and name in RAW:
        content, sides = rendering.raw(name, number or 0, choice, step)
        headers = dict(zip(("X-Height", "X-Width", "X-Depth"), map(str, sides), strict=True))
        headers["X-Values"] = rendering.values_of(name)
        if is_gzip and (name != "image" or len(content) > PACKED):
            headers["Content-Encoding"] = "gzip"
            content = gzip.compress(content, LEVEL)
        return Response(content, media_type=TYPES[ending], headers=headers)
    headers = {"Content-Disposition": f'attachment; filename="{kind}"'}
    if kind == "figures.json":
        return JSONResponse(entry.answer, headers=headers)
    if ending in (".png", ".nii.gz") and f"{name}.nii.gz" in kinds(entry.answer):
        with entry.lock:
            path = rendering.file(name, ending, number if ending == ".png" else None, choice)
            return Response(path.read_bytes(), media_type=TYPES[ending], headers=headers)
    offered = ", ".join([*kinds(entry.answer), *(f"{name}.raw" for name in RAW)])
    raise ApiError(404, "no-such-kind", "A result has no such part.", allowed=offered)


@router.put(
    "/api/results/{id}/review",
    summary="Decide",
    response_model=schemas.Review,
    responses=doc.errors(404, 413),
    **doc.json_body(schemas.Said),
)
async def decide(
    request: Request, service: Running, id: Annotated[str, Path(max_length=64)]
) -> Any:
    """Choose a mask of a result and decide on it, as a whole or slice by slice."""
    said = await posted(request, schemas.Said)
    entry = service.store.get(id)
    decisions = await asyncio.to_thread(review.decide, entry, said.model_dump())
    service.store.kept(id)
    return {"decisions": review.plain(decisions)}


@router.put(
    "/api/results/{id}/corrected",
    summary="Correct",
    status_code=204,
    responses=doc.errors(404, 413),
    **doc.body({"application/octet-stream": doc.BYTES}),
)
async def correct(
    request: Request,
    service: Running,
    id: Annotated[str, Path(max_length=64)],
    slice: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> Response:
    """Keep a mask that a person drew in one slice: a class a pixel, row by row.

    The first time, all other slices begin as the mask that is chosen.

    It is then one of the result's masks, called `corrected`.
    """
    entry = service.store.get(id)
    content = await bounded(request, entry.answer["shape"][-1] * entry.answer["shape"][-2])
    await asyncio.to_thread(review.correct, entry, slice, content)
    service.store.kept(id)
    return Response(status_code=204)


@router.post("/api/decisions.csv", summary="Decisions", **doc.CSV, **doc.json_body(schemas.Chosen))
async def decisions(request: Request, service: Running) -> Response:
    """What was decided on results, a row each: `decisions.csv`."""
    chosen = await posted(request, schemas.Chosen)
    entries = [service.store.get(id) for id in chosen.ids]
    headers = {"Content-Disposition": f'attachment; filename="{FILE}"'}
    text = to_csv(review.all_rows(entries))
    return Response(text, media_type="text/csv", headers=headers)


@router.post("/api/archive.zip", summary="All files", **doc.ZIP, **doc.json_body(schemas.Chosen))
async def archive(request: Request, service: Running) -> Response:
    """Chosen and corrected masks, `summary.csv`, `decisions.csv` and a report, as a stream."""
    chosen = await posted(request, schemas.Chosen)
    entries = [service.store.get(id) for id in chosen.ids]
    headers = {"Content-Disposition": 'attachment; filename="sitta.zip"'}
    return StreamingResponse(packed(entries), media_type="application/zip", headers=headers)


@router.get("/api/session", summary="Session", response_model=schemas.Session)
async def session(service: Running) -> Any:
    """The results of `--session`, with what a person said of them; none without it."""
    return service.store.session()


@router.delete("/api/results/{id}", status_code=204, responses=doc.errors(404), summary="Delete")
async def delete(service: Running, id: Annotated[str, Path(max_length=64)]) -> None:
    """Remove a result now."""
    service.store.delete(id)


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", summary="Whether it is alive")
async def health(service: Running) -> schemas.Health:
    """Answers as long as the server does, with the workers that are ready; asks for no token."""
    return schemas.Health(workers=service.pool.ready, queue=service.pool.waiting)


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", summary="Whether it takes images", responses=doc.errors(503))
async def readiness(service: Running) -> schemas.Health:
    """As `/healthz`, but 503 without a worker that is ready; asks for no token."""
    service.pool.require_ready()
    return await health(service)


@router.get("/metrics", summary="Counts and times", **doc.TEXT)
async def counts(service: Running) -> Response:
    """In Prometheus' text format."""
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
