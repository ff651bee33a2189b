"""The loops of torchaudio's filters, which it calls where its libraries in C++ would be loaded."""

import numpy as np
import pytest

import torchgrad_jax as tg

for name in ("_torchaudio.abi3.so", "libtorchaudio.abi3.so"):
    tg.ops.load_library(f"/somewhere/torchaudio/lib/{name}")


def test_a_recursive_filter():
    tg.manual_seed(0)
    x, a = tg.randn(2, 3, 20), tg.tensor([[0.2, -0.5, 1.0]] * 3)  # the last coefficient is that of the output itself
    padded = tg.zeros(2, 3, 22)
    tg.ops.torchaudio._lfilter_core_loop(x, a, padded)
    want = np.zeros((2, 3, 22))
    for i in range(20):
        want[:, :, i + 2] = x.numpy()[:, :, i] - 0.2 * want[:, :, i] + 0.5 * want[:, :, i + 1]
    np.testing.assert_allclose(padded.numpy(), want, rtol=1e-4, atol=1e-5)


def test_the_constant_part_is_filtered_out():
    x, temp, out = tg.ones(2, 500), tg.ones(2, 500) * 3, tg.zeros(2, 500)
    tg.ops.torchaudio._overdrive_core_loop(x, temp, tg.zeros(2), tg.zeros(2), out)
    want = [0.5 + 0.75 * 3 * 0.995**i for i in range(500)]
    np.testing.assert_allclose(out.numpy(), [want] * 2, rtol=1e-4)


def test_what_torchaudio_asks_on_import():
    assert tg.ops._torchaudio.cuda_version() is None
    assert tg.ops._torchaudio.is_align_available() is False
    with pytest.raises(NotImplementedError, match="torchaudio::forced_align is not there"):
        tg.ops.torchaudio.forced_align(tg.ones(1))
