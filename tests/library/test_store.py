"""Saved models: read back by the safetensors library itself; full disks; damaged files; no trust in any of them."""

from __future__ import annotations

import json
import logging
import os
import struct
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import safetensors.torch
import torch
from safetensors import safe_open

from desktop.errors import ModelFileError, SaveError
from desktop.library import store
from desktop.library.store import ModelCard, file_name, list_models, load_model, open_model, save_model, saving
from desktop.tasks.builtin import DIGITS
from desktop.tasks.models import build_model

CARD = ModelCard(task=DIGITS, rounds=12, members=("Quiet Heron", "Müller"), samples=1527,
                 date="2026-11-30T20:00:00+00:00", digest="1a2b3c4d5e6f", test_accuracy=0.97, test_samples=270)


def changed(**values: object) -> ModelCard:
    return msgspec.structs.replace(CARD, **values)


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    return build_model(DIGITS, 5).state_dict()


def save(folder: Path, weights: dict[str, torch.Tensor], card: ModelCard = CARD) -> Path:
    return save_model(folder, weights.items(), card)


# -- whole files --------------------------------------------------------------------------------------


def test_safetensors_itself_reads_what_was_saved(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    path = save(tmp_path, weights)
    read = safetensors.torch.load_file(path)
    assert read.keys() == weights.keys()
    assert all(torch.equal(read[name], weights[name]) for name in weights)
    with safe_open(path, "pt") as file:
        description = json.loads(file.metadata()["peerloom"])
    assert description["members"] == ["Quiet Heron", "Müller"]
    assert description["task"]["form"]["classes"] == list("0123456789")
    assert (description["rounds"], description["test_accuracy"]) == (12, 0.97)


def test_what_was_saved_is_read_back(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    card, read = load_model(save(tmp_path, weights))
    assert card == CARD
    assert all(torch.equal(read[name], weights[name]) for name in weights)
    card, model = open_model(save(tmp_path, weights))
    x = torch.rand(3, 1, 8, 8)
    assert torch.equal(model(x), build_model(DIGITS, 5)(x))


def test_all_kinds_of_tensors_pass_both_ways(tmp_path: Path) -> None:
    tensors = {"half": torch.rand(3).half(), "brain": torch.rand(2, 2).bfloat16(), "wide": torch.rand(2).double(),
               "one": torch.tensor(4.5), "none": torch.empty(0, 3), "flags": torch.tensor([True, False, True]),
               "turned": torch.arange(6.0).reshape(2, 3).T, "ints": torch.tensor([2**40, -1]), "Größe": torch.rand(1)}
    path = save(tmp_path, tensors)
    read, ours = safetensors.torch.load_file(path), load_model(path)[1]
    for name, tensor in tensors.items():
        for found in (read[name], ours[name]):
            assert found.dtype == tensor.dtype
            assert torch.equal(found, tensor), name


def test_data_larger_than_a_slice(tmp_path: Path) -> None:
    big = torch.arange(3_000_000, dtype=torch.float32)  # 12 MB: three slices
    slices = saving(tmp_path, [("big", big), ("small", torch.ones(3))], CARD)
    assert [round(next(slices), 3) for _ in range(4)] == [0.35, 0.699, 1.0, 1.0]
    path = tmp_path / file_name(CARD)
    assert not path.exists()  # under its name only when it is whole
    with pytest.raises(StopIteration) as end:
        next(slices)
    assert end.value.value == path
    assert torch.equal(load_model(path)[1]["big"], big)


def test_the_header_ends_on_a_multiple_of_eight(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    for title in ("a", "ab", "abc", "abcd"):
        path = save(tmp_path, weights, changed(task=DIGITS.changed(title=title)))
        assert struct.unpack("<Q", path.read_bytes()[:8])[0] % 8 == 0


@pytest.mark.parametrize(("title", "name"), [
    ("Handwritten digits", "handwritten-digits-2026-11-30-1a2b3c4d.safetensors"),
    ("Äpfel & Birnen: ../../etc", "apfel-birnen-etc-2026-11-30-1a2b3c4d.safetensors"),
    ("猫", "model-2026-11-30-1a2b3c4d.safetensors"),
    ("x" * 200, "x" * 40 + "-2026-11-30-1a2b3c4d.safetensors"),
])
def test_file_names_suit_every_file_system(title: str, name: str) -> None:
    assert file_name(changed(task=DIGITS.changed(title=title))) == name


def test_a_hostile_date_or_digest_does_not_leave_the_folder() -> None:
    assert file_name(changed(date="../../../x", digest="../../..")) == "handwritten-digits.safetensors"


def test_the_folder_is_made(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    assert save(tmp_path / "Ü" / "models", weights).parent == tmp_path / "Ü" / "models"


# -- disks that do not take it ------------------------------------------------------------------------


def only(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_full_disk_keeps_the_old_file(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    """In a process that may write only 20 kB per file: the same path through the code as a full disk."""
    old = save(tmp_path, weights)
    before = old.read_bytes()
    code = """
import resource, signal, sys, pathlib
from desktop.errors import SaveError
from tests.library.test_store import CARD, build_model, DIGITS, save
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    save(pathlib.Path(sys.argv[1]), build_model(DIGITS, 6).state_dict())
except SaveError as error:
    print(error.sentence)
"""
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=50)
    assert run.stdout.startswith(f"The model could not be saved to {tmp_path}: the disk takes no file of that size.")
    assert only(tmp_path) == [old.name]
    assert old.read_bytes() == before


def test_disk_that_fills_while_writing(tmp_path: Path, weights: dict[str, torch.Tensor],
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/full takes the place of the file aside: every write to it says that the disk is full."""
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda path, mode="r": real(Path("/dev/full"), "wb") if mode == "xb"
                        else real(path, mode))
    with pytest.raises(SaveError, match=f"saved to {tmp_path}: the disk is full. It is still in memory"):
        save(tmp_path, weights)
    assert only(tmp_path) == []


def test_folder_that_cannot_be_made(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SaveError, match="that is not a folder"):
            save(folder, weights)


def test_read_only_file_system(weights: dict[str, torch.Tensor]) -> None:
    with pytest.raises(SaveError, match="could not be saved to /proc"):
        save(Path("/proc/peerloom"), weights)


def test_dropped_half_way_leaves_nothing(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    slices = saving(tmp_path, weights.items(), CARD)
    next(slices)
    assert len(only(tmp_path)) == 1
    slices.close()
    assert only(tmp_path) == []


# -- files that are not what they say -----------------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        open_model(path)
    assert path.name in caught.value.sentence
    assert list_models(path.parent) == () or "fit" in caught.value.sentence or "32-bit" in caught.value.sentence
    return str(caught.value.details["why"])


def written(path: Path, header: object, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def described(**entries: object) -> dict[str, object]:
    return {"__metadata__": {"peerloom": msgspec.json.encode(CARD).decode()}, **entries}


@pytest.mark.parametrize("kept", [0, 3, 8, 100, 5_000, -1])
def test_truncated_file(tmp_path: Path, weights: dict[str, torch.Tensor], kept: int) -> None:
    path = save(tmp_path, weights)
    path.write_bytes(path.read_bytes()[:kept])
    assert refused(path) in ("it is incomplete", "its beginning is damaged",
                             "it is not a safetensors file, or its beginning is damaged")


def test_file_with_something_after_it(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    path = save(tmp_path, weights)
    path.write_bytes(path.read_bytes() + b"more")
    assert refused(path) == "it is too long"


@pytest.mark.parametrize("header", [b"{ ", b"\xff\xfe garbage", b"[]", b"[" * 50_000, b'{"a":' * 50_000, b'"text"',
                                    b'{"__metadata__": {"peerloom": 5}}', b'{"a": {"dtype": "F32"}}',
                                    b'{"a": {"dtype":"F32","shape":[1e99],"data_offsets":[0,4]}}'])
def test_garbage_header(tmp_path: Path, header: bytes) -> None:
    assert refused(written(tmp_path / "x.safetensors", header)) == "its beginning is damaged"


def test_giant_header_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", 2**63) + b"{}")
    assert refused(tmp_path / "x.safetensors") == "it is not a safetensors file, or its beginning is damaged"


def entry(dtype: str = "F32", shape: tuple[int, ...] = (1,), offsets: tuple[int, int] = (0, 4)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(("entries", "why"), [
    ({"a": entry(dtype="F33")}, "“a” has a type or shape that no weights have"),
    ({"a": entry(shape=(-1, -1))}, "“a” has a type or shape that no weights have"),
    ({"a": entry(shape=(1,) * 9)}, "“a” has a type or shape that no weights have"),
    ({"a": entry(shape=(2,))}, "the place of “a” is wrong"),
    ({"a": entry(shape=(2**40, 2**40))}, "the place of “a” is wrong"),
    ({"a": entry(offsets=(4, 8))}, "the place of “a” is wrong"),
    ({"a": entry(), "b": entry()}, "the place of “b” is wrong"),
    ({"a": entry(shape=(2**38,), offsets=(0, 2**40))}, "it is incomplete"),
    ({"a": entry()}, "its weights do not fit the model that it names"),
    ({}, "it is too long"),
])
def test_tensors_in_impossible_places(tmp_path: Path, entries: dict[str, object], why: str) -> None:
    assert refused(written(tmp_path / "x.safetensors", described(**entries), b"\0" * 4)) == why


def test_weights_of_another_type(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    assert refused(save(tmp_path, {name: weight.half() for name, weight in weights.items()})
                   ) == "its weights are not 32-bit numbers"


def test_weights_of_another_shape(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    weights["0.weight"] = torch.zeros(16, 1, 5, 5)
    assert refused(save(tmp_path, weights)) == "its weights do not fit the model that it names"


def test_model_of_another_program(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    safetensors.torch.save_file(weights, tmp_path / "other.safetensors")
    assert refused(tmp_path / "other.safetensors") == "it holds no description by Peerloom"


@pytest.mark.parametrize("description", ["{}", "not JSON", "[" * 50_000])
def test_damaged_description(tmp_path: Path, description: str) -> None:
    safetensors.torch.save_file({}, tmp_path / "x.safetensors", {"peerloom": description})
    assert refused(tmp_path / "x.safetensors").startswith("its description is damaged")


def test_description_of_an_impossible_task(tmp_path: Path) -> None:
    text = msgspec.json.encode(CARD).decode().replace('"height":8', '"height":100000')
    safetensors.torch.save_file({}, tmp_path / "x.safetensors", {"peerloom": text})
    assert "height is 100000" in refused(tmp_path / "x.safetensors")


def test_pickle_is_not_even_looked_at(tmp_path: Path) -> None:
    """The bytes of a pickle that would run a program."""
    (tmp_path / "x.safetensors").write_bytes(b"cos\nsystem\n(S'touch /tmp/peerloom-was-here'\ntR.")
    assert refused(tmp_path / "x.safetensors") == "it is not a safetensors file, or its beginning is damaged"


def test_file_that_is_gone(tmp_path: Path) -> None:
    assert refused(tmp_path / "gone.safetensors") == "there is no such file"
    os.mkfifo(tmp_path / "pipe.safetensors")
    assert refused(tmp_path / "pipe.safetensors") == "there is no such file"


# -- the list -----------------------------------------------------------------------------------------


def test_list_is_newest_first_without_what_is_damaged(tmp_path: Path, weights: dict[str, torch.Tensor],
                                                      caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, store.__name__)
    for date in ("2026-11-29T10:00:00+00:00", "2026-11-30T09:00:00+00:00", "2026-11-28T23:00:00+00:00"):
        save(tmp_path, weights, changed(date=date))
    broken = save(tmp_path, weights, changed(date="2026-12-01"))
    broken.write_bytes(broken.read_bytes()[:-10])
    (tmp_path / "notes.txt").touch()
    rows = list_models(tmp_path)
    assert [row.date[:10] for row in rows] == ["2026-11-30", "2026-11-29", "2026-11-28"]
    row = rows[0]
    assert (row.title, row.rounds, row.members, row.test_accuracy) == ("Handwritten digits", 12, 2, 0.97)
    assert row.size_bytes == os.path.getsize(row.path)
    assert f"{broken.name} is not a model that Peerloom can read: it is incomplete" in caplog.text


def test_list_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert list_models(tmp_path / "none") == ()
