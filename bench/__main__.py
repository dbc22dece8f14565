"""`python -m bench` runs every benchmark, `python -m bench NAME ...` the named ones."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def benchmarks() -> list[str]:
    """Modules of this package with a `main`."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    return [n for n in names if hasattr(import_module(f"bench.{n}"), "main")]


def main() -> None:
    """Runs them one after another; exits 2 in one sentence for a name that there is not."""
    known = benchmarks()
    for name in sys.argv[1:] or known:
        if name not in known:
            print(f"bench: {name!r} is unknown; there are {', '.join(known)}", file=sys.stderr)
            sys.exit(2)
        print(f"## {name}", flush=True)
        import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main()
