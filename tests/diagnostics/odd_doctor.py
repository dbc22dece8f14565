"""A server of `doctor` whose workers fail themselves."""

from ep_nnapi.workers import Data, serve, set_up_worker


def main() -> None:
    serve(odd)


def odd(request: Data) -> None:
    set_up_worker(request["folder"])
    raise ValueError("odd")
