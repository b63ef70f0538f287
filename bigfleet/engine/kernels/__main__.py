"""`python -m bigfleet.engine.kernels build` compiles the kernels into the cache; `where` says where that is."""

import importlib
import os
import sys
import time

from bigfleet.engine.kernels import MODULES, jit
from bigfleet.engine.kernels.home import directory


def main(arguments: list[str]) -> int:
    if arguments == ["where"]:
        sys.stdout.write(f"{directory()}\n")
        return 0
    if arguments != ["build"]:
        sys.stderr.write("usage: python -m bigfleet.engine.kernels build | where\n")
        return 2
    if jit.compiled():
        return 0
    os.environ[jit.MODE_VARIABLE] = "build"
    importlib.reload(jit)
    directory().mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    sys.stdout.write("compiling the engine's kernels (once for each version of them)\n")
    for name in MODULES:
        importlib.import_module(f"bigfleet.engine.kernels.{name}")
    jit.finish()
    sys.stdout.write(f"compiled in {time.perf_counter() - began:.0f} s\n")
    return 0


sys.exit(main(sys.argv[1:]))
