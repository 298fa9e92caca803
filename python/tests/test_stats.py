"""The counters: the same in every form.

Guards against: forms that drift apart, OpenMetrics text that no Prometheus would read.
"""

import json

import faultless
import pytest


def test_every_form_has_the_same_counters():
    stats = faultless.stats()
    assert stats["dirty_hits"] >= 0 and len(stats) > 10
    assert set(json.loads(faultless.stats_text("json"))) == set(stats)
    lines = faultless.stats_text().splitlines()
    assert [line.split()[1] for line in lines] == list(stats)
    with pytest.raises(ValueError):
        faultless.stats_text("xml")


def test_open_metrics_can_be_read():
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="no prometheus_client to read it with")
    families = list(parser.text_string_to_metric_families(faultless.stats_text("openmetrics")))
    assert len(families) == len(faultless.stats())
    assert all(len(family.samples) == 1 and family.documentation for family in families)
