"""What people do at their windows, from the first click to the model."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from desktop.intents import AddData, GoTo, Join, SaveTask, SetDraft, SetTraining, Start, TryImage, TrySample
from tests.session.conftest import House, Person

Run = Callable[[Callable[[House], Coroutine[Any, Any, None]]], None]
pytestmark = [pytest.mark.timeout(180)]




def state(person: Person) -> Any:
    return person.controller.snapshot()


def room_state(person: Person) -> str:
    view = state(person).room
    return view.state if view else ""


async def take_sample(person: Person) -> None:
    """On the Data page: the sample data."""
    await person.click("Use the sample data")
    await person.until(lambda: bool(state(person).data and state(person).data.usable), "usable data")
    await person.click("Continue")


async def open_room(host: Person) -> str:
    """From the first page to an open room; its link."""
    await host.click("Start…")
    await host.click("Choose Handwritten digits")
    await take_sample(host)
    await host.click("Open the room")
    await host.until(lambda: room_state(host) == "open", "an open room")
    return str(state(host).room.link)


async def join(guest: Person, text: str, address: str = "") -> None:
    """From the first page into a room."""
    await guest.click("Join…")
    await guest.type("Link or code", text)
    if address:
        await guest.click("Add an address…")
        await guest.type("Address", address)
    await guest.click("Join")
    await guest.until(lambda: room_state(guest) == "joined", "the room")


async def start_together(host: Person, guest: Person) -> None:
    """Both press Start and wait for the end."""
    for person in (host, guest):
        await person.click("Continue")
        await person.click("Start")
    for person in (host, guest):
        await person.until(lambda person=person: state(person).session.state == "done", "the end")


def test_two_people_train_together_by_link(in_house: Run) -> None:
    async def story(house: House) -> None:
        host = house.sit_down("--local-steps", "5", "--rounds", "4")
        link = await open_room(host)
        guest = house.sit_down()
        await join(guest, link)
        await take_sample(guest)
        await start_together(host, guest)
        ends = [state(person).session for person in (host, guest)]
        assert ends[0].digest == ends[1].digest
        assert [end.round for end in ends] == [4, 4]
        assert {member.name for member in ends[0].members} == {ends[0].name, ends[1].name}
        assert "Its leader can go on" in state(guest).why_not_start
        await host.click("Train again")  # for all: as many rounds again
        for person in (host, guest):
            await person.until(lambda person=person: state(person).session.round == 8, "four more rounds")
            await person.until(lambda person=person: state(person).session.state == "done", "the second end")
        assert state(host).session.digest == state(guest).session.digest != ends[0].digest

    in_house(story)


def folders(place: Path, *names: str) -> Path:
    """Class folders with 12 small pictures each: a bright bar whose place says which class it is."""
    for number, name in enumerate(names):
        (place / name).mkdir(parents=True)
        for i in range(12):
            picture = Image.new("L", (16, 16), 20 + i)
            picture.paste(230, (4 * (sum(map(ord, name)) % 4), 0, 4 * (sum(map(ord, name)) % 4) + 4, 16))
            picture.save(place / name / f"{number}-{i}.png")
    return place


def test_a_task_made_in_one_window_is_joined_by_another_whose_folders_differ(in_house: Run, tmp_path: Path) -> None:
    """One class of the room is missing there, and one is there that the room does not know."""
    mine, theirs = folders(tmp_path / "mine", "cat", "dog", "owl"), folders(tmp_path / "theirs", "dog", "owl", "fox")

    async def story(house: House) -> None:
        host = house.sit_down("--local-steps", "3", "--rounds", "3")
        await host.click("Start…")
        await host.click("Make your own…")
        for key, value in {"title": "Who is it?", "classes": "cat, dog, owl", "height": "16", "width": "16",
                           "channels": "grey", "model": "digits-cnn", "min_members": "2"}.items():
            host.controller.intend(SetDraft(key, value))
        await host.until(lambda: state(host).draft.parameters is not None, "the size of the model")
        assert state(host).draft.error == ""
        kept = tmp_path / "who.peerloom-task"
        host.controller.intend(SaveTask(str(kept)))
        await host.click("Use this task")
        host.controller.intend(AddData((str(mine),)))
        await host.until(lambda: bool(state(host).data and state(host).data.usable), "usable data")
        assert state(host).recent == (str(mine),)
        await host.click("Continue")
        await host.click("Open the room")
        await host.until(lambda: room_state(host) == "open", "an open room")
        guest = house.sit_down()
        await join(guest, str(state(host).room.link))
        assert state(guest).task.title == "Who is it?"
        guest.controller.intend(AddData((str(theirs),)))
        await guest.until(lambda: bool(state(guest).data and not state(guest).data.reading), "data")
        assert state(guest).data.usable, state(guest).data.error
        listed = " ".join(f"{each.title} {each.text} {' '.join(each.files)}" for each in state(guest).data.findings)
        assert "fox" in listed
        assert "cat" in listed
        await guest.click("Continue")
        await start_together(host, guest)
        ends = [state(person).session for person in (host, guest)]
        assert ends[0].digest == ends[1].digest
        other = house.sit_down(str(kept))
        await other.until(lambda: state(other).page == "data", "the task of the file")
        assert state(other).task.title == "Who is it?"

    in_house(story)


def test_two_people_train_on_a_play_and_on_a_text_of_their_own(in_house: Run, tmp_path: Path) -> None:
    async def story(house: House) -> None:
        host = house.sit_down("--local-steps", "3", "--rounds", "2")
        await host.click("Start…")
        await host.click("Choose A play by Shakespeare")
        await take_sample(host)
        view = state(host).data
        assert (view.title, view.text.encoding, view.text.sample[:6]) == ("Hamlet", "utf-8", "Hamlet")
        await host.click("Open the room")
        await host.until(lambda: room_state(host) == "open", "an open room")
        guest = house.sit_down()
        await join(guest, str(state(host).room.link))
        (tmp_path / "plays").mkdir()
        (tmp_path / "plays" / "été.txt").write_bytes("Wo ist der König? Er schläft – süß.\n".encode("cp1252") * 400)
        guest.controller.intend(AddData((str(tmp_path / "plays"),)))
        await guest.until(lambda: bool(state(guest).data and state(guest).data.usable), "usable data")
        assert state(guest).data.text.encoding == "cp1252"
        await guest.click("Continue")
        await start_together(host, guest)
        ends = [state(person).session for person in (host, guest)]
        assert ends[0].digest == ends[1].digest
        assert [end.round for end in ends] == [2, 2]
        assert ends[0].parameters == 103_344
        for person in (host, guest):
            person.controller.intend(GoTo("try"))
            assert state(person).try_.ready
            assert state(person).try_.samples == ()
        await host.until(lambda: not host.buttons("Choose a picture…"), "no picture to choose for text")

    in_house(story)


def test_the_host_changes_how_the_room_trains_while_it_does_and_a_guest_cannot(in_house: Run) -> None:
    async def story(house: House) -> None:
        host = house.sit_down("--local-steps", "20", "--rounds", "400", "--outer", "nesterov")
        link = await open_room(host)
        guest = house.sit_down()
        await join(guest, link)
        await take_sample(guest)
        for person in (host, guest):
            await person.click("Continue")
            await person.click("Start")
        await guest.until(lambda: state(guest).session.round >= 1, "a round")
        assert state(guest).session.outer == "nesterov"
        host.controller.intend(SetTraining("precision", "int8"))
        host.controller.intend(SetTraining("local_steps", "2"))
        host.controller.intend(SetTraining("weighting", "equal"))
        for person in (host, guest):
            await person.until(lambda person=person: (
                state(person).session.precision, state(person).session.local_steps,
                state(person).session.policy.weighting) == ("int8", 2, "equal"), "the change")
            assert state(person).values.precision == "int8"
        guest.controller.intend(SetTraining("precision", "f32"))
        await guest.until(lambda: any("leads the rounds and decides this" in notice.text
                                      for notice in state(guest).notices), "why it cannot be")
        assert state(guest).values.precision == "int8"
        now = state(host).session.round
        host.controller.intend(SetTraining("rounds", str(now + 5)))
        for person in (host, guest):
            await person.until(lambda person=person: state(person).session.state == "done", "the end")
        ends = [state(person).session for person in (host, guest)]
        assert ends[0].digest == ends[1].digest
        assert [end.round for end in ends] == [now + 5, now + 5]
        assert [member.weight for member in ends[0].members] == [0.5, 0.5]

    in_house(story)


def test_of_quick_edits_around_round_boundaries_none_is_lost(in_house: Run) -> None:
    async def story(house: House) -> None:
        person = house.sit_down("--local-steps", "1", "--rounds", "100000")
        await person.click("Train…")
        await person.click("Choose Handwritten digits")
        await take_sample(person)
        person.controller.intend(GoTo("train"))
        await person.click("Start")
        await person.until(lambda: state(person).session.round >= 2, "rounds")
        for number in range(1, 21):  # while rounds of a few milliseconds come and go
            edits = {"batch": number, "rounds": 100_000 + number, "lr": number / 1000, "outer": "nesterov",
                     "outer_lr": number / 100, "outer_momentum": number / 50, "late": "carry"}
            for key, value in edits.items():
                person.controller.intend(SetTraining(key, str(value)))
                await asyncio.sleep(0.003)
            await person.until(lambda edits=edits: all(
                getattr(state(person).session, key, value) == value for key, value in edits.items()), f"all of {edits}")
            assert {key: getattr(state(person).values, key) for key in edits} == edits
        await person.click("Stop training")
        await person.until(lambda: state(person).session.state == "stopped", "the stop")

    in_house(story)


def test_a_guest_joins_by_the_code_read_over_the_phone_and_the_address(in_house: Run) -> None:
    async def story(house: House) -> None:
        host = house.sit_down("--local-steps", "2", "--rounds", "2")
        await open_room(host)
        code, address = state(host).room.code, state(host).room.address
        guest = house.sit_down()
        await join(guest, code.replace("-", " ").upper(), address)
        await host.until(lambda: state(host).room.code not in ("", code), "another code after the first was used")
        await take_sample(guest)
        await start_together(host, guest)
        assert state(host).session.digest == state(guest).session.digest

    in_house(story)


def test_a_guest_finds_the_room_nearby_and_needs_only_the_code(in_house: Run) -> None:
    async def story(house: House) -> None:
        host = house.sit_down()
        await open_room(host)
        guest = house.sit_down()
        room = state(host).room
        await guest.until(lambda: room.room in {each.room for each in state(guest).nearby}, "the room nearby")
        await join(guest, room.code)
        assert state(guest).room.host == state(host).name

    in_house(story)


def test_somebody_alone_trains_stops_and_tries_a_picture(in_house: Run, tmp_path: Path) -> None:
    async def story(house: House) -> None:
        person = house.sit_down("--rounds", "500")
        await person.click("Train…")
        await person.click("Choose Handwritten digits")
        await take_sample(person)
        person.controller.intend(GoTo("train"))
        await person.click("Start")
        await person.until(lambda: state(person).session.round >= 3, "three rounds")
        await person.click("Stop training")
        await person.until(lambda: state(person).session.state == "stopped", "the stop")
        final = state(person).session.final
        await person.until(lambda: final.model_path in {model.path for model in state(person).models}, "the model")
        assert 0.5 < final.test_accuracy <= 1.0
        await person.click("Try the model")
        picture = tmp_path / "seven.png"
        picture.write_bytes(state(person).try_.samples[7])
        person.controller.intend(TrySample(7))
        await person.until(lambda: "“7”" in state(person).try_.picture_name, "a reading of the held-out picture")
        read = state(person).try_.confidences
        person.controller.intend(TryImage(str(picture)))
        await person.until(lambda: state(person).try_.picture_name == "seven.png", "a reading of the file")
        shown = state(person).try_.confidences
        assert shown[0].name == read[0].name  # the same picture is read alike, whichever way it came
        assert sum(each.value for each in shown) == pytest.approx(1.0, abs=1e-3)

    in_house(story)


def test_people_with_folders_of_pictures_train_and_the_broken_one_is_named(in_house: Run, tmp_path: Path) -> None:
    for person in ("host", "guest"):
        for shade, name in ((40, "dark"), (220, "light")):
            folder = tmp_path / person / name
            folder.mkdir(parents=True)
            for number in range(12):
                tone = shade + number + (5 if person == "guest" else 0)
                Image.new("RGB", (20, 20), (tone, tone, tone // 2)).save(folder / f"{number}.png")
    (tmp_path / "guest" / "dark" / "half.jpg").write_bytes(b"\xff\xd8\xff\xe0 not a picture")

    async def story(house: House) -> None:
        host = house.sit_down("--host", "--task", "images", "--data", str(tmp_path / "host"), "--local-steps", "2",
                              "--rounds", "2", "--start")
        await host.until(lambda: room_state(host) == "open", "an open room")
        guest = house.sit_down(state(host).room.link, "--data", str(tmp_path / "guest"), "--start")
        for person in (host, guest):
            await person.until(lambda person=person: state(person).session.state == "done", "the end")
        assert state(host).session.digest == state(guest).session.digest
        assert any("half.jpg" in line.text for line in state(guest).log)

    in_house(story)


@pytest.mark.parametrize(("text", "sentence"), [
    ("peerloom://join?room=a-b", "not a link to a room"),
    ("peerloom://join?room=maple-otter&key=5ghah7g7c4ut3bsfdbmqn75sqy&at=127.0.0.1:9", "No room answers"),
])
def test_a_room_that_cannot_be_joined_is_said_in_a_sentence(in_house: Run, text: str, sentence: str) -> None:
    async def story(house: House) -> None:
        guest = house.sit_down()
        await guest.click("Join…")
        await guest.type("Link or code", text)
        await guest.click("Join")
        await guest.until(
            lambda: sentence in (state(guest).room.error if state(guest).room else "")
            or any(sentence in notice.text for notice in state(guest).notices), sentence)
        await guest.until(lambda: bool(guest.buttons("Join")), "the way to try again")

    in_house(story)


def test_a_port_that_is_in_use_is_said_in_a_sentence(in_house: Run) -> None:
    async def story(house: House) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            host = house.sit_down("--port", str(port))
            await host.click("Start…")
            await host.click("Choose Handwritten digits")
            await take_sample(host)
            await host.click("Open the room")
            await host.until(lambda: room_state(host) == "failed", "the refusal")
        assert str(port) in state(host).room.error
        await host.click("Open the room")
        await host.until(lambda: room_state(host) == "open", "the room, now that the port is free")

    in_house(story)


def test_a_folder_without_pictures_keeps_start_disabled_with_the_reason(in_house: Run, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()

    async def story(house: House) -> None:
        person = house.sit_down()
        await person.click("Train…")
        await person.click("Choose Your own pictures")
        person.controller.intend(AddData((str(tmp_path / "nothing"),)))
        await person.until(lambda: bool(state(person).data and state(person).data.error), "the reason")
        assert "No pictures in" in state(person).data.error
        assert not state(person).can_start
        assert state(person).why_not_start == state(person).data.error

    in_house(story)


def test_a_trainer_that_does_not_answer_is_ended_by_force_and_the_window_stays_usable(
    in_house: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(house: House) -> None:
        from desktop.trainer.loop import LocalTraining

        person = house.sit_down()
        person.app.settings.override("stop_timeout_s", "1")
        await person.click("Train…")
        await person.click("Choose Handwritten digits")
        await take_sample(person)
        person.controller.intend(GoTo("train"))

        def for_ever(_: object) -> None:
            while True:
                pass

        with monkeypatch.context() as patch:
            patch.setattr(LocalTraining, "step", for_ever)
            await person.click("Start")
            await person.until(lambda: state(person).session.state == "training", "training")
            await person.click("Stop training")
            await person.until(lambda: state(person).session.state == "failed", "the end by force")
        assert any("ended by force" in notice.text for notice in state(person).notices)
        person.controller.intend(GoTo("data"))
        await take_sample(person)
        person.controller.intend(GoTo("train"))
        await person.click("Start")
        await person.until(lambda: state(person).session.round >= 1, "a round with the new trainer")

    in_house(story)


def test_closing_a_window_in_the_middle_of_training_leaves_the_others_training(in_house: Run) -> None:
    async def story(house: House) -> None:
        host = house.sit_down("--local-steps", "3", "--rounds", "300")
        link = await open_room(host)
        guest, third = house.sit_down(link, "--data", "sample", "--start"), house.sit_down(link, "--data", "sample")
        await third.until(lambda: room_state(third) == "joined", "the room")
        third.controller.intend(Start())
        host.controller.intend(Start())
        for person in (host, guest, third):
            await person.until(lambda person=person: state(person).session.round >= 2, "two rounds")
        began = asyncio.get_running_loop().time()
        await host.close()  # the leader
        assert asyncio.get_running_loop().time() - began < 5.0  # 3 s, and some for a busy machine
        house.people.remove(host)
        host.window.deleteLater()
        reached = state(guest).session.round
        for person in (guest, third):
            await person.until(lambda person=person: state(person).session.round >= reached + 2, "further rounds")
        assert any("closed its window" in line.text for line in state(guest).log)

    in_house(story)


def test_who_stops_stays_in_the_room_and_who_leaves_is_out_of_it_and_both_can_come_again(in_house: Run) -> None:
    async def story(house: House) -> None:
        host = house.sit_down("--local-steps", "30", "--rounds", "100000", "--host", "--task", "digits", "--data",
                              "sample", "--start")
        await host.until(lambda: room_state(host) == "open", "an open room")
        link = state(host).room.link
        guest, third = (house.sit_down(link, "--data", "sample", "--start") for _ in range(2))
        people = (host, guest, third)
        for person in people:
            await person.until(lambda person=person: len(state(person).session.members) == 3, "three")
            await person.until(lambda person=person: state(person).session.round >= 2, "two rounds")

        async def others_go_on(others: tuple[Person, ...], seen: str) -> None:
            for person in others:
                reached = state(person).session.round
                await person.until(lambda person=person: seen_by(person) == seen, seen)
                await person.until(lambda person=person, to=reached + 2: state(person).session.round >= to, "rounds")

        def seen_by(person: Person) -> str:
            names = {row.name: row.state for row in state(person).session.members}
            return names.get(state(guest).name, "not there")

        await guest.click("Stop training")
        await guest.until(lambda: state(guest).session.state == "stopped", "the stop")
        assert state(guest).session.final.model_path
        assert room_state(guest) == "joined"
        await others_go_on((host, third), "not training")
        assert any(f"{state(guest).name} takes part no more" in line.text for line in state(host).log)
        kept = state(guest).session.round

        await guest.click("Train again")
        await guest.until(lambda: state(guest).session.round > kept + 1, "rounds of the room, not rounds anew")
        await host.until(lambda: seen_by(host) != "not training", "the guest in the rounds again")

        await guest.click("Leave")
        await guest.until(lambda: room_state(guest) == "", "the way out")
        assert state(guest).session.state == "stopped"
        await others_go_on((host, third), "not there")
        assert any(f"{state(guest).name} left the room" in line.text for line in state(host).log)

        guest.controller.intend(Join(link, ""))
        await guest.until(lambda: room_state(guest) == "joined", "the room once more")
        await guest.click("Continue")
        await guest.click("Train again")
        await guest.until(lambda: state(guest).session.round > kept + 3, "rounds with the others")

        await host.click("Stop training")  # it leads, and hosts the room
        await host.until(lambda: state(host).session.state == "stopped", "the stop")
        reached = state(host).session.round
        await guest.until(lambda: state(guest).session.round >= reached + 2, "rounds without the host")
        await host.click("Train again")
        await host.until(lambda: state(host).session.round > reached + 2, "the host in the rounds that go on")

    in_house(story)


def test_the_demo_button_trains_in_three_windows_and_closing_ends_them_all(in_house: Run) -> None:
    async def story(house: House) -> None:
        person = house.sit_down("--rounds", "3")
        await person.click("Start the demo")
        await person.until(lambda: state(person).session.state == "done", "the end of the demo")
        assert len(state(person).session.members) == 3
        assert person.controller.windows.running == 2
        await person.close()
        assert person.controller.windows.running == 0
        house.people.remove(person)
        person.window.deleteLater()

    in_house(story)
