"""What the service says, as types: for the OpenAPI document and its examples."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Told(BaseModel):
    model_config = ConfigDict(protected_namespaces=())


class About(_Told):
    """What this is."""

    name: str = "Sitta"
    version: str
    use: str = Field(examples=["For research. Not a medical device."])
    documentation: str = Field(examples=["/openapi.json"])


class Problem(_Told):
    """Why something was refused."""

    code: str = Field(description="For programs.", examples=["bad-image"])
    message: str = Field(
        description="One sentence for people.", examples=["a.png is empty (0 bytes)."]
    )
    allowed: str | None = Field(description="What would have been accepted.", default=None)
    fix: str | None = Field(description="What to do.", default=None)


class Error(_Told):
    """Every answer of 4xx and 5xx."""

    error: Problem


class Model(_Told):
    """A model that is served."""

    name: str = Field(examples=["phantom-alder"])
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


class Models(_Told):
    """All models."""

    models: list[Model]


class Setting(_Told):
    """A setting of a method."""

    name: str = Field(examples=["strategy"])
    kind: str = Field(description="choice, number, integer, boolean or text.")
    many: bool = Field(description="A list: JSON, or text with commas.")
    optional: bool = Field(description="Whether null is allowed.")
    default: Any
    choices: list[str] | None
    minimum: float | None
    maximum: float | None
    help: str


class Method(_Told):
    """A way to adapt."""

    name: str = Field(examples=["intent"])
    title: str
    summary: str
    default: bool
    settings: list[Setting]


class Methods(_Told):
    """All methods."""

    methods: list[Method]


class Notes(_Told):
    """What the notes in an answer mean."""

    notes: dict[str, str]
    serious: list[str] = Field(description="Those for which a person should look.")


class Bounds(_Told):
    """How much one client may ask for."""

    upload_bytes: int
    pixels: int = Field(description="Rows x columns x slices x channels.")
    slices: int
    files: int
    seconds: float
    keep_seconds: float = Field(description="How long results are kept.")


class Sample(_Told):
    """A phantom image to try."""

    name: str
    title: str
    model: str


class Samples(_Told):
    """All samples."""

    samples: list[Sample]


class Row(_Told):
    """The figures of one slice, or of one volume."""

    slice: int | None
    agreement: float | None
    uncertainty: float | None
    disagreement: float | None
    change: float | None
    distance: float | None
    area: float | None
    area_source: float | None
    doubt: float | None
    look: bool
    notes: list[str]
    weights: list[float | None]
    entropies: list[float | None]
    areas: list[float | None]


class Intensity(_Told):
    """The image's own values."""

    low: float
    high: float
    window: list[float] = Field(description="A range to show them in.")


class Answer(_Told):
    """What an image came to."""

    id: str
    name: str
    model: str
    method: str
    settings: dict[str, Any]
    kind: str
    shape: list[int]
    spacing: list[float] | None
    channels: int
    slices: int
    shown: int = Field(description="The slice to look at first.")
    dims: int
    classes: list[str]
    lambdas: list[float]
    source_member: int | None
    activation: str
    intensity: Intensity
    doubt: float | None
    look: bool
    seconds: float
    rows: list[Row]
    links: dict[str, str]


class Health(_Told):
    """Whether the service works."""

    status: str = "ok"
    workers: int
    queue: int
