"""Selection of the devices that a client names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_nnapi.nnapi.capi.library_state import devices
from ep_nnapi.nnapi.capi.refusal import bad_data, unexpected_null
from ep_nnapi.nnapi.runtime import Device

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData


def selected_devices(pointer: CData, count: int) -> tuple[Device, ...]:
    """Returns the devices of a list of handles; reading stops at the first invalid one.

    Raises Refused: UNEXPECTED_NULL for a null handle, BAD_DATA for a duplicate or unknown one.
    """
    known, chosen = devices()[0], list[int]()
    for place in range(count):
        handle = pointer[place]
        if handle == 0:
            raise unexpected_null(f"devices[{place}]")
        if handle in chosen:
            raise bad_data(f"devices[{place}] is there twice")
        known[handle]
        chosen.append(handle)
    return tuple(known[handle].device for handle in chosen)
