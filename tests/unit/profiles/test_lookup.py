"""Profiles are found by id, alias or path; the user's folder goes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from pddplan.errors import InputError
from pddplan.profiles import lookup
from pddplan.profiles.lookup import Kind, canonical, find, names, use_profiles


def test_bundled_sites_are_found() -> None:
    assert "two-sites" in names(Kind.SITES)
    assert find(Kind.SITES, "Two_Sites").name == "two-sites.yaml"


def test_unknown_id_names_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        find(Kind.SITES, "two-site")
    assert "unknown sites 'two-site'; did you mean 'two-sites'?" in caught.value.problems[0].what
    assert "two-sites" in caught.value.problems[0].fix


def test_user_folder_wins_and_top_level_files_are_told_apart_by_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "workloads" / "sites").mkdir(parents=True)
    own = tmp_path / "workloads" / "sites" / "two-sites.yaml"
    own.write_text("schema: sites/1\n")
    flat = tmp_path / "lab.yaml"
    flat.write_text("# mine\nschema: sites/1\naliases: [home, My Lab]\n")
    (tmp_path / "other.yaml").write_text("schema: chip/1\n")
    with use_profiles([tmp_path]):
        assert find(Kind.SITES, "two-sites") == own
        assert find(Kind.SITES, "lab") == flat
        assert find(Kind.SITES, "my-lab") == flat
        assert "other" not in names(Kind.SITES)
    assert find(Kind.SITES, "two-sites") != own
    monkeypatch.setenv(lookup.ENVIRONMENT_VARIABLE, str(tmp_path))
    assert find(Kind.SITES, "two-sites") == own


def test_paths_are_taken_as_they_are() -> None:
    assert find(Kind.CHIP, "some/where") == Path("some/where")
    assert find(Kind.CHIP, "x.yaml") == Path("x.yaml")
    assert canonical(" H200 SXM_141 ") == "h200-sxm-141"


def test_missing_profile_folder_is_said() -> None:
    with pytest.raises(InputError, match="no such folder of profiles"), use_profiles(["/nowhere/at/all"]):
        pass
