"""Rules of the house that no tool checks."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from desktop.resources import resource

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "desktop").rglob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_module_says_what_it_is_for(module: Path) -> None:
    first = module.read_text("utf-8").splitlines()[0]
    assert re.match(r'"""[A-Z].{10,}', first), "the first line states the module's one reason to exist"


def test_no_dialog_runs_a_loop_of_its_own() -> None:
    """Any task that wakes inside such a loop hangs for ever, aiortc's among them: open() and signals instead."""
    banned = re.compile(r"\.exec_?\(|\.getOpenFileNames?\(|\.getSaveFileName\(|\.getExistingDirectory\(|"
                        r"QInputDialog\.get|QMessageBox\.(question|information|warning|critical)\(")
    found = [f"{path.relative_to(ROOT)}:{number}" for path in MODULES
             for number, line in enumerate(path.read_text("utf-8").splitlines(), 1) if banned.search(line)]
    assert found == []


def test_rounds_import_only_the_standard_library_and_errors() -> None:
    allowed = {"desktop.errors"} | (set(sys.stdlib_module_names) - {"asyncio", "threading", "time"})
    for path in (ROOT / "desktop/rounds").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                known = name.startswith("desktop.rounds") or name in allowed or name.partition(".")[0] in allowed
                assert known, f"{path.name} imports {name}"


def test_resources_are_found_beside_the_program() -> None:
    assert resource("icons") == ROOT / "resources" / "icons"
    with pytest.raises(FileNotFoundError, match=r"none\.svg is not among the program's files in"):
        resource("icons/none.svg")


def test_resources_are_found_in_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources/a.svg").write_text("<svg/>")
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)
    assert resource("a.svg") == tmp_path / "resources" / "a.svg"
