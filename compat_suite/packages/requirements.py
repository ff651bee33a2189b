"""What the programs need: packages by version, and what those need besides torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Requirement:
    """Packages that a program is about, and those that they import."""

    packages: tuple[str, ...]
    also: tuple[str, ...] = ()


def need(packages: str, also: str = "") -> Requirement:
    """A requirement, from names between spaces."""
    return Requirement(tuple(packages.split()), tuple(also.split()))


VERSIONS = {
    "accelerate": "1.15.0",
    "adabelief-pytorch": "0.2.1",
    "asteroid-filterbanks": "0.4.0",
    "backpack-for-pytorch": "1.7.1",
    "botorch": "0.18.1",
    "captum": "0.9.0",
    "curvlinops-for-pytorch": "3.0.1",
    "dadaptation": "3.2",
    "deepxde": "1.15.0",
    "diffusers": "0.42.1",
    "e3nn": "0.6.0",
    "egnn-pytorch": "0.2.8",
    "einops": "0.8.2",
    "ema-pytorch": "0.8.3",
    "entmax": "1.3",
    "equinox": "0.13.8",
    "flax": "0.12.8",
    "geoopt": "0.5.1",
    "geotorch": "0.4.0",
    "gpytorch": "1.15.2",
    "hessian-eigenthings": "1.0.0a5",
    "higher": "0.2.1",
    "kornia": "0.9.0",
    "laplace-torch": "0.3",
    "lightning": "2.6.6",
    "linear-attention-transformer": "0.19.1",
    "linear-operator": "0.6.1",
    "lion-pytorch": "0.2.5",
    "madgrad": "1.2",
    "monai": "1.6.1",
    "neuraloperator": "2.0.0",
    "nflows": "0.14",
    "nnAudio": "0.3.4",
    "normflows": "1.7.3",
    "norse": "1.1.0",
    "opacus": "1.6.0",
    "optax": "0.2.8",
    "orbax-checkpoint": "0.12.8",
    "peft": "0.21.2",
    "perceiver-pytorch": "0.11.0",
    "performer-pytorch": "1.1.4",
    "prodigyopt": "1.1.2",
    "PyHessian": "0.1",
    "pyro-ppl": "1.9.2",
    "pytorch-crf": "0.7.2",
    "pytorch-ignite": "0.5.5",
    "pytorch-metric-learning": "2.9.0",
    "pytorch-msssim": "1.0.0",
    "pytorch-optimizer": "4.1.0",
    "pytorch-tabnet": "4.1.0",
    "pytorch-warmup": "0.2.0",
    "rotary-embedding-torch": "0.9.1",
    "safetensors": "0.8.0",
    "schedulefree": "1.4.1",
    "segmentation-models-pytorch": "0.6.0",
    "sentence-transformers": "6.2.0",
    "skorch": "1.4.0",
    "snntorch": "1.0.0",
    "sparsemax": "0.1.9",
    "stable_baselines3": "2.9.2",
    "tensordict": "0.15.3",
    "timm": "1.0.31",
    "torch-dct": "0.1.6",
    "torch-ema": "0.3",
    "torch-optimizer": "0.3.0",
    "torch-geometric": "2.8.1",
    "torchcde": "0.2.5",
    "torchcfm": "1.0.7",
    "torchdata": "0.11.0",
    "torchdiffeq": "0.2.5",
    "torchinfo": "1.8.0",
    "torchmetrics": "1.9.0",
    "torchquad": "0.6.0",
    "torchsde": "0.2.6",
    "torchsummary": "1.5.1",
    "torchaudio": "2.11.0",
    "torchrl": "0.14.1",
    "torchtune": "0.6.1",
    "trl": "1.16.0",
    "ultralytics": "8.4.190",
    "torchao": "0.10.0",
    "torchvision": "0.29.2",
    "transformers": "5.23.0",
    "vector-quantize-pytorch": "1.32.0",
    "x-transformers": "2.31.10",
    "zuko": "1.6.0",
}

_GP = "linear-operator jaxtyping wadler-lindig scikit-learn joblib threadpoolctl narwhals scipy mpmath"
_HUB = (
    "huggingface_hub httpx httpx2 httpcore httpcore2 h11 anyio idna certifi truststore filelock fsspec tqdm pyyaml "
    "packaging typer typing_extensions rich click shellingham regex hf-xet"
)
_ARROW = (
    "datasets pyarrow pandas dill multiprocess xxhash python-dateutil six pytz tzdata requests urllib3 "
    "charset-normalizer aiohttp aiosignal attrs frozenlist multidict yarl propcache aiohappyeyeballs"
)
_TUNE = (
    "torchao omegaconf antlr4-python3-runtime sentencepiece tiktoken blobfile lxml pycryptodomex kagglesdk regex "
    f"safetensors tokenizers pillow {_HUB} {_ARROW}"
)
_METRICS = "lightning-utilities"
_ORBAX = (
    "etils msgpack prometheus-client pyyaml tensorstore aiofiles protobuf humanize simplejson psutil uvloop "
    "nest_asyncio typing_extensions"
)
_PLOTS = "matplotlib contourpy cycler kiwisolver pyparsing python-dateutil six fonttools pillow tqdm"
REQUIREMENTS = {
    "accelerate": need("accelerate", f"psutil safetensors {_HUB}"),
    "backpack": need("backpack-for-pytorch", "einops unfoldnd"),
    "botorch": need(
        "botorch", f"gpytorch pyro-ppl pyro-api multipledispatch typing_inspect mypy_extensions tqdm {_GP}"
    ),
    "captum": need("captum", _PLOTS),
    "curvlinops": need("curvlinops-for-pytorch", f"backpack-for-pytorch unfoldnd einops einconv tqdm scipy {_GP}"),
    "diffusers": need(
        "diffusers accelerate",
        f"psutil safetensors pillow importlib_metadata zipp requests urllib3 charset-normalizer {_HUB}",
    ),
    "e3nn": need("e3nn", f"opt-einsum opt_einsum_fx {_GP}"),
    "einops": need("einops"),
    "ema_pytorch": need("ema-pytorch"),
    "entmax": need("entmax"),
    "equinox": need("equinox optax", "absl-py jaxtyping wadler-lindig typing_extensions"),
    "flax": need("flax optax", f"absl-py orbax-checkpoint treescope rich markdown-it-py mdurl pygments {_ORBAX}"),
    "geoopt": need("geoopt", _GP),
    "geotorch": need("geotorch"),
    "gpytorch": need("gpytorch", _GP),
    "hessian_eigenthings": need("hessian-eigenthings", "scipy tqdm"),
    "higher": need("higher"),
    "ignite": need("pytorch-ignite", "tqdm"),
    "kornia": need("kornia", "kornia_rs"),
    "laplace": need(
        "laplace-torch",
        f"asdfghjkl backpack-for-pytorch unfoldnd einops curvlinops-for-pytorch einconv opt-einsum torchmetrics "
        f"{_METRICS} transformers tokenizers safetensors {_HUB} {_GP}",
    ),
    "lightning": need("lightning", f"lightning-utilities torchmetrics {_HUB}"),
    "lion_pytorch": need("lion-pytorch"),
    "monai": need("monai", "scipy"),
    "nflows": need("nflows", f"UMNN {_PLOTS}"),
    "opacus": need("opacus", f"opt-einsum {_GP}"),
    "optax": need("optax", "absl-py"),
    "orbax": need("orbax-checkpoint optax", f"absl-py {_ORBAX}"),
    "optimizers": need("madgrad adabelief-pytorch sparsemax torchinfo torchsummary", "colorama tabulate tqdm"),
    "peft": need("peft", f"transformers accelerate psutil tokenizers safetensors {_HUB}"),
    "pyhessian": need("PyHessian"),
    "pyro": need("pyro-ppl", "pyro-api tqdm"),
    "pytorch_metric_learning": need("pytorch-metric-learning", f"tqdm {_GP}"),
    "pytorch_optimizer": need("pytorch-optimizer", "tqdm"),
    "rotary_embedding_torch": need("rotary-embedding-torch", "einops"),
    "safetensors": need("safetensors"),
    "schedulefree": need("schedulefree prodigyopt dadaptation"),
    "segmentation_models": need("segmentation-models-pytorch torchvision", f"timm pillow safetensors {_HUB}"),
    "skorch": need("skorch", "scikit-learn joblib threadpoolctl narwhals tabulate tqdm scipy"),
    "tensordict": need("tensordict", "cloudpickle pyvers orjson importlib_metadata"),
    "small_models": need("pytorch-crf pytorch-msssim torch-dct egnn-pytorch torch-ema pytorch-warmup", "einops"),
    "timm": need("timm torchvision", f"pillow safetensors {_HUB}"),
    "torch_optimizer": need("torch-optimizer", "pytorch-ranger"),
    "torchcde": need("torchcde", "torchdiffeq torchsde trampoline scipy"),
    "torchdiffeq": need("torchdiffeq", "scipy"),
    "torchmetrics": need("torchmetrics", _METRICS),
    "torchsde": need("torchsde", "trampoline scipy"),
    "torchvision": need("torchvision", "pillow"),
    "transformers": need("transformers", f"tokenizers safetensors {_HUB}"),
    "two_processes": need("lightning", f"lightning-utilities torchmetrics {_HUB}"),
    "vector_quantize": need("vector-quantize-pytorch", "einops einx frozendict loguru torch-einops-utils"),
    "vision_attention": need(
        "linear-attention-transformer performer-pytorch perceiver-pytorch",
        "einops axial-positional-embedding linformer local-attention product-key-memory colt5-attention "
        "hyper-connections",
    ),
    "x_transformers": need("x-transformers", "einops einx frozendict loguru torch-einops-utils"),
    "deepxde": need(
        "deepxde", f"scikit-optimize pyaml scikit-learn joblib threadpoolctl scipy pandas pytz tzdata {_PLOTS}"
    ),
    "filterbanks": need("asteroid-filterbanks nnAudio", "scipy"),
    "neuraloperator": need("neuraloperator", f"tensorly tensorly-torch opt-einsum scipy {_HUB}"),
    "normflows": need("normflows torchcfm", f"POT torchdyn torchdiffeq torchsde torchcde trampoline scipy {_PLOTS}"),
    "sentence_transformers": need(
        "sentence-transformers",
        f"transformers accelerate tokenizers safetensors psutil scikit-learn joblib threadpoolctl narwhals scipy "
        f"{_HUB} {_ARROW}",
    ),
    "spiking_networks": need("snntorch norse", f"nir nirtorch h5py scipy {_PLOTS}"),
    "stable_baselines": need(
        "stable_baselines3", f"gymnasium cloudpickle farama-notifications pandas pytz tzdata {_PLOTS}"
    ),
    "tabnet": need("pytorch-tabnet", "scikit-learn joblib threadpoolctl narwhals scipy tqdm"),
    "torch_geometric": need(
        "torch-geometric",
        "aiohttp aiosignal attrs frozenlist multidict yarl propcache aiohappyeyeballs xxhash tqdm requests urllib3 "
        "charset-normalizer idna certifi fsspec jinja2 markupsafe pyparsing psutil",
    ),
    "torchaudio": need("torchaudio"),
    "torchrl": need(
        "torchrl tensordict", "gymnasium farama-notifications cloudpickle pyvers orjson importlib_metadata"
    ),
    "torchtune": need("torchtune", _TUNE),
    "torchtune_recipe": need("torchtune torchdata", _TUNE),
    "trl": need("trl", f"transformers accelerate tokenizers safetensors psutil peft jinja2 markupsafe {_HUB} {_ARROW}"),
    "ultralytics": need(
        "ultralytics torchvision",
        f"opencv-python-headless requests urllib3 charset-normalizer psutil polars polars-runtime-32 ultralytics-thop "
        f"py-cpuinfo pyyaml scipy {_PLOTS}",
    ),
    "torchquad": need("torchquad", "autoray loguru tqdm scipy"),
    "zuko": need("zuko"),
}
"""By program. Named in full, since a resolver would install another torch beside the one to compare with."""


APART = frozenset({"torchaudio", "torchvision"})
"""Packages that others import where they find them, and that torch cannot load if built for another torch."""


def places(name: str, site: Path) -> list[Path]:
    """The folders that a program finds its packages in."""
    return [site, *([site / "apart"] if APART.intersection(REQUIREMENTS[name].packages) else [])]


def install(names: Iterable[str], site: Path) -> None:
    """Put the packages that some programs need into a folder, without their dependencies."""
    wanted = sorted({p for n in names for p in (*REQUIREMENTS[n].packages, *REQUIREMENTS[n].also)})
    for folder, here in ((site, set(wanted) - APART), (site / "apart", APART.intersection(wanted))):
        pinned = [f"{p}=={VERSIONS[p]}" if p in VERSIONS else p for p in sorted(here)]
        if pinned:
            subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *pinned],
                check=True,
            )
