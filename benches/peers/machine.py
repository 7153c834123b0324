"""The facts that every figure needs: the machine, the commit, the versions."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import siltstone
import siltstone.index

CHECKOUT = Path(__file__).parent.parent.parent
PACKAGES = ("numpy", "scipy", "hnswlib", "usearch", "faiss-cpu", "bm25s", "rank-bm25", "tantivy", "xxhash")


def machine() -> dict[str, str]:
    """Everything, by name."""
    return {
        "commit": _commit(),
        "siltstone": siltstone.__version__,
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"CPython {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        "path": str(siltstone.index.HashedTfIndex().stats()["simd"]),
        "load": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown",
        "packages": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(CHECKOUT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return f"{commit} with changes" if git("status", "--porcelain", "--untracked-files=no") else commit


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
