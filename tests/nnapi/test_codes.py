"""Feature level codes, as runtimes and devices report them."""

import pytest

from ep_nnapi.nnapi.codes import feature_level_code, feature_level_of_code


@pytest.mark.parametrize("level", range(1, 9))
def test_every_level_has_a_code_of_its_own(level: int) -> None:
    assert feature_level_of_code(feature_level_code(level)) == level


@pytest.mark.parametrize(
    ("code", "level"),
    [
        (26, 0),  # before Android 8.1
        (0, 0),
        (32, 5),  # API levels after 31 brought no operations
        (33, 5),
        (1_000_009, 8),  # newer than what is known here
    ],
)
def test_codes_of_no_level_count_as_the_nearest_lower_one(code: int, level: int) -> None:
    assert feature_level_of_code(code) == level
