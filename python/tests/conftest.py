"""With FAULTLESS_TEST_REQUIRE=all a skipped test fails, as in `crates/wants`: everything that these tests need can be installed."""

import os

import pytest

REQUIRE = "FAULTLESS_TEST_REQUIRE"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and os.environ.get(REQUIRE) == "all" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{REQUIRE}=all: {item.nodeid} skips: {call.excinfo.value}"
    return report
