"""nms, roi_align and deform_conv2d, which torchvision calls where its library in C++ would be loaded."""

import math

import numpy as np
import pytest

import torchgrad_jax as tg
from torchgrad_jax.autograd import gradcheck

tg.ops.load_library("/somewhere/torchvision/_C.so")
vision = tg.ops.torchvision


def between(image, y, x, clamps):
    """The value of an image between its pixels: with its last pixel repeated for a pixel outside, or zero there."""
    height, width = image.shape
    if clamps and (y < -1 or y > height or x < -1 or x > width):
        return 0.0
    if clamps:
        y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    found = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < height and 0 <= column < width:
                found += image[row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return found


def boxes(n):
    tg.manual_seed(0)
    found = tg.rand(n, 4) * 20
    found[:, 2:] += found[:, :2]
    return found, tg.rand(n)


def overlap(a, b):
    w, h = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1))
    inter = max(w, 0) * max(h, 0)
    return inter / (sum((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)) - inter)


def test_nms_keeps_the_best_of_boxes_that_overlap():
    found, scores = boxes(30)
    kept = vision.nms(found, scores, 0.3).tolist()
    want = []
    for i in scores.argsort(descending=True).tolist():
        if all(overlap(found[i].tolist(), found[k].tolist()) <= 0.3 for k in want):
            want.append(i)
    assert kept == want
    assert 0 < len(kept) < 30
    assert vision.nms(found[:0], scores[:0], 0.3).shape == (0,)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [-1, 2])
def test_roi_align_is_the_mean_of_values_between_pixels(aligned, ratio):
    tg.manual_seed(1)
    image = tg.randn(2, 2, 6, 7)
    rois = tg.tensor([[0, -1.5, 0.5, 5, 6.5], [1, 2, 1, 9, 12], [1, 3, 3, 3.2, 3.1], [0, 0, 0, 6, 5]])
    found = vision.roi_align(image, rois, 0.75, 2, 3, ratio, aligned)
    want = np.zeros(found.shape)
    for k, (n, *box) in enumerate(rois.tolist()):
        x0, y0, x1, y1 = (v * 0.75 - (0.5 if aligned else 0) for v in box)
        w, h = (x1 - x0, y1 - y0) if aligned else (max(x1 - x0, 1), max(y1 - y0, 1))
        ny, nx = (ratio, ratio) if ratio > 0 else (math.ceil(h / 2), math.ceil(w / 3))
        for c, i, j in np.ndindex(2, 2, 3):
            at = [(y0 + h / 2 * (i + (a + 0.5) / ny), x0 + w / 3 * (j + (b + 0.5) / nx)) for a, b in np.ndindex(ny, nx)]
            want[k, c, i, j] = np.mean([between(image[int(n), c].numpy(), y, x, True) for y, x in at])
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-5)


def arguments(dtype=None):
    tg.manual_seed(2)
    x, w, b = tg.randn(2, 4, 5, 6, dtype=dtype), tg.randn(6, 2, 3, 2, dtype=dtype), tg.randn(6, dtype=dtype)
    offset, mask = tg.randn(2, 2 * 2 * 6, 3, 3, dtype=dtype), tg.rand(2, 2 * 6, 3, 3, dtype=dtype)
    return x, w, offset, mask, b


SIZES = (2, 2, 1, 0, 1, 1, 2, 2, True)


def test_deform_conv2d_looks_at_pixels_that_are_moved():
    x, w, offset, mask, b = arguments()
    found = vision.deform_conv2d(x, w, offset, mask, b, *SIZES)
    want = np.zeros(found.shape)
    for n, o, y, z in np.ndindex(*found.shape):
        want[n, o, y, z] = b[o].item()
        for c, i, j in np.ndindex(2, 3, 2):
            channel, k = (o // 3) * 2 + c, i * 2 + j
            at = ((channel // 2) * 6 + k) * 2
            row = y * 2 - 1 + i + offset[n, at, y, z].item()
            column = z * 2 + j + offset[n, at + 1, y, z].item()
            share = mask[n, (channel // 2) * 6 + k, y, z].item() * w[o, c, i, j].item()
            want[n, o, y, z] += share * between(x[n, channel].numpy(), row, column, False)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-4)


def test_gradients():
    tensors = [t.requires_grad_() for t in arguments(tg.float64)]
    assert gradcheck(lambda *t: vision.deform_conv2d(*t, *SIZES), tensors, nondet_tol=1e-9)
    image = tg.randn(1, 2, 5, 5, dtype=tg.float64, requires_grad=True)
    rois = tg.tensor([[0, 0.3, 0.4, 4.2, 3.9]], dtype=tg.float64)
    assert gradcheck(lambda t: vision.roi_align(t, rois, 1.0, 2, 2, -1, False), [image])


def test_others_say_that_they_are_not_there_and_registrations_change_nothing():
    with pytest.raises(NotImplementedError, match="torchvision::roi_pool is not there"):
        vision.roi_pool(tg.ones(1))
    tg.library.Library("torchvision", "IMPL").impl("nms", lambda *a: None, "AutocastCPU")
    tg.library.register_autograd("torchvision::roi_align", lambda ctx, g: None)
    assert vision.nms(tg.tensor([[0.0, 0, 1, 1]]), tg.ones(1), 0.5).tolist() == [0]
    with pytest.raises(OSError, match="Could not load this library"):
        tg.ops.load_library("/somewhere/torchaudio/lib/other.so")
