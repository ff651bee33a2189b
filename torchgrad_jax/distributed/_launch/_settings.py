"""What a launcher was asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Logs:
    """Where the processes write: for each local rank 1 is standard output, 2 standard error, 3 both."""

    folder: str | None
    redirected: dict[int, int]
    copied: dict[int, int]
    shown: frozenset[int] | None
    prefix: str | None


@dataclass(frozen=True)
class Meeting:
    """How the launchers of several machines find each other."""

    static: bool
    host: str
    port: int
    nodes: int
    node_rank: int
    run_id: str
    timeout: float
    is_host: bool | None
    local_addr: str | None


@dataclass(frozen=True)
class Launch:
    """One command, started several times."""

    name: str
    command: tuple[str, ...]
    processes: int
    role: str
    meeting: Meeting
    logs: Logs
    max_restarts: int
    monitor_interval: float
    signals: tuple[str, ...]
    shutdown_timeout: float
    virtual_local_rank: bool
