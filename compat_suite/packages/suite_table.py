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
    also: str = ""
    """What else is imported, named in full: a resolver would install another torch beside the one to compare with."""
    ignore: tuple[str, ...] = ()
    """Parts of paths that are left out."""
    args: tuple[str, ...] = ()
    path: tuple[str, ...] = (".",)
    """Folders of the archive to import from."""
    env: Mapping[str, str] = field(default_factory=dict)
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


_GP = "jaxtyping wadler-lindig scikit-learn joblib threadpoolctl narwhals scipy mpmath"
_HUB = (
    "huggingface_hub httpx httpx2 httpcore httpcore2 h11 anyio idna certifi truststore filelock fsspec tqdm pyyaml "
    "packaging typer typing_extensions rich click shellingham regex hf-xet"
)
_HF = f"transformers==5.23.0 accelerate==1.15.0 safetensors tokenizers psutil parameterized pillow {_HUB}"

SUITES = {
    suite.name: suite
    for suite in (
        Suite("accelerate", "accelerate", "1.15.0", also=_HF + " peft==0.21.2"),
        Suite("advertorch", "advertorch", "0.2.3", also="torchvision==0.29.2 pillow"),
        Suite("array_api_compat", "array-api-compat", "1.16.0", path=()),
        Suite(
            "backpack", "backpack-for-pytorch", "1.7.1", tests=("test",), also=f"einops unfoldNd torchvision==0.29.2 pillow pytorch-memlab calmsize pandas python-dateutil pytz tzdata six {_GP}",
            ignore=("test/benchmark",), args=("-m", "not montecarlo"),
        ),
        Suite("blitz", "blitz-bayesian-pytorch", "0.2.8", tests=("blitz",), also="torchvision==0.29.2 pillow"),
        Suite(
            "curvlinops", "curvlinops-for-pytorch", "3.0.1", tests=("test",), args=("-m", "not montecarlo"),
            also=f"backpack-for-pytorch==1.7.1 unfoldNd einops einconv opt-einsum tqdm linear-operator==0.6.1 {_GP}",
        ),
        Suite("e3nn", "e3nn", "0.6.0", also="opt-einsum opt_einsum_fx"),
        Suite(
            "einops", "einops", "0.8.2", tests=("einops/tests",), also="parameterized", path=(),
            env={"EINOPS_TEST_BACKENDS": "numpy,torch"},
        ),
        Suite("einx", "einx", "0.4.3", tests=("test",), also="frozendict loguru einops", path=()),
        Suite(
            "gpytorch", "gpytorch", "1.15.2", tests=("test",), also=_GP + " linear-operator==0.6.1",
            ignore=("keops", "pyro_integration", "test/examples"),
        ),
        Suite(
            "ignite", "pytorch-ignite", "0.5.5", also=f"torchvision==0.29.2 pillow tqdm pandas python-dateutil pytz tzdata six {_GP}",
            ignore=("distributed", "clearml", "mlflow", "neptune", "polyaxon", "visdom", "wandb"),
        ),
        Suite("linear_operator", "linear-operator", "0.6.1", tests=("test",), also=_GP),
        Suite("minimize", "pytorch-minimize", "0.1.0", also="scipy"),
        Suite("nflows", "nflows", "0.14", also="torchtestcase matplotlib contourpy cycler fonttools kiwisolver pyparsing pillow python-dateutil six tqdm", install=False),
        Suite("nngeometry", "nngeometry", "0.4", also="torchvision==0.29.2 pillow"),
        Suite(
            "norse", "norse", "1.1.0", tests=("norse",), also="nir nirtorch torchvision==0.29.2 pillow h5py matplotlib contourpy cycler fonttools kiwisolver pyparsing python-dateutil six",
            ignore=("norse/benchmark", "norse/task"), install=False,
        ),
        Suite(
            "opacus", "opacus", "1.6.0", tests=("opacus/tests",), also=f"opt-einsum hypothesis sortedcontainers torchvision==0.29.2 pillow tqdm {_GP}",
            ignore=("multigpu", "distributed", "ddp", "multidevice"),
        ),
        Suite("opt_einsum", "opt-einsum", "3.4.0", tests=("opt_einsum/tests",), path=()),
        Suite("peft", "peft", "0.21.2", also=_HF + " datasets"),
        Suite("piq", "piq", "0.5.5.post1", also="torchvision==0.29.2 scikit-image imageio lazy-loader tifffile pandas python-dateutil pytz tzdata six"),
        Suite("pytorch_optimizer", "pytorch-optimizer", "4.1.0"),
        Suite(
            "sbi", "sbi", "0.27.0", also=f"cloudpickle nflows==0.14 zuko==1.6.0 skorch==1.4.0 tabulate tqdm pillow matplotlib contourpy cycler fonttools kiwisolver pyparsing python-dateutil six pytest-harvest makefun decopatch tensorboard protobuf grpcio markdown werkzeug tensorboard-data-server torchtestcase pyro-ppl==1.9.2 pyro-api pandas pytz tzdata {_GP}",
            args=("-m", "not slow and not gpu"), ignore=("tutorials", "mini_sbibm", "bm_test", "_gpu", "on_device"),
        ),
        Suite(
            "skorch", "skorch", "1.4.0", tests=("skorch/tests",), also=f"cloudpickle tabulate tqdm flaky pandas python-dateutil pytz tzdata six safetensors {_GP}",
            ignore=("llm", "test_cli", "test_dataset"),
        ),
        Suite("stable_baselines3", "stable-baselines3", "2.9.2", also="gymnasium cloudpickle farama-notifications pandas python-dateutil pytz tzdata six tqdm"),
        Suite("tensorly", "tensorly", "0.10.0", tests=("tensorly",), path=(), env={"TENSORLY_BACKEND": "pytorch"}),
        Suite(
            "thinc", "thinc", "9.1.1", tests=("thinc/tests",), path=(), also="blis murmurhash cymem preshed wasabi srsly catalogue confection pydantic pydantic-core annotated-types typing-inspection mock",
        ),
        Suite("timm", "timm", "1.0.31", also=f"torchvision==0.29.2 safetensors pillow {_HUB}"),
        Suite("tntorch", "tntorch", "1.1.2", also="cloudpickle scipy scikit-learn joblib threadpoolctl narwhals"),
        Suite("torch_harmonics", "torch-harmonics", "0.8.1", also="parameterized"),
        Suite("torch_optimizer", "torch-optimizer", "0.3.0", also="pytorch-ranger"),
        Suite("torch_pruning", "torch-pruning", "1.6.1", also="torchvision==0.29.2 pillow tqdm"),
        Suite("torchani", "torchani", "2.9.0", also="h5py tqdm typer rich ase pandas pyarrow huggingface_hub scipy parameterized python-dateutil pytz tzdata six"),
        Suite(
            "torchopt", "torchopt", "0.7.3", also="optree typing-extensions graphviz", install=False,
            note="The archive lacks the helpers that most of its files import.",
        ),
        Suite("torchsde", "torchsde", "0.2.6", also="scipy trampoline"),
        Suite("transformers", "transformers", "5.23.0", also=_HF),
        Suite("vit_pytorch", "vit-pytorch", "1.26.11", also="einops torchvision==0.29.2 pillow"),
        Suite("xitorch", "xitorch", "0.5.1", tests=("xitorch/_tests",), also="scipy"),
        Suite("zuko", "zuko", "1.6.0"),
    )
}  # fmt: skip
