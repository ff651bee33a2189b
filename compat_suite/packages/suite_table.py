"""The suites: where their tests lie, and what they need besides torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suite:
    """A test-suite in the source archive of a package."""

    name: str
    package: str
    version: str
    tests: tuple[str, ...] = ("tests",)
    repository: str = ""
    """Where to clone from if the archive of the package has no tests; `version` is the commit then."""
    also: str = ""
    """What else is imported, named in full: a resolver would install another torch beside the one to compare with."""
    ignore: tuple[str, ...] = ()
    """Parts of paths that are left out."""
    args: tuple[str, ...] = ()
    path: tuple[str, ...] = (".",)
    """Folders of the archive to import from."""
    env: Mapping[str, str] = field(default_factory=dict)
    doctests: bool = False
    """Whether the tests are the examples in docstrings; each place in `tests` is then run at once."""
    install: bool = True
    """Whether the package is installed as well; its tests may ask for its metadata or compiled parts."""
    limit: int = 600
    """Seconds for a file."""
    note: str = ""
    """Why some tests differ."""

    @property
    def pinned(self) -> str:
        """For pip."""
        return f"{self.package}=={self.version}"

    @property
    def shown(self) -> str:
        """For a table."""
        return f"{self.package} at {self.version}" if self.repository else f"{self.package} {self.version}"


_GP = "jaxtyping wadler-lindig scikit-learn joblib threadpoolctl narwhals scipy mpmath"
_HUB = (
    "huggingface_hub httpx httpx2 httpcore httpcore2 h11 anyio idna certifi truststore filelock fsspec tqdm pyyaml "
    "packaging typer typing_extensions rich click shellingham regex hf-xet"
)
_HF = f"transformers==5.23.0 accelerate==1.15.0 safetensors tokenizers psutil parameterized pillow {_HUB}"
_PANDAS = "pandas python-dateutil pytz tzdata six"
_VISION = ("-p", "compat_suite.packages.vision_operators")
_PLOT = "matplotlib contourpy cycler fonttools kiwisolver pyparsing pillow python-dateutil six"
_BOARD = "tensorboardX tensorboard protobuf markdown werkzeug tensorboard-data-server"
_KORNIA = (
    "augmentation color contrib core enhance feature filters geometry image io losses metrics models morphology "
    "onnx sensors tracking transpiler utils"
)
_METRICS = (
    "regression functional/regression functional/classification classification aggregation.py collections.py "
    "metric.py wrappers utilities functional/pairwise functional/nominal nominal functional/clustering clustering "
    "functional/retrieval retrieval functional/segmentation segmentation functional/shape shape functional/image "
    "image functional/audio audio functional/text text functional/detection detection"
)

SUITES = {
    suite.name: suite
    for suite in (
        Suite("accelerate", "accelerate", "1.15.0", also=_HF + " peft==0.21.2"),
        Suite("array_api_compat", "array-api-compat", "1.16.0", path=()),
        Suite(
            "backpack", "backpack-for-pytorch", "1.7.1", tests=("test",), args=(*_VISION, "-m", "not montecarlo"),
            also=f"einops unfoldNd torchvision==0.29.2 pillow pytorch-memlab calmsize {_PANDAS} {_GP}",
            ignore=("test/benchmark",), limit=3600,
        ),
        Suite(
            "curvlinops", "curvlinops-for-pytorch", "3.0.1", tests=("test",), args=("-m", "not montecarlo"),
            also=f"backpack-for-pytorch==1.7.1 unfoldNd einops einconv opt-einsum tqdm linear-operator==0.6.1 {_GP}",
        ),
        Suite(
            "e3nn", "e3nn", "0.6.0", also="opt-einsum opt_einsum_fx",
            ignore=("cartesian_spherical", "tensor_product_test", "reduce_tensor", "wigner_test"),
            note="Scripted code runs as Python here: wrong shapes raise what Python raises, and not torch.jit.Error. "
            "Four of its files are left out.",
        ),
        Suite(
            "einops", "einops", "0.8.2", tests=("einops/tests",), also="parameterized", path=(),
            env={"EINOPS_TEST_BACKENDS": "numpy,torch"},
        ),
        Suite(
            "einx", "einx", "0.4.3", tests=("test",), also="frozendict loguru einops", path=(),
            note="First-class dimensions of functorch are not there.",
        ),
        Suite(
            "gpytorch", "gpytorch", "1.15.2", tests=("test",), also=_GP + " cloudpickle linear-operator==0.6.1",
            ignore=("keops", "pyro_integration", "test/examples"),
        ),
        Suite(
            "ignite", "pytorch-ignite", "0.5.5", also=f"torchvision==0.29.2 pillow tqdm {_PANDAS} {_GP}", args=_VISION,
            ignore=("distributed", "clearml", "mlflow", "neptune", "polyaxon", "visdom", "wandb"),
        ),
        Suite(
            "kornia", "kornia", "0.9.0", tests=tuple(f"kornia/{p}" for p in _KORNIA.split()), doctests=True,
            also="kornia_rs", args=("-p", "compat_suite.packages.doctest_names"), limit=3600,
        ),
        Suite(
            "linear_operator", "linear-operator", "0.6.1", tests=("test",), also=_GP, limit=1800,
            note="Sparse tensors are out of scope. Pivoted factors of growing size compile a kernel for each.",
        ),
        Suite("minimize", "pytorch-minimize", "0.1.0", also="scipy"),
        Suite(
            "nflows", "nflows", "0.14", also=f"torchtestcase tqdm {_PLOT}", install=False,
            note="Inputs are drawn without a seed, and in some runs one of the tests of inverses leaves its tolerance, "
            "not always the same one.",
        ),
        Suite("nngeometry", "nngeometry", "0.4", also="torchvision==0.29.2 pillow", args=_VISION),
        Suite(
            "norse", "norse", "1.1.0", tests=("norse",), also=f"nir nirtorch torchvision==0.29.2 h5py {_BOARD} {_PLOT}",
            ignore=("norse/benchmark", "norse/task"), install=False,
            note="TorchScript makes a float of an int that is passed for a float; its functions run as Python here.",
        ),
        Suite(
            "opacus", "opacus", "1.6.0", tests=("opacus/tests",), args=_VISION,
            also=f"opt-einsum hypothesis sortedcontainers torchvision==0.29.2 pillow tqdm {_GP}",
            ignore=("multigpu", "distributed", "ddp", "multidevice"),
        ),
        Suite(
            "opt_einsum", "opt-einsum", "3.4.0", tests=("opt_einsum/tests",), path=(),
            note="One test wants a tensor to keep the NumPy object that it was made from; here it keeps its memory.",
        ),
        Suite("peft", "peft", "0.21.2", also=_HF + " datasets"),
        Suite(
            "piq", "piq", "0.5.5.post1", args=_VISION,
            also=f"torchvision==0.29.2 scikit-image imageio lazy-loader tifffile pillow {_PANDAS}",
        ),
        Suite(
            "pytorch_optimizer", "pytorch-optimizer", "4.1.0",
            note="Seven files cannot be read: when imported they give each optimizer a sparse gradient, or count the "
            "graphs of a backend of torch.compile. Others know torch's optimizers by the names of their modules.",
        ),
        Suite(
            "sbi", "sbi", "0.27.0",
            also=f"nflows==0.14 zuko==1.6.0 skorch==1.4.0 pyro-ppl==1.9.2 pyro-api torchtestcase cloudpickle tabulate "
            f"tqdm pytest-harvest makefun decopatch grpcio pytz pandas tzdata {_BOARD} {_PLOT} {_GP}",
            args=("-m", "not slow and not gpu"), ignore=("tutorials", "mini_sbibm", "bm_test", "_gpu", "on_device"),
        ),
        Suite(
            "skorch", "skorch", "1.4.0", tests=("skorch/tests",),
            also=f"cloudpickle tabulate tqdm flaky safetensors {_PANDAS} {_GP}",
            ignore=("llm", "test_cli", "test_dataset"),
        ),
        Suite(
            "stable_baselines3", "stable-baselines3", "2.9.2",
            also=f"gymnasium cloudpickle farama-notifications tqdm {_PANDAS}",
        ),
        Suite(
            "tensorly", "tensorly", "0.10.0", tests=("tensorly",), path=(), env={"TENSORLY_BACKEND": "pytorch"},
            limit=1800,
        ),
        Suite("timm", "timm", "1.0.31", also=f"torchvision==0.29.2 safetensors pillow {_HUB}", args=_VISION),
        Suite(
            "tntorch", "tntorch", "1.1.2", also="cloudpickle scipy scikit-learn joblib threadpoolctl narwhals",
            note="test_round rounds hundreds of tensors of random shapes, each of which compiles kernels of its own.",
        ),
        Suite("torch_harmonics", "torch-harmonics", "0.8.1", also="parameterized"),
        Suite("torch_optimizer", "torch-optimizer", "0.3.0", also="pytorch-ranger"),
        Suite("torch_pruning", "torch-pruning", "1.6.1", also="torchvision==0.29.2 pillow tqdm", args=_VISION),
        Suite(
            "torchani", "torchani", "2.9.0",
            also=f"h5py ase pyarrow scipy parameterized annotated_doc {_PANDAS} {_HUB}",
        ),
        Suite(
            "torchopt", "torchopt", "0.7.3", also="optree typing-extensions graphviz", install=False,
            note="The archive lacks the helpers that most of its files import.",
        ),
        Suite(
            "torchmetrics", "torchmetrics", "1.9.0", tests=tuple(f"src/torchmetrics/{p}" for p in _METRICS.split()),
            doctests=True, path=("src",), also="lightning-utilities scipy", args=("-k", "not plot"), limit=1800,
        ),
        Suite("transformers", "transformers", "5.23.0", also=_HF),
        Suite("vit_pytorch", "vit-pytorch", "1.26.11", also="einops torchvision==0.29.2 pillow"),
        Suite(
            "xitorch", "xitorch", "0.5.1", tests=("xitorch/_tests",), also="scipy", limit=1800,
            note="Normal numbers differ from torch's by a rounding. So two minimizations reach a gradient of 0, "
            "which their solver calls a bug, and of two dozen matrices that are singular but for rounding another one "
            "is refused.",
        ),
        Suite("zuko", "zuko", "1.6.0"),
        # From repositories: these archives have no tests.
        Suite(
            "cola", "cola-ml", "4810da7a4ff4", repository="wilson-labs/cola", install=False,
            also="tqdm cola-plum-dispatch optree scipy beartype",
        ),
        Suite(
            "pfhedge", "pfhedge", "1fc08c73756b", repository="pfnet-research/pfhedge", also="tqdm", install=False,
        ),
        Suite(
            "posteriors", "posteriors", "769204273520", repository="normal-computing/posteriors", install=False,
            also="torchopt==0.7.3 optree tensordict cloudpickle pyvers importlib-metadata zipp orjson graphviz "
            "posteriors==0.1.3",
        ),
        Suite(
            "ptwt", "ptwt", "6c3b62c1fe02", repository="v0lta/PyTorch-Wavelet-Toolbox", path=("src", "."),
            also="pywavelets more-itertools scipy", install=False,
        ),
        Suite(
            "roma", "roma", "8ce9ed98f6bd", repository="naver/roma", tests=("test",), install=False,
            args=("--import-mode=importlib",),
        ),
        Suite(
            "singd", "singd", "1ac69a3590e7", repository="f-dangel/singd", tests=("test",), args=_VISION,
            also="einops torchvision==0.29.2 pillow memory_profiler psutil", install=False,
        ),
        Suite(
            "torch_struct", "torch-struct", "7146de5659ff", repository="harvardnlp/pytorch-struct", install=False,
            also="hypothesis sortedcontainers attrs",
            note="Hypothesis gives each example 200 ms. An example of new shapes may take longer here, as it compiles "
            "kernels.",
        ),
        Suite(
            "torchlpc", "torchlpc", "6085304d5573", repository="yoyololicon/torchlpc", also="numba llvmlite",
            install=False,
        ),
        Suite(
            "zennit", "zennit", "6204e31e1d5d", repository="chr5tphr/zennit", path=("src", "."), args=_VISION,
            also="torchvision==0.29.2 pillow click", install=False,
        ),
        Suite(
            "memcnn", "memcnn", "439ac2673093", repository="silvandeleemput/memcnn", tests=("memcnn",), args=_VISION,
            also="torchvision==0.29.2 pillow tqdm SimpleITK", install=False,
        ),
        Suite(
            "neurodiffeq", "neurodiffeq", "9f6d6e318ce9", repository="NeuroDiffGym/neurodiffeq", install=False,
            also=f"seaborn dill ordered_set requests tqdm scipy {_BOARD} {_PLOT} pandas pytz tzdata",
        ),
        Suite(
            "qpth", "qpth", "528e9f629c7d", repository="locuslab/qpth", tests=("test.py",), install=False,
            also="cvxpy osqp clarabel scs scipy jinja2 markupsafe joblib numdifftools statsmodels patsy "
            "pandas qdldl sparsediffpy highspy cffi pycparser pytz python-dateutil six tzdata packaging",
        ),
        Suite("pot", "pot", "0.9.7", tests=("test",), also="scipy"),
        Suite("betty", "betty-ml", "cb6221f2cc0e", repository="leopard-ai/betty", tests=("test",), install=False,
            also="scikit-learn joblib threadpoolctl narwhals scipy",
        ),
        Suite(
            "dattri", "dattri", "ef50a35e6cdf", repository="TRAIS-Lab/dattri", tests=("test",), install=False,
            args=_VISION, ignore=("benchmark", "script"),
            also=f"torchvision==0.29.2 pydantic pydantic-core annotated-types typing-inspection typing_extensions "
            f"tqdm pyyaml pretty_midi mido importlib_resources requests {_PLOT} {_GP}",
        ),
        Suite(
            "foolbox", "foolbox", "2513a9a8675d", repository="bethgelab/foolbox", install=False,
            args=(*_VISION, "--backend", "pytorch"),
            also="eagerpy gitpython gitdb smmap requests typing_extensions scipy torchvision==0.29.2 pillow responses "
            "urllib3 idna certifi charset-normalizer pyyaml numba llvmlite",
        ),
        Suite(
            "pytorch_kinematics", "pytorch-kinematics", "295e225fcb54", repository="UM-ARM-Lab/pytorch_kinematics",
            path=("src",), install=False,
            also=f"absl-py lxml pyyaml pytorch_seed arm_pytorch_utilities scipy {_PLOT}",
        ),
        Suite(
            "schnetpack", "schnetpack", "4c967da8d6f1", repository="atomistic-machine-learning/schnetpack",
            path=("src",), install=False,
            also="ase scipy h5py tqdm pyyaml fasteners dirsync matscipy vesin hydra-core omegaconf sympy progressbar "
            "antlr4-python3-runtime==4.9.3 pytorch-lightning lightning-utilities torchmetrics==1.9.0 torch_ema rich "
            f"{_PLOT}",
        ),
        Suite(
            "torch_dftd", "torch-dftd", "5377b845102f", repository="pfnet-research/torch-dftd", install=False,
            also=f"ase scipy {_PLOT}",
        ),
        Suite(
            "trak", "traker", "35f8446f0534", repository="MadryLab/trak", install=False, args=_VISION,
            also="tqdm assertpy torchvision==0.29.2 pillow scipy",
        ),
        Suite(
            "vivit", "vivit-for-pytorch", "bf99efd3ee9f", repository="f-dangel/vivit", tests=("test",), args=_VISION,
            also="backpack-for-pytorch==1.7.1 unfoldNd einops torchvision==0.29.2 pillow tqdm scipy", install=False,
        ),
    )
}  # fmt: skip
