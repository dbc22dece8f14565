"""Prints what tests have found at the end of a run, whoever of several workers ran them."""

import pytest

SHARE = "share"
"""The property of a test that says what share of a network NNAPI takes."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    shares = [
        str(value)
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, value in report.user_properties
        if name == SHARE and report.when == "call"
    ]
    if shares:
        terminalreporter.section("shares of the networks on NNAPI")
    for share in sorted(shares):
        terminalreporter.line(share)
