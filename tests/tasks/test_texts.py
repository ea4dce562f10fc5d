"""Text from files and folders as people have them, through the one way in that the window uses."""

from __future__ import annotations

import codecs
import errno
import gzip
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from desktop.errors import EncodingError, OptionError, TaskError, TooLittleDataError
from desktop.state import Edit
from desktop.tasks import plain_text, reading, texts, tokens
from desktop.tasks.builtin import DIGITS, SHAKESPEARE, TEXT, WIKITEXT
from desktop.tasks.readers import ScanProgress
from desktop.tasks.reading import Reading
from desktop.tasks.spec import TaskSpec, Text
from desktop.tasks.texts import Blocks
from tests.tasks.folders import finish

BYTES = TEXT.changed(tokens="bytes", block=8)  # pieces of 128 characters


def story(characters: int, seed: int = 0, letters: str = "abcdefghij ") -> str:
    """Text of its own, no piece of it like another."""
    return "".join(random.Random(seed).choices(letters, k=characters))


def read(spec: TaskSpec, *paths: Path, edits: tuple[Edit, ...] = ()) -> Reading:
    return finish(reading.read(spec, paths, (edits,)))


def shown(found: Reading) -> dict[str, tuple[str, ...]]:
    """Titles of the findings, with their files."""
    return {finding.title: finding.files for finding in found.view.findings}


def stream(samples: Any) -> list[int]:
    """All that can be read of fixed blocks, one after the other."""
    return samples.batch(slice(0, len(samples)))[0].ravel().tolist()


# -- encodings -------------------------------------------------------------------------------------------

PROSE = "Ein Löffel – süß, „schön“ und 5 € wert.\n" * 300


@pytest.mark.parametrize(("encoding", "guessed"), [
    ("utf-8", "utf-8"), ("utf-8-sig", "utf-8-sig"), ("utf-16", "utf-16"), ("utf-16-le", "utf-16-le"),
    ("utf-16-be", "utf-16-be"), ("utf-32", "utf-32"), ("cp1252", "cp1252"),
])
def test_encodings_are_guessed_and_shown(tmp_path: Path, encoding: str, guessed: str) -> None:
    (tmp_path / "a.txt").write_bytes(PROSE.encode(encoding))
    found = read(BYTES, tmp_path)
    assert found.view.usable
    assert found.view.text is not None
    assert (found.view.text.encoding, found.view.text.sample) == (guessed, PROSE[:128])
    assert found.view.text.characters == len(PROSE)
    assert ("Saved in an older encoding" in shown(found)) == (encoding == "cp1252")


def test_big_endian_with_a_mark_and_a_byte_that_windows_leaves_undefined(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(codecs.BOM_UTF16_BE + PROSE.encode("utf-16-be"))
    assert finish(plain_text.look(tmp_path / "a.txt")).encoding == "utf-16"
    (tmp_path / "a.txt").write_bytes(b"caf\xe9 \x81" * 100)
    assert finish(plain_text.look(tmp_path / "a.txt")).encoding == "latin-1"


def test_a_letter_cut_by_the_slice_is_still_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text(PROSE, "utf-8")
    for size in (1, 2, 3, 7):
        monkeypatch.setattr(plain_text, "SLICE", size)
        assert finish(plain_text.look(tmp_path / "a.txt")).encoding == "utf-8"
    (tmp_path / "a.txt").write_bytes("grüß".encode()[:-1])
    assert finish(plain_text.look(tmp_path / "a.txt")).encoding == "cp1252"


def test_another_encoding_can_be_chosen(tmp_path: Path) -> None:
    russian = "Жили-были старик со старухой у самого синего моря. " * 40
    (tmp_path / "a.txt").write_bytes(russian.encode("koi8-r"))
    assert read(BYTES, tmp_path).view.text.sample != russian[:128]  # type: ignore[union-attr]
    found = read(BYTES, tmp_path, edits=(Edit(what="reading", name="encoding", value="koi8-r"),))
    assert found.view.text.sample == russian[:128]  # type: ignore[union-attr]
    found = read(BYTES, tmp_path, edits=(Edit(what="reading", name="encoding", value="utf-8"),))
    assert "Some letters could not be read" in shown(found)


@pytest.mark.parametrize("encoding", ["no such", "hex", "rot13", "undefined", "\0"])
def test_what_is_no_encoding_gives_a_sentence(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.txt").write_text(story(1000))
    with pytest.raises(EncodingError, match="not the name of an encoding"):
        read(BYTES, tmp_path, edits=(Edit(what="reading", name="encoding", value=encoding),))


def test_an_encoding_that_cannot_go_on_after_an_error_gives_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\xff" * 1000)
    found = read(BYTES, tmp_path, edits=(Edit(what="reading", name="encoding", value="idna"),))
    assert "it is not idna" in found.view.error


def test_halves_of_characters_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\\ud800 half" * 100)
    edit = Edit(what="reading", name="encoding", value="unicode_escape")
    assert "? half" in read(TEXT.changed(block=8), tmp_path, edits=(edit,)).view.text.sample  # type: ignore[union-attr]


def test_line_ends_and_composed_letters_are_the_same_wherever_they_were_saved(tmp_path: Path) -> None:
    lines = "Übung\nmacht den Meister\n" * 100
    (tmp_path / "a.txt").write_bytes(lines.replace("\n", "\r\n").replace("Ü", "U\u0308").encode())
    found = read(TEXT.changed(block=8), tmp_path)
    assert set(found.spec.form.vocabulary) == set(lines)  # type: ignore[union-attr]


@given(st.one_of(st.binary(max_size=600), st.text(max_size=600).map(lambda text: text.encode("utf-16", "replace"))),
       st.sampled_from(["", "utf-8", "utf-16", "shift_jis", "utf-7", "idna", "punycode", "unicode_escape"]))
def test_whatever_is_in_a_file_there_is_a_result_or_a_sentence(content: bytes, encoding: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_bytes(content)
        found = read(TEXT.changed(block=8), Path(folder),
                     edits=(Edit(what="reading", name="encoding", value=encoding),) if encoding else ())
        assert found.view.usable or found.view.error


# -- files -----------------------------------------------------------------------------------------------


def test_files_that_are_not_data_are_ignored_silently(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(story(2000))
    for name in (".DS_Store", "._a.txt", "Thumbs.db", "desktop.ini", ".hidden.txt"):
        (tmp_path / name).write_bytes(b"\0\5\26\7" * 100)
    for name in ("__MACOSX", ".git"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "b.txt").write_text(story(500))
    os.mkfifo(tmp_path / "pipe.txt")
    found = read(BYTES, tmp_path)
    assert found.view.text.files == 1  # type: ignore[union-attr]
    assert list(shown(found)) == ["Little text"]


def test_names_outside_ascii_and_folders_in_folders(tmp_path: Path) -> None:
    place = tmp_path / "Übung" / "猫"
    place.mkdir(parents=True)
    (place / "é.txt").write_text(story(2000))
    found = read(BYTES, tmp_path / "Übung")
    assert (found.view.title, found.view.text.files) == ("Übung", 1)  # type: ignore[union-attr]


def test_files_that_hold_no_text_are_listed_with_the_reason_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text(story(2000))
    (tmp_path / "empty.txt").touch()
    (tmp_path / "letter.docx").write_bytes(b"PK\3\4" + bytes(100))
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7\n" + b"words " * 100)
    (tmp_path / "photo.txt").write_bytes(random.Random(1).randbytes(5000))
    (tmp_path / "story.txt.gz").write_bytes(gzip.compress(b"words"))
    (tmp_path / "zeros.bin").write_bytes(bytes(5000))
    found = read(BYTES, tmp_path)
    assert shown(found)["6 files are not plain text"] == (
        "empty.txt: the file is empty", "letter.docx: it is a packed file or an office document",
        "paper.pdf: it is a PDF", "photo.txt: it is not plain text", "story.txt.gz: it is a packed file",
        "zeros.bin: it is not plain text")
    assert found.view.usable
    assert found.view.text.files == 1  # type: ignore[union-attr]


def test_a_folder_without_text_and_a_place_that_is_gone(tmp_path: Path) -> None:
    found = read(BYTES, tmp_path)
    assert found.data is None
    assert found.view.error.startswith(f"No text in {tmp_path.name}. Choose files of plain text")
    found = read(BYTES, tmp_path / "gone.txt")
    assert "No text in gone.txt" in found.view.error
    (files,) = shown(found).values()
    assert files[0].endswith("No such file or directory")


def test_a_file_that_was_dropped_alone(tmp_path: Path) -> None:
    (tmp_path / "README").write_text(story(2000))
    found = read(BYTES, tmp_path / "README")
    assert (found.view.title, found.view.usable, found.view.source) == ("README", True, str(tmp_path / "README"))


def test_the_same_text_twice_is_said_and_can_be_left_out(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text(story(2000, seed=name == "c.txt"))
    found = read(BYTES, tmp_path)
    assert shown(found)["The same text more than once"] == ("b.txt",)
    (finding,) = (finding for finding in found.view.findings if finding.skip)
    again = read(BYTES, tmp_path, edits=finding.skip)
    assert again.view.text.characters == 4000  # type: ignore[union-attr]
    assert "The same text more than once" not in shown(again)
    assert again.view.score > found.view.score  # type: ignore[operator]


@pytest.mark.parametrize("characters", [0, 1, 100, 383])
def test_too_little_text_gives_the_minimum(tmp_path: Path, characters: int) -> None:
    (tmp_path / "a.txt").write_text(story(characters))
    found = read(BYTES, tmp_path)
    assert found.data is None
    assert not found.view.usable
    assert "at least 384 are needed" in found.view.error or characters == 0
    (tmp_path / "a.txt").write_text(story(384))
    assert read(BYTES, tmp_path).view.usable


def test_without_validation_and_test_everything_is_trained_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(story(1000))
    found = read(BYTES.changed(validation=0.0, test=0.0), tmp_path)
    assert found.data is not None
    assert (len(found.data.train), len(found.data.validation), len(found.data.test)) == (999 // 8, 0, 0)


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(story(4000))
    steps = reading.read(BYTES, (tmp_path,), ())
    assert next(steps) == ScanProgress("Looking at a.txt", 0, 0)
    assert next(steps).text == "Reading a.txt"
    (tmp_path / "a.txt").write_text(story(300))
    assert "Too little data" in finish(steps).view.error
    (tmp_path / "a.txt").write_text(story(4000))
    steps = reading.read(BYTES, (tmp_path,), ())
    next(steps)
    (tmp_path / "a.txt").unlink()
    assert "No such file" in finish(steps).view.error


def test_a_full_disk_gives_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def write(self, data: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "a.txt").write_text(story(1000))
    monkeypatch.setattr(texts.tempfile, "TemporaryFile", Full)
    found = read(BYTES, tmp_path)
    assert found.view.error == f"{tempfile.gettempdir()}: No space left on device. Make room there."


# -- parts and blocks --------------------------------------------------------------------------------------


def test_no_piece_is_in_two_parts_and_none_is_lost(tmp_path: Path) -> None:
    text = story(12_800)
    (tmp_path / "a.txt").write_text(text)
    seen = [text[i:i + 128] for i in range(0, 12_800, 128)]
    data = read(BYTES, tmp_path).data
    assert data is not None
    whole = {name: bytes(stream(getattr(data, name))).decode() for name in ("validation", "test")}
    for name, share in (("validation", 0.1), ("test", 0.15)):
        inside = [piece for piece in seen if piece[:100] in whole[name]]
        assert len(inside) == pytest.approx(100 * share, abs=9)  # three deviations
    assert isinstance(data.train._stream, np.memmap)  # type: ignore[attr-defined]  # on disk: any length will do
    fixed = Blocks(data.train._stream, 8)  # type: ignore[attr-defined]
    train = bytes(stream(fixed)).decode()
    assert sum((piece[:100] in train) + (piece[:100] in whole["validation"]) + (piece[:100] in whole["test"])
               for piece in seen) == 100


def test_a_copy_lies_in_the_same_part_at_every_member_whatever_else_is_there(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text(story(5000, seed=1))
    alone = read(BYTES, tmp_path).data
    (tmp_path / "a.txt").write_text(story(7000, seed=2))
    shutil.move(tmp_path / "b.txt", tmp_path / "zz.txt")
    both = read(BYTES, tmp_path).data
    assert alone is not None
    assert both is not None
    assert bytes(stream(alone.test))[:100] in bytes(stream(both.test))
    other = read(BYTES.changed(seed=43), tmp_path).data
    assert other is not None
    assert stream(other.test) != stream(both.test)


def test_targets_are_the_inputs_moved_on_by_one() -> None:
    blocks = Blocks(np.arange(1000, dtype=np.uint16), 8)
    assert len(blocks) == 124
    x, y = blocks.batch(np.array([3, 0]))
    assert (x.dtype, y.dtype) == (np.int64, np.int64)
    assert x.tolist() == [list(range(24, 32)), list(range(8))]
    assert y.tolist() == [list(range(25, 33)), list(range(1, 9))]
    x, y = blocks.batch(slice(123, 124))
    assert y[0, -1] == 992
    assert [len(Blocks(np.arange(n), 8)) for n in (0, 1, 8, 9, 17)] == [0, 0, 0, 1, 2]


def test_training_blocks_begin_anywhere_near_their_place_and_end_inside() -> None:
    blocks = Blocks(np.arange(81, dtype=np.uint16), 8, seed=1)
    starts = [blocks.batch(slice(0, 10))[0][:, 0] for _ in range(200)]
    for i in range(10):
        of_block = {int(start[i]) for start in starts}
        assert of_block == set(range(8 * i, min(8 * i + 8, 73)))
    again = Blocks(np.arange(81, dtype=np.uint16), 8, seed=1)
    assert again.batch(slice(0, 10))[0][:, 0].tolist() == starts[0].tolist()


# -- tokens and the room's schema ---------------------------------------------------------------------------


def test_a_host_fixes_the_characters_and_a_guest_keeps_them(tmp_path: Path) -> None:
    for name, letters in (("host", "abc "), ("guest", "abd "), ("other", "жзи ")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(story(2000, letters=letters))
    task = TEXT.changed(block=8)
    host = read(task, tmp_path / "host")
    assert host.spec.form.vocabulary == (" ", "a", "b", "c")  # type: ignore[union-attr]
    guest = read(host.spec, tmp_path / "guest")
    assert guest.spec == host.spec
    assert guest.view.usable
    (finding,) = (finding for finding in guest.view.findings if "does not know" in finding.title)
    assert finding.severity == "care"
    d = (tmp_path / "guest" / "a.txt").read_text().count("d") / 2000
    assert finding.text.startswith(f"{d:.0%} of the characters, such as d.")
    other = read(host.spec, tmp_path / "other")
    assert [finding.severity for finding in other.view.findings if "does not know" in finding.title] == ["bad"]
    assert host.spec.schema_digest() != task.schema_digest()


def test_byte_pairs_are_made_from_the_hosts_text(tmp_path: Path) -> None:
    shutil.copy(texts.resource("demo/hamlet.txt"), tmp_path)
    found = read(WIKITEXT, tmp_path)
    assert found.data is not None
    assert found.spec.form.vocabulary_size == tokens.BPE_SIZE  # type: ignore[union-attr]
    assert len(found.spec.to_json()) < 200_000  # a room's message holds 256 kB
    assert found.view.text.tokens < found.view.text.characters / 3  # type: ignore[union-attr]
    shown_text = tokens.tokens_of(found.spec.form).decode(stream(found.data.test))  # type: ignore[arg-type]
    assert shown_text[:200] in (tmp_path / "hamlet.txt").read_text()
    assert read(found.spec, tmp_path).spec == found.spec


def test_a_tokenizer_beside_the_text_is_used(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(story(5000))
    own = tokens.train_bpe([story(3000, seed=9)], 270)
    (tmp_path / "tokenizer.json").write_text(own)
    found = read(WIKITEXT.changed(block=8), tmp_path)
    assert found.spec.form.tokenizer == own  # type: ignore[union-attr]
    for wrong in (b"{}", b"\xff\xfe", b'{"model": {"vocab": {"\xff": 0}, "merges": []}}'):
        (tmp_path / "tokenizer.json").write_bytes(wrong)
        with pytest.raises(TaskError, match="not one of byte-pair encoding"):
            read(WIKITEXT, tmp_path)


# -- the sample play ---------------------------------------------------------------------------------------


def sample(share: tuple[int, int] = (1, 1), spec: TaskSpec = SHAKESPEARE) -> Reading:
    return finish(reading.read_sample(spec, share))


def test_the_play_is_hamlet() -> None:
    text = texts.resource("demo/hamlet.txt").read_text("ascii")
    assert "To be, or not to be: that is the question:" in text
    assert text.startswith("Hamlet\n\nACT I\n")
    assert text.rstrip().endswith("ordnance is shot off]")
    assert not set(text) & set("*_#\\\t\r")
    found = sample()
    assert (found.view.title, found.view.source, found.view.usable) == ("Hamlet", "sample", True)
    assert found.view.text.characters == len(text) == found.view.text.tokens  # type: ignore[union-attr]
    assert (found.view.findings, found.view.score) == ((), 100)


@pytest.mark.parametrize("parts", [2, 5])
def test_shares_of_the_play_are_disjoint_and_have_the_same_test_part(parts: int) -> None:
    whole = sample().data
    shares = [sample((i + 1, parts)).data for i in range(parts)]
    assert whole is not None
    tests = [stream(share.test) for share in shares if share]
    assert tests == [stream(whole.test)] * parts
    pieces = [text for share in shares if share
              for part in (share.train, share.validation)
              for text in [bytes(part._stream.tolist())]]  # type: ignore[attr-defined]
    assert sum(map(len, pieces)) + len(whole.test._stream) == 176762  # type: ignore[attr-defined]
    hamlet = texts.resource("demo/hamlet.txt").read_bytes()
    inside = [sum(hamlet[i:i + 50] in piece for piece in pieces) for i in range(100, 170_000, 2048)]
    assert set(inside) <= {0, 1}  # 0: held out for the test
    assert len(set(pieces)) == 2 * parts


@pytest.mark.parametrize("share", [(0, 1), (3, 2), (1, 0)])
def test_a_share_that_cannot_be(share: tuple[int, int]) -> None:
    with pytest.raises(OptionError):
        sample(share)


def test_a_task_without_sample_data() -> None:
    with pytest.raises(TaskError, match="no sample data ships with “Your own text”"):
        sample(spec=TEXT)


def test_too_many_shares_of_the_play() -> None:
    with pytest.raises(TooLittleDataError, match="Too little data in Hamlet, part 1 of 50"):
        sample((1, 50))


def test_text_for_a_task_of_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="not a task for text"):
        finish(texts.read_text(DIGITS, (tmp_path,), ()))


def test_a_vocabulary_that_cannot_be() -> None:
    for vocabulary in (["ab"], ["a", "a"], [""], [chr(i) for i in range(256, 8500)]):
        with pytest.raises(TaskError, match="vocabulary"):
            TEXT.changed(vocabulary=vocabulary)
    assert Text(tokens="characters", vocabulary=("a",)).vocabulary_size == 2
