"""Many small cases as one test: `parametrize` takes some milliseconds for each."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps


def each(
    names: str | tuple[str, ...], cases: Iterable[object]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: the test is called with every case, as with `parametrize`, in one.

    What fails first is raised, with a note that has the case. Fixtures are those of all cases.
    """
    split = (names,) if isinstance(names, str) else names
    listed = [(case,) if isinstance(names, str) else case for case in cases]

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def every(**given: object) -> None:
            for case in listed:
                try:
                    test(**dict(zip(split, case, strict=True)), **given)
                except BaseException as error:
                    error.add_note(f"with {', '.join(split)} = {case}")
                    raise

        signature = inspect.signature(test)
        kept = [p for name, p in signature.parameters.items() if name not in split]
        every.__signature__ = signature.replace(parameters=kept)
        return every

    return decorated
