"""Set-up: every library is pinned exactly, and the scripts need nothing but Python."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SCRIPTS = [ROOT / "packaging" / name for name in ("run", "test", "setup_env.py")]


def pins() -> dict[str, str]:
    lines = [line for line in (ROOT / "packaging/constraints.txt").read_text("utf-8").splitlines()
             if line and not line.startswith("#")]
    found = [re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)", line) for line in lines]
    assert all(found), "only exact pins"
    return {canonicalize_name(match[1]): match[2] for match in found if match}


def needed() -> dict[str, str]:
    """Each library that the program and its checks pull in here, by name, with the version installed."""
    project = PROJECT["project"]
    todo = [Requirement(text) for text in [*project["dependencies"], *project["optional-dependencies"]["dev"],
                                           *PROJECT["build-system"]["requires"]]]
    versions: dict[str, str] = {}
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in versions and not requirement.extras:
            continue
        installed = distribution(requirement.name)
        versions[name] = installed.version.partition("+")[0]
        further = [Requirement(text) for text in installed.requires or []]
        todo += [each for each in further if not each.marker or each.marker.evaluate({"extra": ""})
                 or any(each.marker.evaluate({"extra": extra}) for extra in requirement.extras)]
    return versions


def test_every_library_is_pinned_to_the_version_that_is_tested() -> None:
    assert {name: pins().get(name) for name in needed()} == needed()


def test_the_pins_are_what_the_project_allows() -> None:
    for text in [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["dev"]]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins()[canonicalize_name(requirement.name)]), text


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_scripts_need_only_the_standard_library(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
            [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            assert name.partition(".")[0] in {*sys.stdlib_module_names, "setup_env"}, name


def test_the_folder_does_not_shadow_the_library_packaging() -> None:
    assert not (ROOT / "packaging" / "__init__.py").exists()


def test_every_package_is_installed() -> None:
    packages = [file.parent for file in (ROOT / "desktop").rglob("__init__.py")]
    there = {str(package.relative_to(ROOT)).replace(os.sep, ".") for package in packages}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == there | {"peerloom_resources"}


def test_continuous_integration_only_calls_the_test_command() -> None:
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert lines == ["#!/usr/bin/env bash", 'exec "$(dirname "$0")/../packaging/test" "$@"']


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bit")
@pytest.mark.parametrize("script", ["packaging/run", "packaging/test", ".ci/run"])
def test_the_commands_can_be_run(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)


SET_UP = """
import sys, setup_env
from pathlib import Path
setup_env.VENV = Path({venv!r}); setup_env.STAMP = setup_env.VENV / "peerloom-stamp"
setup_env.ROOT = Path({root!r}); setup_env.CONSTRAINTS = setup_env.ROOT / "packaging/constraints.txt"
calls = []
setup_env.install_system_packages = lambda: calls.append("system")
setup_env.install_libraries = lambda python, extras: (setup_env.VENV.mkdir(exist_ok=True), calls.append(list(extras)))
for extras in {starts!r}:
    setup_env.prepare(extras)
print(calls)
"""


def in_packaging(code: str) -> str:
    """What this code prints when it runs beside the scripts, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "packaging", capture_output=True, check=True)
    return done.stdout.decode()


def set_up(root: Path, starts: list[list[str]]) -> str:
    """What the given starts install in a fresh checkout."""
    return in_packaging(SET_UP.format(venv=str(root / ".venv"), root=str(root), starts=starts)).strip()


def test_only_the_first_start_installs(tmp_path: Path) -> None:
    (tmp_path / "packaging").mkdir()
    (tmp_path / "packaging/constraints.txt").write_text("torch==1\n")
    (tmp_path / "pyproject.toml").write_text("")
    assert set_up(tmp_path, [[], [], ["dev"], [], ["dev"]]) == "['system', [], 'system', ['dev']]"
    assert set_up(tmp_path, [["dev"]]) == "[]"
    (tmp_path / "packaging/constraints.txt").write_text("torch==2\n")
    assert set_up(tmp_path, [["dev"]]) == "['system', ['dev']]"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere Qt brings all it needs")
def test_a_missing_system_package_is_named() -> None:
    code = ("import setup_env, shutil, os; shutil.which = lambda name: name; os.geteuid = lambda: 1000\n"
            "print(setup_env.missing({'libpeerloom-none.so.9': 'libnone9', 'libc.so.6': 'libc6'}))\n"
            "try: setup_env.install(['libnone9'], 'Qt needs system packages that are missing')\n"
            "except setup_env.SetUpError as problem: print(problem)")
    assert in_packaging(code).splitlines() == [
        "['libnone9']",
        "Qt needs system packages that are missing. Install them with: sudo apt-get install libnone9",
    ]
