"""Runs `bigfleetctl` as people do."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


async def bigfleetctl(*arguments: str | Path, **environ: str) -> Said:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bigfleet.ctl.cli", *map(str, arguments)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environ},
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Said(process.returncode, out.decode(), err.decode())
