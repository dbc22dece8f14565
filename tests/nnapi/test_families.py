"""The modules of a package in which each has its part of one table."""

from collections import defaultdict

from ep_nnapi.litert import lowering as litert
from ep_nnapi.nnapi import host, shapes
from ep_nnapi.nnapi.families import families
from ep_nnapi.nnapi.host import kernels
from ep_nnapi.nnapi.shapes import elementwise
from ep_nnapi.ort_devices import lowering as ort_devices


def test_each_module_is_a_family_in_the_order_of_the_names():
    found = families(shapes.__name__, shapes.__path__)
    assert elementwise in found
    assert [m.__name__ for m in found] == sorted(m.__name__ for m in found)


def test_no_family_has_an_operation_of_another():
    tables = [getattr(m, "SHAPES", {}) for m in families(shapes.__name__, shapes.__path__)]
    assert sum(map(len, tables)) == len(shapes.SHAPES) > 80


def test_packages_are_no_families():
    assert "ep_nnapi.nnapi.host.kernels" not in {
        m.__name__ for m in families(host.__name__, host.__path__)
    }


def test_an_operation_has_one_family_wherever_it_is_computed():
    """A file's name is the family's, or begins with it; shapes from traits are of any family."""
    found = defaultdict(set)
    for package in (shapes, kernels, ort_devices, litert):
        for module in families(package.__name__, package.__path__):
            family = module.__name__.rsplit(".", 1)[-1].split("_")[0]
            if family == "table" or module is elementwise:
                continue
            rows = [spec for row in getattr(module, "ROWS", ()) for spec, _ in row]
            rows += [kernel.spec for kernel in getattr(module, "KERNELS", ())]
            for spec in (*getattr(module, "SHAPES", ()), *rows):
                found[spec.name].add(family)
    assert {name for name, names in found.items() if len(names) > 1} == set()
