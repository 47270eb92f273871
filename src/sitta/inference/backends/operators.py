"""The operators of an ONNX file, read off its bytes before anything runs them.

onnxruntime folds constants when it opens a file: a loop with a constant number of turns would run
there and then. The ``onnx`` package could tell, but reads all weights, and is not needed where
graphs are only run. The format is that of protocol buffers: only names and subgraphs are read.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from sitta.errors import UnsupportedModel

ENDLESS = {"Loop", "Scan", "SequenceMap", "BeamSearch", "GreedySearch", "Sampling"}
MODEL, GRAPH, NODE, ATTRIBUTE, NAME, FUNCTION = range(6)
# What a field holds, by the message that it is in and its number (onnx.proto).
HOLDS = {
    (MODEL, 7): GRAPH,
    (MODEL, 25): FUNCTION,
    (GRAPH, 1): NODE,
    (NODE, 4): NAME,
    (NODE, 5): ATTRIBUTE,
    (ATTRIBUTE, 6): GRAPH,
    (ATTRIBUTE, 11): GRAPH,
}
FIXED = {1: 8, 5: 4}  # bytes of a value, by its wire type
Span = tuple[int, int]


def require_finite(path: Path) -> None:
    """Refuse a graph with loops, which may never end, or functions, which may unfold for ever."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            endless = sorted({name for name in _operators(data) if name in ENDLESS or not name})
    except ValueError as error:  # also for a file of no bytes, which cannot be mapped
        raise UnsupportedModel(
            f"{path} cannot be run: it is damaged, or no ONNX file at all ({error}).",
            fix="export the model again: sitta export MODEL out.onnx",
        ) from error
    if endless:
        raise UnsupportedModel(
            f"{path} holds loops or functions, which may never end "
            f"({', '.join(filter(None, endless)) or 'a function'}).",
            allowed="graphs as sitta export writes them, without any",
            fix="export the model again: sitta export MODEL out.onnx",
        )


def _operators(data: mmap.mmap) -> Iterator[str]:
    """The name of each operator, also in subgraphs; an empty one for a function."""
    left = [(MODEL, (0, len(data)))]
    while left:
        message, span = left.pop()
        for number, (start, end) in _fields(data, span):
            holds = HOLDS.get((message, number))
            if holds == NAME:
                yield data[start:end].decode(errors="replace")
            elif holds == FUNCTION:
                yield ""
            elif holds is not None:
                left.append((holds, (start, end)))


def _fields(data: mmap.mmap, span: Span) -> Iterator[tuple[int, Span]]:
    """Number and place of each field that is a message or text; ValueError for damaged bytes."""
    at, end = span
    while at < end:
        key, at = _varint(data, at)
        key &= 0xFFFFFFFF  # as parsers read it
        wire = key & 7
        if wire == 2:
            length, at = _varint(data, at)
            if length > end - at:
                raise ValueError("cut short")
            yield key >> 3, (at, at + length)
            at += length
        elif wire == 0:
            at = _varint(data, at)[1]
        elif wire in FIXED:
            at += FIXED[wire]
        else:  # groups, which ONNX never had: parsers skip them, with all that they may hide
            raise ValueError(f"wire type {wire}")


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at] if at < len(data) else 0
        value, at = value | (byte & 127) << shift, at + 1
        if byte < 128:
            break
    return value, at
