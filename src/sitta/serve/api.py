"""The routes."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, JSONResponse, Response

from sitta._version import __version__
from sitta.notes import NOTES
from sitta.runs.one import SERIOUS
from sitta.serve import documented as doc
from sitta.serve import metrics, samples, schemas
from sitta.serve.accept import JSON, MASKS, wanted
from sitta.serve.refusal import Refusal
from sitta.serve.render import RAW, TYPES, Rendering, kinds
from sitta.serve.service import Service
from sitta.serve.upload import Parcel, receive

router = APIRouter()
USE = "For research. Not a medical device."
ABANDONED = 499  # nobody is there to read it


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


@router.get("/api", responses=doc.errors(), summary="What this is")
async def about() -> schemas.About:
    """Name, version, and what it is for."""
    return schemas.About(version=__version__, use=USE, documentation="/openapi.json")


@router.get("/api/models", responses=doc.errors(), summary="Models")
async def models(request: Request) -> schemas.Models:
    """The models that were given on the command line."""
    return schemas.Models(models=_service(request).known["models"])


@router.get("/api/methods", responses=doc.errors(), summary="Methods")
async def methods(request: Request) -> schemas.Methods:
    """The methods, with their settings."""
    return schemas.Methods(methods=_service(request).known["methods"])


@router.get("/api/notes", responses=doc.errors(), summary="Notes")
async def notes() -> schemas.Notes:
    """What the notes in an answer mean."""
    return schemas.Notes(notes=NOTES, serious=sorted(SERIOUS))


@router.get("/api/limits", responses=doc.errors(), summary="Limits")
async def limits(request: Request) -> schemas.Bounds:
    """How much one client may ask for."""
    return schemas.Bounds(**_service(request).limits.told())  # type: ignore[arg-type]


@router.get("/api/samples", responses=doc.errors(), summary="Samples")
async def sample_list(request: Request) -> schemas.Samples:
    """Phantom images to try the service with."""
    found = samples.listing([m["name"] for m in _service(request).known["models"]])
    return schemas.Samples(samples=[schemas.Sample(**one) for one in found])


@router.get(
    "/api/samples/{name}", responses=doc.FILE | doc.errors(404), summary="A sample", **doc.PLAIN
)
async def sample(request: Request, name: Annotated[str, Path(examples=list(samples.SAMPLES)[:1])]):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """The file of a sample."""
    if name not in samples.SAMPLES:
        raise Refusal(
            404, "no-sample", "There is no such sample.", allowed=", ".join(samples.SAMPLES)
        )
    path = await asyncio.to_thread(samples.made, name, _service(request).store.root)
    return FileResponse(path, media_type=TYPES[path.name[path.name.index(".") :]], filename=name)


@router.post("/api/predict", **doc.PREDICT)
async def predict(request: Request) -> Response:
    """Adapt a model to an image, or to the slices of one DICOM series.

    Answers with figures and links; or, if `Accept` asks for it, with the mask itself.
    """
    service, form = _service(request), wanted(request.headers.get("accept", ""))
    start, outcome = time.perf_counter(), "failed"
    try:
        with service.pool.place(), service.store.workspace() as folder:
            parcel = await receive(request, folder, service.limits)
            start = time.perf_counter()
            answer = await _attended(request, service, parcel)
        outcome = "done"
        return await _formed(service, answer, form)
    except (_Abandoned, ClientDisconnect):
        outcome = "abandoned"
        return Response(status_code=ABANDONED)
    except Refusal as error:
        outcome = error.code
        raise
    finally:
        service.metrics.job(outcome, time.perf_counter() - start)


class _Abandoned(Exception):
    """The client is gone."""


async def _attended(request: Request, service: Service, parcel: Parcel) -> dict[str, Any]:
    """Work for as long as the client waits for it."""
    job = asyncio.create_task(service.predict(parcel))
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({job, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise _Abandoned
        return job.result()
    finally:
        for task in (job, gone):
            task.cancel()
        await asyncio.gather(job, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _formed(service: Service, answer: dict[str, Any], form: str) -> Response:
    """JSON, or the mask itself."""
    if form == JSON:
        return JSONResponse(answer)
    try:
        return await _file(service, answer["id"], "mask", MASKS[form], None, form)
    except Refusal as error:
        if error.code != "bad-slice":
            raise
        raise Refusal(
            406, "not-a-picture", "PNG holds no volume.", allowed="application/x-nifti, " + JSON
        ) from None


@router.get(
    "/api/results/{id}/{kind}",
    responses=doc.FILE | doc.errors(404),
    summary="A part of a result",
    **doc.PLAIN,
)
async def result(  # type: ignore[no-untyped-def]  # noqa: ANN201
    request: Request,
    id: Annotated[str, Path(max_length=64, examples=["9Kx0..."])],
    kind: Annotated[str, Path(max_length=64, examples=["mask.png"])],
    slice: Annotated[int | None, Query(ge=0, le=2**31, description="Which, as shown.")] = None,
):
    """A picture, a map or the figures.

    To draw, one slice of bytes row by row, with its sides in `X-Height`, `X-Width` and `X-Depth`:
    `image.raw` (float32, little-endian), `mask.raw`, `source.raw`, `members.raw` (a class a pixel),
    `uncertainty.raw` and `disagreement.raw` (255 = 1 bit). To keep: as the answer's `links` say.
    """
    service = _service(request)
    entry = service.store.get(id)
    name, dot, ending = kind.partition(".")
    ending = dot + ending
    if kind == "figures.json":
        return _attached(JSONResponse(entry.answer), kind)
    if ending == ".raw" and name in RAW:
        rendering = Rendering(entry.folder, entry.answer)
        content, sides = await asyncio.to_thread(rendering.raw, name, slice or 0)
        told = dict(zip(("X-Height", "X-Width", "X-Depth"), map(str, sides), strict=True))
        return Response(content, media_type=TYPES[".raw"], headers=told)
    if ending in (".png", ".nii.gz") and f"{name}.nii.gz" in kinds(entry.answer):
        number = slice if ending == ".png" else None
        return _attached(await _file(service, id, name, ending, number, TYPES[ending]), kind)
    offered = ", ".join([*kinds(entry.answer), *(f"{name}.raw" for name in RAW)])
    raise Refusal(404, "no-such-kind", "A result has no such part.", allowed=offered)


async def _file(
    service: Service, id: str, name: str, ending: str, number: int | None, media: str
) -> Response:
    entry = service.store.get(id)
    rendering = Rendering(entry.folder, entry.answer)

    def content() -> bytes:
        with entry.lock:
            return rendering.file(name, ending, number).read_bytes()

    found = await asyncio.to_thread(content)
    service.store.measure(id)
    return Response(found, media_type=media)


def _attached(response: Response, name: str) -> Response:
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@router.delete(
    "/api/results/{id}", status_code=204, responses=doc.errors(404), summary="Forget a result"
)
async def delete(request: Request, id: Annotated[str, Path(max_length=64)]) -> None:
    """Remove a result now."""
    _service(request).store.delete(id)


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", responses=doc.errors(), summary="Whether it works")
async def health(request: Request) -> schemas.Health:
    """Answers as long as the server does, with the workers that are ready; asks for no token."""
    pool = _service(request).pool
    return schemas.Health(status="ok", workers=pool.ready, queue=pool.waiting)


@router.get("/metrics", responses=doc.TEXT | doc.errors(), summary="Counts and times", **doc.PLAIN)
async def counts(request: Request):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """In Prometheus' text format."""
    service = _service(request)
    return Response(service.metrics.text(service.gauges()), media_type=metrics.TYPE)
