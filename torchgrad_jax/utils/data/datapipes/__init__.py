"""The base classes of data pipes, which loaders of other packages ask for. The pipes of torch are out of scope."""

from . import datapipe as datapipe
