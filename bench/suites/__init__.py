"""The suites of bench/suites.py, one module a field. A module registers its suites when it is imported."""
