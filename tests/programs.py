"""Programs in processes of their own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
Done = subprocess.CompletedProcess[str]


def ran(
    *command: object,
    status: int | None = 0,
    timeout: float = 600,
    cwd: str | Path = ROOT,
    **options: object,
) -> Done:
    """The command, which ends with that status (None: any), with what it printed as text.

    It starts in the repository; TimeoutExpired is raised when it hangs.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=timeout, cwd=cwd, **options
    )
    assert status is None or done.returncode == status, done.stdout + done.stderr
    return done


def python(program: str, *words: object, **options: object) -> Done:
    return ran(sys.executable, "-c", program, *words, **options)
