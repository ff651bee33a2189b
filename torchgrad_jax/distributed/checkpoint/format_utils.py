"""Checkpoints of many files as one file of `torch.save`, and back; also as a program.

`python -m torchgrad_jax.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE`.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from ...serialization import load, save
from ._together import Together
from .default_planner import DefaultSavePlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .state_dict_loader import _load_state_dict
from .state_dict_saver import _save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]

Name = str | os.PathLike[str]


def dcp_to_torch_save(dcp_checkpoint_dir: Name, torch_save_path: Name) -> None:
    """Write what is in a folder into one file.

    Args:
        dcp_checkpoint_dir: the folder.
        torch_save_path: the file.
    """
    found: dict[str, Any] = {}
    _load_state_dict(found, FileSystemReader(dcp_checkpoint_dir), no_dist=True, planner=_EmptyStateDictLoadPlanner())
    save(found, torch_save_path)


def torch_save_to_dcp(torch_save_path: Name, dcp_checkpoint_dir: Name) -> None:
    """Write what is in a file into a folder.

    Args:
        torch_save_path: the file.
        dcp_checkpoint_dir: the folder.
    """
    state = load(torch_save_path, weights_only=False)
    alone = Together(None, alone=True)
    _save(state, FileSystemWriter(dcp_checkpoint_dir), alone, DefaultSavePlanner())


_MODES = {"torch_to_dcp": torch_save_to_dcp, "dcp_to_torch": dcp_to_torch_save}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=list(_MODES), help="which way")
    parser.add_argument("src", help="what is read")
    parser.add_argument("dst", help="what is written")
    args = parser.parse_args()
    if not os.path.exists(args.src):
        raise SystemExit(f"there is no checkpoint at {args.src}")
    _MODES[args.mode](args.src, args.dst)


if __name__ == "__main__":
    main()
