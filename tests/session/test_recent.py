"""Data used before: newest first, few, and kept from one start to the next."""

from __future__ import annotations

from pathlib import Path

from desktop.session.recent import MOST, Recent


def test_newest_first_once_each_and_not_many(tmp_path: Path) -> None:
    recent = Recent(tmp_path / "recent.json")
    for name in (*"abcdefgh", "c"):
        recent.add(f"/data/{name}")
    assert recent.paths == tuple(f"/data/{name}" for name in "chgfed")
    assert len(recent.paths) == MOST
    assert Recent(tmp_path / "recent.json").paths == recent.paths


def test_a_damaged_list_is_an_empty_one(tmp_path: Path) -> None:
    file = tmp_path / "recent.json"
    for content in (b"", b"{}", b"[1, 2]", b"\xff\xfe"):
        file.write_bytes(content)
        assert Recent(file).paths == ()


def test_a_place_that_cannot_be_written_costs_only_the_list(tmp_path: Path) -> None:
    recent = Recent(tmp_path / "missing" / "recent.json")
    recent.add("/data/a")
    assert recent.paths == ("/data/a",)
