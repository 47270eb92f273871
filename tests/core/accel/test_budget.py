"""Memory: live tensors, counted exactly, so that the machine's noise plays no part."""

import platform
import subprocess
import sys
import weakref
from statistics import median

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import sitta
from sitta.models import UNet


class Watch(TorchDispatchMode):
    """Bytes of the storages that are alive, and their peak."""

    def __init__(self):
        super().__init__()
        self.seen, self.now, self.peak = set(), 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(t, torch.Tensor):
                self._add(t.untyped_storage())
        return out

    def _add(self, storage):
        key, size = storage._cdata, storage.nbytes()
        if key not in self.seen:
            self.seen.add(key)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key, size):
        self.seen.discard(key)
        self.now -= size


def peak(call):
    with Watch() as watch, torch.no_grad():
        call()
    return watch.peak


def test_one_member_at_once_needs_little_more_than_a_plain_forward():
    net, image = UNet.preset("compact").eval(), torch.rand(1, 128, 128)
    plain = peak(lambda: net(image[None]))
    one, whole = sitta.InTEnt(net, members_at_once=1), sitta.InTEnt(net)
    assert plain > 5e6
    assert peak(lambda: one(image)) <= 1.3 * plain
    assert peak(lambda: whole(image)) > 4 * plain  # so that the watch does see what it should


def test_building_copies_no_weights():
    with torch.device("meta"):
        shapes = UNet.preset("paper")
    net = shapes.to_empty(device="cpu")
    watch = Watch()
    with watch:
        sitta.InTEnt(net)
    assert watch.peak < 1e5


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="tells of glibc alone")
def test_a_pass_finds_the_memory_of_the_one_before():
    """Fresh pages are counted by the system; without the allocator's setting about ten thousand."""
    code = """if True:
        import resource, torch, sitta
        from sitta.core.accel import allocator
        allocator.keep_between_passes()
        torch.set_num_threads(1)
        adapt = sitta.InTEnt(sitta.models.UNet.preset("compact").eval())
        image, pages = torch.rand(1, 128, 128), []
        for _ in range(8):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            adapt(image)
            pages.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        print(*pages)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, *later = map(int, done.stdout.split())
    assert median(later) < 2000 < first, done.stdout  # where blocks come to lie is chance


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="tells of glibc alone")
def test_a_process_of_our_own_keeps_blocks_of_any_size():
    """Blocks of 40 to 160 MB, which glibc gives back at once otherwise, wherever they lie."""
    code = """if True:
        import resource, torch
        from sitta.core.accel import allocator
        allocator.keep_everything()
        pages = []
        for _ in range(24):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            blocks = [torch.ones(size << 20) for size in (10, 20, 40)]
            del blocks
            pages.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        print(*pages)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, *later = map(int, done.stdout.split())
    assert min(later) < 100 < 40_000 < first, done.stdout
