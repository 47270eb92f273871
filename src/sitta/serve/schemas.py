"""What the service says, as types: for the OpenAPI document and its examples."""

from __future__ import annotations

from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from sitta.prediction.decisions import DECISIONS, MOST_TEXT, NAMES, Decision
from sitta.prediction.scores import every


def like(example: Any, description: str | None = None) -> Any:
    """A field with an example."""
    return Field(description=description, examples=[example])


def example(model: type[BaseModel]) -> dict[str, Any]:
    """An instance made of the examples of all fields."""
    return {name: (field.examples or [None])[0] for name, field in model.model_fields.items()}


def all_of(key: str, item: type[BaseModel]) -> type[BaseModel]:
    """An answer that lists all of a kind under one key."""
    listed: dict[str, Any] = {key: (list[item], ...)}  # type: ignore[valid-type]
    return create_model(key.capitalize(), __doc__=f"All {key}.", **listed)


class About(BaseModel):
    """What this is."""

    name: str = "Sitta"
    version: str
    use: str = like("For research. Not a medical device.")
    documentation: str = like("/openapi.json")


class Problem(BaseModel):
    """Why something was refused."""

    code: str = like("bad-image", "For programs.")
    message: str = like("scan.png is cut short: it cannot be read as PNG (OSError).")
    allowed: str | None = Field(description="What would have been accepted.", default=None)
    fix: str | None = like("copy, download or export it again", "What to do.")


class Error(BaseModel):
    """Every answer of 4xx and 5xx."""

    error: Problem


class Model(BaseModel):
    """A model that is served."""

    name: str = like("phantom-alder")
    title: str
    task: str
    source: str = Field(description="The domain it was trained on.")
    classes: list[str] = Field(description="Foreground classes, from number 1 on.")
    channels: int
    dims: int = Field(description="2: slices; 3: volumes.")
    size: list[int] | None = Field(description="Sides of the network's input.")
    default: bool
    graph: bool = Field(description="An .onnx file: method and settings are built in.")
    method: str = Field(description="The usual one.")
    methods: list[str] = Field(description="Those that apply.")
    settings: dict[str, Any] = Field(description="Built in, of a graph.")
    note: str


class Setting(BaseModel):
    """A setting of a method."""

    name: str = like("strategy")
    title: str = Field(description="Its name in a form.")
    main: bool = Field(description="Whether a form shows it at once.")
    kind: str = Field(description="choice, number, integer, boolean or text.")
    many: bool = Field(description="A list: JSON, or text with commas.")
    optional: bool = Field(description="Whether null is allowed.")
    default: Any
    choices: list[str] | None
    minimum: float | None
    maximum: float | None
    help: str


class Method(BaseModel):
    """A way to adapt."""

    name: str = like("intent")
    title: str
    summary: str
    takes_gradients: bool = Field(description="Whether it updates parameters by gradient steps.")
    default: bool
    settings: list[Setting]


class Notes(BaseModel):
    """What the notes in an answer mean."""

    notes: dict[str, str] = Field(description="A sentence for each code.")
    serious: list[str] = Field(description="Codes that ask a person to check the image.")
    severity: dict[str, str] = Field(description="stop, check or information.")
    advice: dict[str, str] = Field(description="What to do.")
    remedy: dict[str, str] = Field(description="What one click may do: invert, rotate-90, ...")


class Score(BaseModel):
    """A trust score: how to show it, and what it means."""

    name: str = like("agreement")
    title: str
    hint: str = Field(description="What it refers to, in a few words.")
    sentence: str
    better: str = Field(description="Which values speak for a good mask: higher, lower, neither.")
    unit: str = Field(description="A share with % is shown in per cent.")
    digits: int = Field(description="Shown after the point.")
    unknown: str = Field(description="Shown where it is not known.")
    compares: bool = Field(description="Whether it says nothing about a single member.")
    before: str = Field(description="The score of the unadapted model that is shown before it.")
    ends: list[str] = Field(description="The scores that are the ends of its interval.")


class Bounds(BaseModel):
    """How much one client may ask for."""

    upload_bytes: int
    pixels: int = Field(description="Rows x columns x slices x channels.")
    slices: int
    files: int
    seconds: float
    keep_seconds: float = Field(description="How long results are kept.")


class Sample(BaseModel):
    """A phantom image to try."""

    name: str
    title: str
    model: str


class _Row(BaseModel):
    slice: int | None = like(0)
    look: bool = like(False, "Whether a note asks a person to check it.")
    notes: list[str] = like([])
    weights: list[float | None] = like([0.4, 0.6])
    entropies: list[float | None] = like([0.3, 0.2])
    areas: list[float | None] = like([0.09, 0.1])


_SCORES: dict[str, Any] = {s.name: (float | None, like(0.03, s.sentence)) for s in every()}
Row = create_model(
    "Row", __base__=_Row, __doc__="The scores of one slice, or of one volume.", **_SCORES
)


_DECISION: dict[str, Any] = {name: (kind, ...) for name, kind in get_type_hints(Decision).items()}


class Bound(BaseModel):
    """Limits of this model, beyond which a note is raised; null where it has none."""

    agreement: float | None = Field(description="Below it, the members disagree.")
    distance: float | None = Field(description="Above it, the image is far from the source.")


class Intensity(BaseModel):
    """The image's own values."""

    low: float
    high: float
    window: list[float] = Field(description="A range to show them in.")


class PredictionAnswer(BaseModel):
    """The result of one image."""

    id: str = like("Zk3u...")
    name: str = like("scan.dcm")
    group: str = like("", "Results of one image have the same.")
    path: str = like("monday/scan.dcm", "As the client named it among others.")
    model: str = like("phantom-alder")
    method: str = like("intent")
    settings: dict[str, Any] = like({"strategy": "ent-baln"})
    invert: bool = like(False, "Whether the model saw black and white in each other's place.")
    rotate: int = like(0, "Degrees clockwise by which the model saw it turned.")
    kind: str = like("dicom")
    shape: list[int] = like([128, 128])
    spacing: list[float] | None = like([0.5, 0.5])
    marks: list[str] | None = like(["R", "L", "A", "P"], "Left, right, above, below.")
    ends: list[str] | None = like(["I", "S"], "At the first and at the last slice.")
    region: list[list[float]] | None = like(
        [[16.0, 112.0], [0.0, 128.0]], "First and last row and column the model sees; null: all."
    )
    channels: int = like(1)
    slices: int = like(1)
    shown: int = like(0, "The slice to look at first.")
    dims: int = like(2)
    classes: list[str] = like(["organ"])
    colours: list[str | None] = Field([], description="Of the classes.", examples=[["#d55e00"]])
    lambdas: list[float] = like([1.0, 0.0])
    member_names: list[str] = like(["1.00", "0.00"], "The lambda, or what says more.")
    source_member: int | None = like(0)
    activation: str = like("sigmoid")
    limits: Bound = like({"agreement": 0.92, "distance": 0.6})
    intensity: Intensity = like({"low": 0.0, "high": 65535.0, "window": [120.0, 60000.0]})
    doubt: float | None = like(0.03)
    look: bool = like(False)
    seconds: float = like(0.21)
    rows: list[Row] = like([example(Row)])  # type: ignore[valid-type]
    masks: list[str] = like(["adapted", "unadapted"], "Those that a person can choose.")
    threshold: bool = like(True, "Whether the adapted mask takes another threshold.")
    links: dict[str, str] = like({"mask.png": "/api/results/Zk3u.../mask.png"})


class Said(BaseModel):
    """What a person says of a result, or of one slice of it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    slice: int | None = Field(None, ge=0, le=2**31, description="Counted from 0; null: all.")
    decision: str = Field("", description=f"{', '.join(DECISIONS)}; empty: it is open.")
    mask: str = Field("adapted", description=NAMES)
    threshold: float | None = Field(None, description="Of the adapted mask.")
    remark: str = Field("", max_length=MOST_TEXT)
    reviewer: str = Field("", max_length=MOST_TEXT)


Decided = create_model("Decision", __doc__="A row of decisions.csv.", **_DECISION)


class Review(BaseModel):
    """All that is said of a result."""

    decisions: list[Decided]  # type: ignore[valid-type]


class KeptResult(BaseModel):
    """A result of a session."""

    answer: dict[str, Any] = Field(description="As `/api/predict` gave it.")
    decisions: list[Decided]  # type: ignore[valid-type]
    corrected: bool = Field(description="Whether a person drew a mask.")


class Session(BaseModel):
    """What `--session` keeps."""

    session: bool
    results: list[KeptResult]


class SaidOfFile(BaseModel):
    """What a person says of a file of a finished run."""

    model_config = ConfigDict(extra="forbid", strict=True)
    file: str
    decision: str = ""
    remark: str = Field("", max_length=MOST_TEXT)
    reviewer: str = Field("", max_length=MOST_TEXT)


class Chosen(BaseModel):
    """Results, in the order in which they are listed."""

    model_config = ConfigDict(extra="forbid")
    ids: list[str] = Field(max_length=10_000, examples=[["Zk3u..."]])


class Health(BaseModel):
    """Whether the service works."""

    status: str = "ok"
    workers: int
    queue: int
