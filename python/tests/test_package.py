"""The package's facts are the workspace's.

Guards against: a version or licence changed in one place only.
"""

import pathlib
from importlib import metadata

import pytest

WORKSPACE = pathlib.Path(__file__).parent.parent.parent / "Cargo.toml"


def test_version_and_licence_are_the_workspace_s():
    if not WORKSPACE.exists():
        pytest.skip("not inside the workspace")
    lines = WORKSPACE.read_text().splitlines()
    about = metadata.metadata("faultless")
    assert f'version = "{about["Version"]}"' in lines
    assert f'license = "{about["License-Expression"]}"' in lines
