"""Let the n-th allocation of a decoder fail, for growing n: run by a test, in a process of its own.

Prints what is neither the image nor an ``InvalidImage``, and how many reads were refused.
"""

import sys
import warnings

import numpy as np
from nibabel.externals.oset import OrderedSet

from sitta.data.formats import FORMATS
from sitta.data.images import read
from sitta.errors import InvalidImage
from tests.data import fuzz

MOST = 50_000  # allocations, more than any of these files takes


def failing(decoder, number):
    """A decoder whose n-th allocation fails."""
    import _testcapi  # not every Python is installed with it

    def decode(*args):
        _testcapi.set_nomemory(number, number + 1)
        try:
            return decoder(*args)
        finally:
            _testcapi.remove_mem_hooks()

    return decode


def outcome(path, number, expected):
    """What a read comes to: '' if the image is right, else a word."""
    decoders = {each: each.read for each in FORMATS.values()}
    for each, decoder in decoders.items():
        each.read = failing(decoder, number)
    try:
        return "" if np.array_equal(read(path).pixels, expected) else "other pixels"
    except InvalidImage:
        return "refused"
    except Exception as error:
        return type(error).__name__
    finally:
        for each in decoders:
            del each.read


def main():
    warnings.simplefilter("ignore")
    # nibabel's destructor of an extension list never ends once an allocation in it has failed:
    # the time limit for a file is what ends that. Here the garbage collector frees the list.
    del OrderedSet.__del__
    refused, number = 0, 1
    images = {}
    for name in fuzz.seeds():
        try:
            images[fuzz.CORPUS / name] = read(fuzz.CORPUS / name).pixels
        except InvalidImage:
            continue
    while number < MOST:
        for path, expected in images.items():
            result = outcome(path, number, expected)
            refused += result == "refused"
            if result not in ("", "refused"):
                sys.stdout.write(f"{path.name}, allocation {number}: {result}\n")
        number += max(1, number // 6)
    sys.stdout.write(f"{refused} refused\n")


if __name__ == "__main__":
    main()
