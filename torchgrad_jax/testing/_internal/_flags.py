"""What a suite may ask about the machine, the build and how the tests were started."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys

from ... import cuda


def _asked(variable: str) -> bool:
    return os.environ.get(variable, "0") == "1"


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"
IS_LINUX = sys.platform == "linux"
IS_X86 = platform.machine() in ("x86_64", "i386", "AMD64")
IS_ARM64 = platform.machine() in ("arm64", "aarch64")
IS_PPC = platform.machine() == "ppc64le"
IS_S390X = platform.machine() == "s390x"
IS_CI = bool(os.environ.get("CI"))
IS_FILESYSTEM_UTF8_ENCODING = sys.getfilesystemencoding() == "utf-8"
IS_SANDCASTLE = IS_FBCODE = IS_REMOTE_GPU = IS_JETSON = False

TEST_CUDA = cuda.is_available()
TEST_MULTIGPU = TEST_CUDA and cuda.device_count() >= 2
TEST_ACCELERATOR = TEST_CUDA
TEST_MULTIACCELERATOR = TEST_MULTIGPU
TEST_MPS = TEST_XPU = TEST_HPU = TEST_PRIVATEUSE1 = False
TEST_MKL = TEST_CUDNN = TEST_MAGMA = TEST_CUDA_GRAPH = False
TEST_NUMPY = True
TEST_SCIPY = _has("scipy")
TEST_NUMBA = _has("numba")
TEST_DILL = _has("dill")
TEST_LIBROSA = _has("librosa")
TEST_OPT_EINSUM = _has("opt_einsum")
TEST_TRANSFORMERS = _has("transformers")
HAS_HYPOTHESIS = _has("hypothesis")

TEST_WITH_SLOW = _asked("PYTORCH_TEST_WITH_SLOW")
TEST_SKIP_FAST = _asked("PYTORCH_TEST_SKIP_FAST")
TEST_WITH_SLOW_GRADCHECK = _asked("PYTORCH_TEST_WITH_SLOW_GRADCHECK")
TEST_WITH_ROCM = TEST_WITH_ASAN = TEST_WITH_TSAN = TEST_WITH_UBSAN = TEST_WITH_DEV_DBG_ASAN = False
TEST_WITH_CROSSREF = TEST_WITH_TORCHDYNAMO = TEST_WITH_TORCHINDUCTOR = False
TEST_WITH_AOT_EAGER = TEST_WITH_MTIA = TEST_WITH_TV = TEST_CUDA_MEM_LEAK_CHECK = False
TEST_WITH_COMPILED_AUTOGRAD = False

SEED = 1234
GRADCHECK_NONDET_TOL = 0.0
NATIVE_DEVICES = ("cpu", "cuda", "xpu", "meta", "mps", "mtia")

# Builds and machines that tests never run on here, and services of torch's own test runners.
TEST_ACL = TEST_Z3 = TEST_ONEDNN = TEST_FAIRSEQ = TEST_CUDA_CUDSS = TEST_NVMATH = TEST_CUTEDSL = False
TEST_CUDA_PYTHON_BINDINGS = TEST_CUDA_GRAPH_CONDITIONAL_NODES = TEST_WITH_MIOPEN_SUGGEST_NHWC = False
IS_AVX512_VNNI_SUPPORTED = IS_CPU_EXT_SVE_SUPPORTED = IS_CPU_CAPABILITY_SVE = IS_CPU_CAPABILITY_SVE256 = False
NOTEST_CPU = NO_MULTIPROCESSING_SPAWN = TEST_IN_SUBPROCESS = TEST_DISCOVER = RERUN_DISABLED_TESTS = False
IN_RE_WORKER = TEST_WITHOUT_COMPILED_AUTOGRAD = TEST_SKIP_CUDAGRAPH = EXPANDABLE_SEGMENTS = False
MACOS_VERSION = -1.0
MI200_ARCH, MI300_ARCH, MI350_ARCH = ("gfx90a",), ("gfx942",), ("gfx950",)
NAVI3_ARCH = ("gfx1100", "gfx1101")
NAVI4_ARCH = ("gfx1200", "gfx1201")
NAVI_ARCH = ("gfx1030", *NAVI3_ARCH, *NAVI4_ARCH)
