"""A server of `doctor` whose workers fail themselves."""

from ep_nnapi.workers import JsonObject, serve, set_up_worker


def main() -> None:
    serve(odd)


def odd(request: JsonObject) -> None:
    set_up_worker(request["folder"])
    raise ValueError("odd")
