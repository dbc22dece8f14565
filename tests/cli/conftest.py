"""The command line run in this process."""

import pytest

from ep_nnapi.cli.main import main
from tests.cli.command import UNUSABLE


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]):
    """Runs the command line here; what it returned and printed, ONNX Runtime's C++ included."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(a) for a in arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def refuses(cli):
    """The arguments are refused: exit 2, nothing on stdout, one sentence on stderr."""

    def check(*arguments: object, says: str) -> None:
        code, out, err = cli(*arguments)
        assert (code, out) == (UNUSABLE, "")
        assert err.startswith("ep-nnapi: ")
        assert err.count("\n") == 1
        assert says in err
        assert "Traceback" not in err

    return check
