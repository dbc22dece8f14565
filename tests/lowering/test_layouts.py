"""Permutes of a cluster: at its border where possible, inside where necessary, none in vain."""

from tests.calls import Calls, operations, permutes
from tests.layouts import same_numbers

# from an image to an image -------------------------------------------------------------------


def test_convolutions_in_a_row_permute_at_each_border_only():
    g = Calls()
    y = g.conv(g.relu(g.conv(g.input(1, 3, 8, 8), 4)), 2)
    low = g.lower(y)
    assert operations(low) == ["CONV_2D", "CONV_2D"]
    assert permutes(low) == [">x0", f"{y.name}>"]
    same_numbers(g, y)


def test_level_1_convolves_without_transpose():
    """NNAPI 1.0 has no TRANSPOSE: the border does it all."""
    g = Calls()
    y = g.conv(g.relu(g.conv(g.input(1, 3, 8, 8), 4)), 2)
    assert permutes(g.lower(y, level=1)) == [">x0", f"{y.name}>"]


# from an image to a row ----------------------------------------------------------------------


# the model's own transposes ------------------------------------------------------------------


# readers inside and outside ------------------------------------------------------------------


def test_an_operation_between_a_convolution_and_a_stay_behind_follows_the_larger():
    """RELU joins the convolution, whose tensor is the same; the shrunk one is permuted."""
    g = Calls()
    x = g.conv(g.input(1, 3, 8, 8), 4)
    small = g.mean(x, (3,), keep=True)
    y = g.mean(small, (2,), keep=False)
    low = g.lower(y)
    assert permutes(low)[1:] in ([f"MEAN {y.name}"], [])
    same_numbers(g, y)


# constants -----------------------------------------------------------------------------------
