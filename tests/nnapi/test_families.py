"""The modules of a package in which each has its part of one table."""

from ep_nnapi.nnapi import host, shapes
from ep_nnapi.nnapi.families import families
from ep_nnapi.nnapi.shapes import pooling


def test_each_module_is_a_family_in_the_order_of_the_names():
    found = families(shapes.__name__, shapes.__path__)
    assert pooling in found
    assert [m.__name__ for m in found] == sorted(m.__name__ for m in found)


def test_no_family_has_an_operation_of_another():
    tables = [getattr(m, "SHAPES", {}) for m in families(shapes.__name__, shapes.__path__)]
    assert sum(map(len, tables)) == len(shapes.SHAPES) > 80


def test_packages_are_no_families():
    assert "ep_nnapi.nnapi.host.kernels" not in {
        m.__name__ for m in families(host.__name__, host.__path__)
    }
