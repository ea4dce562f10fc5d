"""Tables as people have them, read as the window reads them: a result or a sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desktop.errors import PeerloomError
from desktop.state import Edit
from desktop.tasks import reading
from desktop.tasks.builtin import PENGUINS, TASKS, TITANIC
from desktop.tasks.data import TaskData
from desktop.tasks.reading import Reading
from desktop.tasks.spec import Table
from desktop.tasks.tables import number, sniff_decimal, sniff_separator
from tests.tasks.folders import finish
from tests.tasks.tables import TABLE, pets, read, write, xlsx


def usable(found: Reading) -> TaskData:
    assert found.data is not None, found.view.error
    return found.data


def samples(found: Reading) -> np.ndarray:
    """All rows as the model gets them, with the label last, sorted."""
    data = usable(found)
    rows = [np.column_stack(part.batch(slice(None))) for part in (data.train, data.validation, data.test)]
    joined = np.concatenate(rows)
    return joined[np.lexsort(joined.T)]


def titles(found: Reading) -> list[str]:
    return [finding.title for finding in found.view.findings]


# -- bad inputs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("encoding", "shown"), [
    ("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("utf-16", "utf-16"), ("utf-16-le", "utf-16-le"),
    ("utf-16-be", "utf-16-be"), ("utf-32", "utf-32")])
def test_byte_order_mark_and_wide_encodings_give_every_member_the_same_columns(
        tmp_path: Path, encoding: str, shown: str) -> None:
    plain = read(write(tmp_path / "plain.csv", pets()))
    found = read(write(tmp_path / "other.csv", pets(), encoding))
    assert found.view.table is not None
    assert found.view.table.columns[0].name == "weight"
    assert found.view.table.encoding == shown
    assert found.spec.schema_digest() == plain.spec.schema_digest()
    np.testing.assert_array_equal(samples(found), samples(plain))


@pytest.mark.parametrize(("separator", "decimal"), [(";", ","), ("\t", ","), ("|", "."), (",", ".")])
def test_separators_and_decimal_marks_give_the_same_numbers(tmp_path: Path, separator: str, decimal: str) -> None:
    found = read(write(tmp_path / "a.csv", pets(separator=separator, decimal=decimal)))
    assert found.view.table is not None
    assert (found.view.table.separator, found.view.table.decimal) == (separator, decimal)
    np.testing.assert_array_equal(samples(found), samples(read(write(tmp_path / "b.csv", pets()))))


def test_separator_and_decimal_mark_of_two_rows_are_shown_and_changeable(tmp_path: Path) -> None:
    path = write(tmp_path / "two.csv", "x;y\n28,7;a\n28,95;b\n")
    table = read(path).view.table
    assert table is not None
    assert (table.separator, table.decimal) == (";", ",")
    assert table.preview == (("28,7", "a"), ("28,95", "b"))
    assert [(column.name, column.role, column.detail) for column in table.columns] == [
        ("x", "number", "28.7 to 28.95"), ("y", "label", "a, b")]
    changed = read(path, Edit(what="reading", name="separator", value=","),
                   Edit(what="reading", name="decimal", value=".")).view.table
    assert changed is not None
    assert (changed.separator, changed.decimal) == (",", ".")
    assert [column.name for column in changed.columns] == ["x;y"]


def test_a_header_with_a_degree_sign_in_a_western_encoding_is_guessed_and_changeable(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", pets().replace("weight", "temp °C"), "cp1252")
    found = read(path)
    assert found.view.table is not None
    assert (found.view.table.encoding, found.view.table.columns[0].name) == ("cp1252", "temp °C")
    table = read(path, Edit(what="reading", name="encoding", value="utf-8")).view.table
    assert table is not None
    assert (table.encoding, table.columns[0].name) == ("utf-8", "temp �C")


def test_stray_white_space_makes_no_class_of_its_own(tmp_path: Path) -> None:
    text = pets().replace(",cat\n", ", cat \n", 5)
    found = read(write(tmp_path / "a.csv", text))
    assert found.spec.classes == ("cat", "dog")
    assert {card.name: card.count for card in found.view.classes} == {"cat": 20, "dog": 20}


@pytest.mark.parametrize(("text", "sentence"), [
    ("x,y\n1,a\n2,b\n", "Too little data in few.csv: 2 rows, at least 10 are needed."),
    ("x,y\n", "Too little data in few.csv: 0 rows, at least 10 are needed."),
    ("x,y\n" + "1,a\n2,a\n" * 6, "Too little data in column “y” of few.csv: 1 with at least 5 rows, at least "
                                 "2 classes are needed."),
])
def test_too_little_data_is_a_sentence_with_the_minimum_and_the_table_is_shown(
        tmp_path: Path, text: str, sentence: str) -> None:
    label = Edit(what="role", name="y", value="label")
    found = read(write(tmp_path / "few.csv", text), label)
    assert found.data is None
    assert not found.view.usable
    assert found.view.error == sentence
    assert found.view.table is not None
    assert [column.name for column in found.view.table.columns] == ["x", "y"]


@pytest.mark.parametrize("content", [b"", b"\n\n  \n", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"PK\x03\x04 no zip",
                                     b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)])
def test_what_is_no_table_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(PeerloomError, match=r"^a\.csv: it "):
        read(path)


def test_a_file_that_is_gone_and_a_folder_without_a_table_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(PeerloomError, match="no longer there"):
        read(tmp_path / "gone.csv")
    with pytest.raises(PeerloomError, match="no table was found"):
        read(tmp_path)
    write(tmp_path / "one.csv", pets())
    assert usable(read(tmp_path))


# -- forms of writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "decimal", "value"), [
    ("12", ".", 12.0), ("-3.5", ".", -3.5), (".5", ".", 0.5), ("1e3", ".", 1000.0), ("1,234,567.5", ".", 1234567.5),
    ("1 234", ".", 1234.0), ("1\u00a0234,5", ",", 1234.5), ("1.234.567", ",", 1234567.0), ("1’234.5", ".", 1234.5),
    ("−4", ".", -4.0), ("12 %", ".", 12.0), ("28,7", ",", 28.7), ("28,7", ".", None), ("1,23,4", ".", None),
    ("nan", ".", None), ("inf", ".", None), ("1_000", ".", None), ("1e300", ".", None), ("٣", ".", None),
    ("0x10", ".", None), ("", ".", None), ("1.2.2020", ",", None),
])
def test_a_number_is_read_whatever_its_marks(text: str, decimal: str, value: float | None) -> None:
    assert number(text, decimal) == value


@pytest.mark.parametrize(("cells", "separator", "mark"), [
    (["1.5", "2,7", "2,8"], ";", ","), (["1,234.5"], ";", "."), (["1.234,5"], ",", ","), (["1,234"], ";", ","),
    (["1,234"], "\t", "."), (["1.234"], ";", "."), (["0,125"], "\t", ","), (["a"], ";", "."), (["1234,567"], ",", ","),
])
def test_the_decimal_mark_is_the_one_that_most_numbers_need(cells: list[str], separator: str, mark: str) -> None:
    assert sniff_decimal(cells, separator) == mark


def test_separators_within_quotes_do_not_count() -> None:
    assert sniff_separator('name;note\n"a;b";"x, y, z"\n"c";"1, 2, 3"\n') == ";"


def test_quotes_ragged_and_blank_rows_and_columns_without_name(tmp_path: Path) -> None:
    lines = pets(40).splitlines()
    lines[0] = 'weight, "the ""colour"" , seen",kind'
    lines[3] = ""
    lines[5] += ",,,too,many"
    lines[7] = "5.0,black"
    found = read(write(tmp_path / "a.csv", "\n".join(lines)))
    table = found.view.table
    assert table is not None
    assert [column.name for column in table.columns] == ["weight", 'the "colour" , seen', "kind"]
    assert table.rows == 39
    ragged = next(finding for finding in found.view.findings if "too few or too many" in finding.title)
    assert ragged.files == ("row 6", "row 8")
    assert next(finding for finding in found.view.findings if "without “kind”" in finding.title).files == ("row 8",)


def test_two_columns_with_one_name_and_a_file_without_names(tmp_path: Path) -> None:
    twice = read(write(tmp_path / "a.csv", pets().replace("colour", "weight", 1)))
    assert twice.view.table is not None
    assert [column.name for column in twice.view.table.columns] == ["weight", "weight (2)", "kind"]
    nameless = read(write(tmp_path / "b.csv", "1,2\n" * 20))
    assert nameless.view.table is not None
    assert nameless.view.table.rows == 20
    assert [column.name for column in nameless.view.table.columns] == ["column 1", "column 2"]


def test_what_spreadsheets_say_of_the_separator_is_believed(tmp_path: Path) -> None:
    table = read(write(tmp_path / "a.csv", "sep=|\n" + pets(separator="|"))).view.table
    assert table is not None
    assert table.separator == "|"
    assert table.columns[0].name == "weight"


def test_a_spreadsheet_gives_the_same_rows_and_its_sheets_can_be_chosen(tmp_path: Path) -> None:
    lines = [line.split(",") for line in pets().splitlines()]
    rows = [lines[0], *([float(weight), colour, kind] for weight, colour, kind in lines[1:])]
    path = xlsx(tmp_path / "a.xlsx", {"Notes": [["made in May"]], "Data": rows, "More": [["a", "b"], [1, 2]]})
    found = read(path)
    table = found.view.table
    assert table is not None
    assert (table.sheet, table.sheets, table.separator) == ("Data", ("Notes", "Data", "More"), "")
    np.testing.assert_array_equal(samples(found), samples(read(write(tmp_path / "a.csv", pets()))))
    other = read(path, Edit(what="reading", name="sheet", value="More")).view.table
    assert other is not None
    assert [column.name for column in other.columns] == ["a", "b"]


# -- columns and roles ------------------------------------------------------------------------------------


def people(rows: int = 60) -> str:
    lines = ["id;name;mail;joined;age;town;note;const;bought"]
    lines += [f"{1_000_001 + 7 * row};Person {row};p{row}@example.org;2024-01-{row % 28 + 1:02};{20 + row % 31};"
              f"{'Ulm' if row % 3 else 'Bonn'};likes number {row} and more, a lot, as was said at length before;"
              f"same;{'yes' if row % 2 else 'no'}" for row in range(rows)]
    return "\n".join(lines)


def test_types_are_detected_and_identifying_columns_are_left_out(tmp_path: Path) -> None:
    found = read(write(tmp_path / "a.csv", people()))
    assert found.view.table is not None
    assert [(column.name, column.role, column.detected) for column in found.view.table.columns] == [
        ("id", "ignore", "numbers that are different in each row"), ("name", "ignore", "different in each row"),
        ("mail", "ignore", "e-mail addresses"), ("joined", "ignore", "dates"), ("age", "number", "whole numbers"),
        ("town", "category", "2 categories"), ("note", "ignore", "text"), ("const", "ignore", "the same everywhere"),
        ("bought", "label", "2 categories")]
    assert isinstance(found.spec.form, Table)
    assert [column.name for column in found.spec.form.columns] == ["age", "town"]
    used = read(write(tmp_path / "a.csv", people()), Edit(what="role", name="id", value="number"))
    (offer,) = [finding for finding in used.view.findings if finding.fix]
    assert offer.title == "“id” may tell who somebody is"
    assert used.view.score is not None
    assert found.view.score is not None
    assert used.view.score == found.view.score - 20
    again = read(write(tmp_path / "a.csv", people()), Edit(what="role", name="id", value="number"), *offer.fix)
    assert again.spec == found.spec


def test_when_no_label_is_clear_it_is_asked_for_and_then_taken(tmp_path: Path) -> None:
    text = "a,b\n" + "".join(f"{row / 7:.3f},{row * 1.5}\n" for row in range(40))
    path = write(tmp_path / "a.csv", text)
    found = read(path)
    assert found.data is None
    assert "not clear which column is to be predicted" in found.view.error
    assert found.view.table is not None
    chosen = read(path, Edit(what="role", name="a", value="label"), Edit(what="role", name="b", value="label"))
    assert chosen.view.table is not None
    assert [column.role for column in chosen.view.table.columns] == ["number", "label"]
    assert chosen.view.table.goal == "number"
    _, y = usable(chosen).train.batch(slice(None))
    assert y.dtype == np.float32


def test_missing_values_are_zero_with_a_flag_and_said(tmp_path: Path) -> None:
    lines = pets().splitlines()
    for row, mark in ((1, "NA"), (2, ""), (3, "?")):
        lines[row] = ",".join((mark, *lines[row].split(",")[1:]))
    found = read(write(tmp_path / "a.csv", "\n".join(lines)))
    rows = samples(found)
    assert not np.isnan(rows).any()
    assert rows[rows[:, 1] == 1][:, 0].tolist() == [0, 0, 0]
    finding = next(finding for finding in found.view.findings if finding.title == "Missing values")
    assert finding.files == ("weight: 3 of 40",)


def test_rows_that_come_twice_lie_in_one_part_and_are_said(tmp_path: Path) -> None:
    found = read(write(tmp_path / "a.csv", pets(80) + pets(80).split("\n", 1)[1]))
    data = usable(found)
    parts = [{row.tobytes() for row in np.column_stack(part.batch(slice(None)))}
             for part in (data.train, data.validation, data.test)]
    assert not parts[0] & parts[2]
    assert not parts[0] & parts[1]
    assert any("the same as another one" in title for title in titles(found))


def test_where_a_row_lies_follows_from_what_it_says_and_the_seed(tmp_path: Path) -> None:
    """Another member has the same rows in another order, file and form of writing."""
    lines = pets(200).splitlines()
    other = "\n".join([lines[0], *reversed(lines[1:])]).replace(",", ";").replace(".", ",")
    a, b = read(write(tmp_path / "a.csv", pets(200))), read(write(tmp_path / "b.csv", other))
    for part in ("train", "validation", "test"):
        ours, theirs = ({row.tobytes() for row in getattr(usable(each), part).batch(slice(None))[0]} for each in (a, b))
        assert ours == theirs
    again = read(write(tmp_path / "a.csv", pets(200)), spec=TABLE.changed(seed=7))
    assert not np.array_equal(usable(again).test.batch(slice(None))[0], usable(a).test.batch(slice(None))[0])
    assert a.view.test == pytest.approx(30, abs=15)


# -- the room's schema ------------------------------------------------------------------------------------


def test_a_table_is_mapped_to_the_rooms_columns_by_name(tmp_path: Path) -> None:
    room = read(write(tmp_path / "host.csv", pets())).spec
    lines = [line.split(",") for line in pets(40, seed=2).splitlines()]
    lines[1][1], lines[2][1] = "green", "BLACK"
    mine = "\n".join(f"{kind},extra{i},{colour},{weight}" for i, (weight, colour, kind) in enumerate(lines))
    mine = mine.replace("extra0", "more").replace("weight", "Weight").replace(",extra", ",x")
    found = read(write(tmp_path / "mine.csv", mine), spec=room)
    assert found.spec == room
    x, _ = usable(found).train.batch(slice(None))
    assert x.shape[1] == 2 + 3  # a weight and its flag; black, white and others
    assert samples(found)[:, 4].sum() == 1  # the green one
    by_title = {finding.title: finding for finding in found.view.findings}
    assert by_title["“colour” has values that the task does not know"].files == ("green: 1 row",)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    room = read(write(tmp_path / "host.csv", pets())).spec
    found = read(write(tmp_path / "mine.csv", pets().replace("colour", "color")), spec=room)
    assert found.data is None
    assert found.view.error == ("mine.csv: the task needs columns that it does not have: “colour”. Rename columns, or "
                                "choose another file.")


def test_labels_that_the_room_does_not_know_are_left_out_and_offered_to_be_renamed(tmp_path: Path) -> None:
    room = read(write(tmp_path / "host.csv", pets())).spec
    path = write(tmp_path / "mine.csv", pets().replace(",cat", ",cats", 6).replace(",dog", ",bird", 3))
    found = read(path, spec=room)
    data = usable(found)
    assert len(data.train) + len(data.validation) + len(data.test) == 31
    assert [(card.name, card.count) for card in found.view.classes if card.left_out] == [("cats", 6), ("bird", 3)]
    offer = next(finding for finding in found.view.findings if "“cats”" in finding.title)
    assert offer.fix == (Edit(what="class", name="cats", value="cat"),)
    fixed = read(path, *offer.fix, spec=room)
    assert {card.name: card.count for card in fixed.view.classes} == {"cat": 20, "dog": 17, "bird": 3}


def test_classes_are_renamed_merged_left_out_and_brought_back(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", pets(60).replace(",cat", ",lynx", 10))
    steps = [Edit(what="class", name="lynx", value="wild"), Edit(what="class", name="wild", value="cat")]
    assert read(path, *steps[:1]).spec.classes == ("cat", "dog", "wild")
    assert read(path, *steps).spec.classes == ("cat", "dog")
    out = read(path, Edit(what="class", name="lynx", value=""))
    assert out.spec.classes == ("cat", "dog")
    assert [(card.name, card.left_out) for card in out.view.classes][-1] == ("lynx", True)
    back = read(path, Edit(what="class", name="lynx", value=""), Edit(what="class", name="lynx", value="lynx"))
    assert back.spec.classes == ("cat", "dog", "lynx")


def test_values_that_occur_once_are_not_told_to_the_room(tmp_path: Path) -> None:
    lines = pets().splitlines()
    lines[1] = lines[1].replace("black", "secret").replace("white", "secret")
    found = read(write(tmp_path / "a.csv", "\n".join(lines)))
    assert "secret" not in found.spec.to_json()


def test_the_titanic_reads_the_well_known_columns(tmp_path: Path) -> None:
    header = "PassengerId,Survived,Pclass,Name,Sex,Age,SibSp,Parch,Ticket,Fare,Cabin,Embarked\n"
    rows = "".join(f'{i},{i % 2},{i % 3 + 1},"Braund, Mr. {i}",male,{"" if i % 5 == 0 else 20 + i % 40},1,0,A/5 {i},'
                   f"{7.25 + i},,S\n" for i in range(1, 61))
    found = read(write(tmp_path / "titanic.csv", header + rows), spec=TITANIC)
    x, y = usable(found).train.batch(slice(None))
    assert x.shape[1] == 10
    assert set(y.tolist()) == {0, 1}
    assert "“Name” is left out" in titles(found)


def test_the_penguins_are_shared_out_like_the_digits() -> None:
    """Counts of the original: 344 rows, 152 Adelie, 68 Chinstrap, 124 Gentoo."""
    whole = finish(reading.read_sample(PENGUINS, (1, 1)))
    assert {card.name: card.count for card in whole.view.classes} == {"Adelie": 152, "Chinstrap": 68, "Gentoo": 124}
    shares = [usable(finish(reading.read_sample(PENGUINS, (part, 3)))) for part in (1, 2, 3)]
    assert len({share.test.batch(slice(None))[0].tobytes() for share in shares}) == 1
    sizes = [len(share.train) + len(share.validation) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) + len(shares[0].test) == 344


# -- anything at all --------------------------------------------------------------------------------------

ANY_CELL = st.text(max_size=8) | st.sampled_from(
    ["1", "2,5", "1.000,5", "a", "NA", "1e999", '"', "x@y.zz", "2024-01-01"])
ANY_TEXT = st.lists(st.lists(ANY_CELL, max_size=5), max_size=30).flatmap(
    lambda rows: st.sampled_from(",;\t|").map(lambda mark: "\n".join(mark.join(row) for row in rows)))
ANY_EDIT = st.builds(Edit, what=st.sampled_from(["reading", "role", "class", "skip"]),
                     name=st.sampled_from(["separator", "decimal", "encoding", "sheet", "a", "column 1", ""]),
                     value=st.sampled_from(
                         [",", ";", ".", "utf-16", "rot13", "number", "category", "label", "ignore", "a", ""]))
CALM = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def sentence_or_view(path: Path, steps: list[Edit], task: str) -> None:
    try:
        found = finish(reading.read(TASKS[task], (path,), tuple((step,) for step in steps)))
    except PeerloomError:
        return
    assert (found.data is None) == bool(found.view.error)
    if found.data is not None:
        x, y = found.data.train.batch(slice(None))
        assert np.isfinite(x).all()
        assert np.isfinite(y).all()


@CALM
@given(content=ANY_TEXT.map(str.encode) | st.binary(max_size=300), steps=st.lists(ANY_EDIT, max_size=3),
       task=st.sampled_from(["table", "penguins", "titanic"]))
def test_any_file_is_read_or_refused_in_a_sentence(tmp_path: Path, content: bytes, steps: list[Edit],
                                                   task: str) -> None:
    path = tmp_path / "any.csv"
    path.write_bytes(content)
    sentence_or_view(path, steps, task)


@CALM
@given(labels=st.lists(ANY_CELL, min_size=12, max_size=30), renames=st.lists(st.tuples(ANY_CELL, ANY_CELL), max_size=4))
def test_any_labels_and_renames_give_data_or_a_sentence(tmp_path: Path, labels: list[str],
                                                        renames: list[tuple[str, str]]) -> None:
    cells = [label.replace('"', '""') for label in labels * 3]
    path = write(tmp_path / "any.csv", "x,label\n" + "".join(f'{i % 7}.5,"{cell}"\n' for i, cell in enumerate(cells)))
    steps = [Edit(what="role", name="label", value="label"),
             *(Edit(what="class", name=name, value=value) for name, value in renames)]
    sentence_or_view(path, steps, "table")
