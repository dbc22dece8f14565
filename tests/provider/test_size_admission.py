"""Which sizes of a cluster are compiled when they change from run to run."""

from ep_nnapi.provider.size_admission import MOST_WAITING, SizeAdmission


def test_the_first_sizes_are_compiled_when_they_are_met():
    admission = SizeAdmission(2)
    for sizes in ("a", "b"):
        assert admission.admits(sizes)
        admission.add_compilation(sizes, 1.0)
    assert not admission.admits("c")


def test_others_are_when_their_runs_have_taken_as_long_as_a_compilation():
    admission = SizeAdmission(1)
    admission.add_compilation("a", 1.0)
    assert admission.add_cpu_run("b", 0.75)
    assert not admission.add_cpu_run("c", 0.5)
    assert not admission.admits("b")
    admission.add_cpu_run("b", 0.25)
    assert admission.admits("b")
    admission.add_compilation("b", 1.0)
    assert not admission.admits("b")  # evicted, it waits again


def test_only_the_first_of_all_waiting_runs_is_the_first():
    admission = SizeAdmission(1)
    admission.add_compilation("a", 1.0)
    assert admission.add_cpu_run("b", 1.0)
    admission.add_compilation("b", 1.0)  # none waits any more
    assert not admission.add_cpu_run("c", 1.0)


def test_none_waits_without_a_limit():
    admission = SizeAdmission(None)
    for sizes in range(9):
        admission.add_compilation(sizes, 1.0)
    assert admission.admits(9)


def test_sizes_that_never_repeat_are_forgotten():
    admission = SizeAdmission(1)
    admission.add_compilation("a", 1.0)
    for sizes in range(MOST_WAITING + 1):
        admission.add_cpu_run(sizes, 0.6)
    for sizes, admitted in ((0, False), (MOST_WAITING, True)):
        admission.add_cpu_run(sizes, 0.6)
        assert admission.admits(sizes) is admitted
