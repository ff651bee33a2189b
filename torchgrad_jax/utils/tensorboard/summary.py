"""Summaries: the records that TensorBoard shows, by its own classes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from ..._engine.tensor import Tensor
from ._arrays import histogram_numbers, make_np, picture


def scalar(
    name: str, tensor: Any, collections: Any = None, new_style: bool = False, double_precision: bool = False
) -> Any:  # fmt: skip
    """A number."""
    array = make_np(tensor).squeeze()
    if array.ndim != 0:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions). Was given size: {array.size} and {array.ndim} "
            "dimensions."
        )
    value = float(array)
    if not new_style:
        return Summary(value=[Summary.Value(tag=name, simple_value=value)])
    proto = (
        TensorProto(double_val=[value], dtype="DT_DOUBLE")
        if double_precision
        else TensorProto(float_val=[value], dtype="DT_FLOAT")
    )
    return Summary(value=[Summary.Value(tag=name, tensor=proto, metadata=_of("scalars"))])


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """A histogram of values."""
    numbers = histogram_numbers(make_np(values).astype(float), bins, max_bins)
    return Summary(value=[Summary.Value(tag=name, histo=HistogramProto(**numbers))])


def histogram_raw(
    name: str, min: Any, max: Any, num: Any, sum: Any, sum_squares: Any, bucket_limits: Any, bucket_counts: Any
) -> Any:  # fmt: skip
    """A histogram that the caller made."""
    proto = HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits, bucket=bucket_counts
    )  # fmt: skip
    return Summary(value=[Summary.Value(tag=name, histo=proto)])


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """A picture, or several in a grid."""
    from PIL import Image

    pixels = picture(tensor, dataformats)
    height, width, channels = pixels.shape
    size = int(width * rescale), int(height * rescale)
    with io.BytesIO() as file:
        Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS).save(file, format="PNG")
        encoded = file.getvalue()
    made = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=encoded
    )
    return Summary(value=[Summary.Value(tag=tag, image=made)])


def text(tag: str, text: str) -> Any:
    """A text."""
    proto = TensorProto(
        dtype="DT_STRING",
        string_val=[text.encode()],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    told = _of("text", TextPluginData(version=0).SerializeToString())
    return Summary(value=[Summary.Value(tag=tag + "/text_summary", metadata=told, tensor=proto)])


def hparams(
    hparam_dict: Any = None, metric_dict: Any = None, hparam_domain_discrete: Any = None
) -> tuple[Any, Any, Any]:
    """An experiment with its hyperparameters and the names of its metrics, its start, and its end."""
    for name, value in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(value, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    domains = hparam_domain_discrete or {}
    _check_domains(domains, hparam_dict)
    start = plugin_data_pb2.SessionStartInfo()
    infos = []
    for name, value in hparam_dict.items():
        if value is None:
            continue
        kind, number = _hyperparameter(value)
        setattr(start.hparams[name], kind, number)
        infos.append(_information(name, kind, domains.get(name)))
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=k)) for k in metric_dict]
    done = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics)
    return (
        _session(metadata.EXPERIMENT_TAG, experiment=experiment),
        _session(metadata.SESSION_START_INFO_TAG, session_start_info=start),
        _session(metadata.SESSION_END_INFO_TAG, session_end_info=done),
    )


def _check_domains(domains: Any, given: dict[str, Any]) -> None:
    if not isinstance(domains, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for name, values in domains.items():
        fits = name in given and isinstance(values, list)
        if not (fits and all(isinstance(v, type(given[name])) for v in values)):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}]."
            )


def _hyperparameter(value: Any) -> tuple[str, Any]:
    # A bool is a number here: torch asks for numbers first.
    if isinstance(value, int | float):
        return "number_value", value
    if isinstance(value, str):
        return "string_value", value
    if isinstance(value, Tensor):
        return "number_value", make_np(value)[0]
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def _information(name: str, kind: str, domain: list[Any] | None) -> Any:
    from google.protobuf import struct_pb2

    known = {"number_value": "DATA_TYPE_FLOAT64", "string_value": "DATA_TYPE_STRING"}[kind]
    values = domain and struct_pb2.ListValue(values=[struct_pb2.Value(**{kind: v}) for v in domain])
    return api_pb2.HParamInfo(
        name=name, type=api_pb2.DataType.Value(known), domain_discrete=values or None
    )


def _session(tag: str, **content: Any) -> Any:
    data = plugin_data_pb2.HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content)
    told = _of(metadata.PLUGIN_NAME, data.SerializeToString())
    return Summary(value=[Summary.Value(tag=tag, metadata=told)])


def _of(plugin: str, content: bytes | None = None) -> Any:
    return SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    )


def figure_to_image(figures: Any, close: bool = True) -> np.ndarray[Any, Any]:
    """Pixels of a matplotlib figure, channels first; of a list of them, stacked."""
    import matplotlib.backends.backend_agg as agg
    import matplotlib.pyplot as plt

    if isinstance(figures, list):
        return np.stack([figure_to_image(f, close) for f in figures])
    canvas = agg.FigureCanvasAgg(figures)
    canvas.draw()
    width, height = figures.canvas.get_width_height()
    pixels = np.frombuffer(canvas.buffer_rgba(), dtype=np.uint8).reshape(height, width, 4)
    if close:
        plt.close(figures)
    return np.moveaxis(pixels[:, :, :3], 2, 0)
