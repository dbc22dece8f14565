"""`python -m ep_nnapi.nnapi.capi`: where the library is; `--header DIR` writes its C headers."""

from __future__ import annotations

import argparse
import sys

from ep_nnapi.nnapi.capi import libneuralnetworks_path
from ep_nnapi.nnapi.capi.header import write_header


def main() -> None:
    """Prints the path of the library, or of the header that `--header` writes."""
    parser = argparse.ArgumentParser(prog="python -m ep_nnapi.nnapi.capi", description=__doc__)
    parser.add_argument("--header", metavar="DIR", help="write the headers to DIR/android")
    directory = parser.parse_args().header
    path = write_header(directory) if directory else libneuralnetworks_path()
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
