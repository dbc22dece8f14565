"""A server of `doctor` on a host whose device is wrong in all that it does not decline."""

from ep_nnapi.diagnostics import doctor_worker
from tests.faulty import FaultyDevice, installed

DEVICE = FaultyDevice(declines=frozenset({"MEAN"}), wrong=2)


def main() -> None:
    with installed(DEVICE):
        doctor_worker.main()
