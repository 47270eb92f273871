"""A stand-in for the exporter, for tests alone: InTEnt of one tiny network, written out by hand.

The network has a single BatchNorm, so that all members follow from one convolution. What is written
obeys the contract of ``sitta export``; what torch says of the same images is ``InTEnt(net())``.
"""

import json

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

from sitta._version import __version__

LAMBDAS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
CARD = {
    "source": "phantom/alder",
    "preprocess": {"size": [32, 32]},
    "classes": ["background", "organ"],
    "trust": {"agreement": 0.95, "distance": 0.4},
    "note": "for tests",
}
ABOUT = {
    "format": 1,
    "version": __version__,
    "method": "intent",
    "settings": {"step": 0.2, "lambdas": None, "strategy": "ent-baln", "activation": "auto"},
    "lambdas": list(LAMBDAS),
    "activation": "sigmoid",
    "card": CARD,
}
OUTPUTS = """float[N,1,H,W] probability, int64[N,H,W] mask, float[6,N,1,H,W] members,
    float[6,N] weights, float[6,N] entropies, bool[6,N] usable, float[N] agreement,
    float[N,H,W] uncertainty, float[N,H,W] disagreement, float[N] distance"""
MEMBERS = """
    x = Conv <pads = [2, 2, 2, 2]> (image, enter_weight, enter_bias)
    mean = ReduceMean (x, sides)
    away = Sub (x, mean)
    squares = Mul (away, away)
    var = ReduceMean (squares, sides)
    source_wide = Add (source_var, eps)
    wide = Add (var, eps)
    ratio = Div (wide, source_wide)
    shift = Sub (mean, source_mean)
    shift2 = Mul (shift, shift)
    shifted = Div (shift2, source_wide)
    log = Log (ratio)
    sum1 = Add (ratio, shifted)
    sum2 = Sub (sum1, one)
    sum3 = Sub (sum2, log)
    nats = Mul (sum3, half)
    overflown = IsNaN (nats)
    finite = Where (overflown, largest_number, nats)
    bounded_nats = Clip (finite, zero, largest_number)
    distance = ReduceMean <keepdims = 0> (bounded_nats, map)
    rest = Sub (one, lambdas)
    mean_a = Mul (lambdas, source_mean)
    mean_b = Mul (rest, mean)
    mean_mixed = Add (mean_a, mean_b)
    is_source = Equal (lambdas, one)
    middle = Where (is_source, source_mean, mean_mixed)
    var_a = Mul (lambdas, source_var)
    var_b = Mul (rest, var)
    var_mixed = Add (var_a, var_b)
    mixed = Where (is_source, source_var, var_mixed)
    mixed_wide = Add (mixed, eps)
    deviation = Sqrt (mixed_wide)
    centred = Sub (x, middle)
    normal = Div (centred, deviation)
    active = Relu (normal)
    shape = Shape (image)
    space = Shape <start = 2> (image)
    rows = Concat <axis = 0> (four_channels, space)
    flat = Reshape (active, rows)
    raw = Conv <pads = [1, 1, 1, 1]> (flat, leave_weight, leave_bias)
    whole = Concat <axis = 0> (six, shape)
    logits = Reshape (raw, whole)
    infinite = IsInf (logits)
    not_a_number = IsNaN (logits)
    bad = Or (infinite, not_a_number)
    bad_number = Cast <to = 1> (bad)
    any_bad = ReduceMax (bad_number, member_map)
    fine = Less (any_bad, half)
    usable = Squeeze (fine, member_map)
    counted = Cast <to = 1> (usable)
    clean = Where (fine, logits, zero)
    members = Sigmoid (clean)
"""
WEIGHTS = """
    size = Abs (clean)
    minus = Neg (size)
    soft = Softplus (minus)
    small = Sigmoid (minus)
    product = Mul (size, small)
    nats2 = Add (soft, product)
    entropy = Div (nats2, ln2)
    inside = GreaterOrEqual (clean, zero)
    fore = Cast <to = 1> (inside)
    back = Sub (one, fore)
    fore_pixels = ReduceSum <keepdims = 0> (fore, member_map)
    back_pixels = ReduceSum <keepdims = 0> (back, member_map)
    fore_entropies = Mul (entropy, fore)
    back_entropies = Mul (entropy, back)
    fore_sum = ReduceSum <keepdims = 0> (fore_entropies, member_map)
    back_sum = ReduceSum <keepdims = 0> (back_entropies, member_map)
    fore_some = Max (fore_pixels, one)
    back_some = Max (back_pixels, one)
    fore_mean = Div (fore_sum, fore_some)
    back_mean = Div (back_sum, back_some)
    both = Add (fore_mean, back_mean)
    fore_there = Min (fore_pixels, one)
    back_there = Min (back_pixels, one)
    classes = Add (fore_there, back_there)
    figure = Div (both, classes)
    entropies = Where (usable, figure, one)
    guarded = Where (usable, entropies, nine)
    low = ReduceMin (guarded, first)
    bounded = Where (usable, entropies, zero)
    high = ReduceMax (bounded, first)
    width = Sub (high, low)
    above = Sub (entropies, low)
    floor = Max (width, flat_range)
    power = Div (above, floor)
    is_wide = Greater (width, flat_range)
    used = Where (is_wide, power, zero)
    used_minus = Neg (used)
    exponential = Exp (used_minus)
    kept = Mul (exponential, counted)
    kept_sum = ReduceSum (kept, first)
    weights = Div (kept, kept_sum)
    weights5 = Unsqueeze (weights, member_map)
    parts = Mul (members, weights5)
    probability = ReduceSum <keepdims = 0> (parts, first)
    decided = Greater (probability, half)
    mask4 = Cast <to = 7> (decided)
    mask = Squeeze (mask4, second)
"""
MIXTURE = """
    count = ReduceSum (counted, first)
    share = Div (counted, count)
    share5 = Unsqueeze (share, member_map)
    shared_members = Mul (members, share5)
    mixture = ReduceSum <keepdims = 0> (shared_members, first)
"""
TRUST = """
    shared_bits = Mul (members_bits, share5)
    mean_bits = ReduceSum <keepdims = 0> (shared_bits, first)
    spread = Sub (mixture_bits, mean_bits)
    spread_positive = Relu (spread)
    disagreement = Squeeze (spread_positive, second)
    uncertainty = Squeeze (probability_bits, second)
    hard = Greater (members, half)
    hard_number = Cast <to = 1> (hard)
    lines = Reshape (hard_number, keep_keep_flat)
    area = ReduceSum <keepdims = 0> (lines, third)
    by_image = Transpose <perm = [1, 0, 2]> (lines)
    by_pixel = Transpose <perm = [1, 2, 0]> (lines)
    overlap = MatMul (by_image, by_pixel)
    area_t = Transpose <perm = [1, 0]> (area)
    area_a = Unsqueeze (area_t, third)
    area_b = Unsqueeze (area_t, second)
    total = Add (area_a, area_b)
    total_some = Max (total, one)
    overlap2 = Add (overlap, overlap)
    dice_some = Div (overlap2, total_some)
    there = Greater (total, zero)
    dice = Where (there, dice_some, one)
    counted_t = Transpose <perm = [1, 0]> (counted)
    counted_a = Unsqueeze (counted_t, third)
    counted_b = Unsqueeze (counted_t, second)
    pair = Mul (counted_a, counted_b)
    pair_once = Mul (pair, pairs)
    area_counted = Mul (area, counted)
    largest = ReduceMax <keepdims = 0> (area_counted, first)
    anything = Min (largest, one)
    anything3 = Unsqueeze (anything, two_three)
    counts = Mul (pair_once, anything3)
    number = ReduceSum <keepdims = 0> (counts, two_three)
    dice_counted = Mul (dice, counts)
    dice_sum = ReduceSum <keepdims = 0> (dice_counted, two_three)
    number_some = Max (number, one)
    dice_mean = Div (dice_sum, number_some)
    compared = Greater (number, zero)
    agreement = Where (compared, dice_mean, one)
"""


def net():
    """Two convolutions with running statistics that fit the phantoms of some sites."""
    torch.manual_seed(3)
    enter, norm = nn.Conv2d(1, 4, 5, padding=2), nn.BatchNorm2d(4)
    leave = nn.Conv2d(4, 1, 3, padding=1)
    with torch.no_grad():
        enter.weight.copy_(enter.weight.abs() * torch.tensor([1, 1, 1, -1]).view(4, 1, 1, 1))
        norm.running_mean.copy_(torch.tensor([0.9, 0.8, 0.7, -0.9]))
        norm.running_var.copy_(torch.tensor([0.3, 0.5, 0.4, 0.3]))
        leave.weight.copy_(torch.tensor([0.5, 0.4, 0.4, -0.6]).view(1, 4, 1, 1).expand(1, 4, 3, 3))
        leave.bias.fill_(-4.0)
    found = nn.Sequential(enter, norm, nn.ReLU(), leave)
    found.card = CARD
    return found.eval()


def export(path, without=(), about=ABOUT):
    """Write the graph, without some of its outputs, and what it says about itself."""
    entropies = "".join(map(bits, ("members", "mixture", "probability")))
    body = MEMBERS + WEIGHTS + MIXTURE + entropies + TRUST
    text = f'<ir_version: 10, opset_import: ["" : 18]> whole (float[N,1,H,W] image) => ({OUTPUTS})'
    model = onnx.parser.parse_model(f"{text} {{ {body} }}")
    model.graph.initializer.extend(constants())
    kept = [output for output in model.graph.output if output.name not in without]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    if about is not None:
        told = about if isinstance(about, str) else json.dumps(about)
        onnx.helper.set_model_props(model, {"sitta": told})
    onnx.save(model, path)
    return path


def bits(name):
    """Entropy of a map of probabilities in bits, kept off the logarithm of 0."""
    return f"""
    {name}_in = Clip ({name}, tiny, nearly)
    {name}_out = Sub (one, {name}_in)
    {name}_log = Log ({name}_in)
    {name}_log_out = Log ({name}_out)
    {name}_a = Mul ({name}_in, {name}_log)
    {name}_b = Mul ({name}_out, {name}_log_out)
    {name}_sum = Add ({name}_a, {name}_b)
    {name}_nats = Neg ({name}_sum)
    {name}_bits = Div ({name}_nats, ln2)
"""


def constants():
    enter, norm, _, leave = net()
    column = (4, 1, 1)
    numbers = {"zero": 0, "half": 0.5, "one": 1, "nine": 9, "ln2": np.log(2), "eps": norm.eps}
    numbers |= {"flat_range": 1e-6, "tiny": 1e-12, "nearly": 1 - 1e-7, "largest_number": 3.4e38}
    axes = {"sides": [2, 3], "map": [1, 2, 3], "member_map": [2, 3, 4], "two_three": [1, 2]}
    axes |= {"first": [0], "second": [1], "third": [2], "six": [6]}
    axes |= {"four_channels": [-1, 4], "keep_keep_flat": [0, 0, -1]}
    arrays = {
        "enter_weight": enter.weight.detach().numpy(),
        "enter_bias": enter.bias.detach().numpy(),
        "leave_weight": leave.weight.detach().numpy(),
        "leave_bias": leave.bias.detach().numpy(),
        "source_mean": norm.running_mean.numpy().reshape(column),
        "source_var": norm.running_var.numpy().reshape(column),
        "lambdas": np.array(LAMBDAS, dtype=np.float32).reshape(6, 1, 1, 1, 1),
        "pairs": np.triu(np.ones((6, 6), dtype=np.float32), 1),
    }
    arrays |= {name: np.float32(value) for name, value in numbers.items()}
    arrays |= {name: np.array(value, dtype=np.int64) for name, value in axes.items()}
    return [numpy_helper.from_array(np.asarray(v), name=k) for k, v in arrays.items()]
