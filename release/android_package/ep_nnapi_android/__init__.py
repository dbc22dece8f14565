"""The C parts of ep-nnapi for Android: a folder for each ABI, beside this file."""

from pathlib import Path


def folder(abi: str) -> Path:
    """Returns the folder with the plugin library and the programs for an ABI, as arm64-v8a.

    Raises ValueError for an ABI that is not here.
    """
    here = Path(__file__).parent
    abis = sorted(path.name for path in here.iterdir() if (path / "nnapi_run").is_file())
    if abi not in abis:
        raise ValueError(f"abi is {abi!r}; it must be one of {', '.join(abis)}")
    return here / abi
