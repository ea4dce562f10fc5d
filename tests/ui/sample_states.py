"""Snapshots as a real session gives them, for the tests of the window and for pictures of it."""

from __future__ import annotations

import csv
import gzip
import io
import math
import random
from functools import cache

import msgspec
from PIL import Image

from desktop.resources import resource
from desktop.state import (
    ClassCard,
    ColumnView,
    Confidence,
    Curve,
    Curves,
    DataView,
    DraftGroup,
    DraftView,
    Edit,
    Final,
    Finding,
    LogLine,
    LoopLag,
    MemberRow,
    ModelRow,
    NearbyRoom,
    Notice,
    PathRow,
    PathsView,
    Policy,
    RoomView,
    SessionState,
    SettingRow,
    TableView,
    TaskCard,
    TextView,
    TrainingValues,
    TryView,
    WindowState,
)

LINK = ("peerloom://join?room=maple-otter&key=3Jq9x0Zr5mWcT1vKpYb2Ug&at=192.168.1.20:47113"
        "&at=10.0.0.4:47113&task=digits")
LONG_NAME = "Dr. Wilhelmina Bartholomea von und zu Oberhausen-Rothenburg (second floor)"

DIGITS = TaskCard(id="digits", title="Handwritten digits", sample=True,
                  text="Reads a handwritten digit, 0 to 9, from a tiny grey picture.",
                  model="Small convolutional network: two convolutions, two linear layers",
                  data="Sample pictures come with Peerloom. Or your own: one folder of pictures for each class: 0, "
                       "1, 2, 3, 4, 5, 6, 7, 8, 9")
IMAGES = TaskCard(id="images", title="Your own pictures", text="Tells apart what your folders of pictures show.",
                  model="Convolutional network for photographs: four convolutions, about 95,000 parameters",
                  data="One folder of pictures for each class")


def png(size: tuple[int, int], pixels: bytes, mode: str = "L") -> bytes:
    """A PNG of raw pixels."""
    out = io.BytesIO()
    Image.frombytes(mode, size, pixels).save(out, "PNG")
    return out.getvalue()


@cache
def digit_pictures() -> dict[int, tuple[bytes, ...]]:
    """The first 12 shipped pictures of each digit, dark on light."""
    found: dict[int, list[bytes]] = {digit: [] for digit in range(10)}
    with gzip.open(resource("demo/digits.csv.gz"), "rt") as lines:
        for line in csv.reader(lines):
            if not line[0].strip().isdigit():
                continue
            digit, *pixels = (int(value) for value in line)
            if len(pixels) == 64 and len(found[digit]) < 12:
                found[digit].append(png((8, 8), bytes(min(255, value * 16) for value in pixels)))
    return {digit: tuple(pictures) for digit, pictures in found.items()}


def tiles(hue: tuple[int, int, int], count: int = 12) -> tuple[bytes, ...]:
    """Pictures of one colour each, near a hue."""
    rng = random.Random(sum(hue))
    return tuple(png((32, 32), bytes(min(255, max(0, part + rng.randint(-30, 40))) for part in hue) * 1024, "RGB")
                 for _ in range(count))


def digits_data() -> DataView:
    cards = tuple(ClassCard(name=str(digit), count=178 + (digit * 7) % 6, thumbnails=pictures)
                  for digit, pictures in digit_pictures().items())
    return DataView(title="sample digits", source="sample", classes=cards, training=1294, validation=143, test=360,
                    shape="8 × 8, grey", usable=True)


def pets_data() -> DataView:
    return DataView(
        title="pets", source="/home/me/pets", usable=True, training=834, validation=105, test=104,
        shape="any → 64 × 64, upright, colour",
        classes=(ClassCard(name="bird", count=24, thumbnails=tiles((110, 180, 110))),
                 ClassCard(name="cat", count=412, thumbnails=tiles((180, 150, 120))),
                 ClassCard(name="dog", count=607, thumbnails=tiles((110, 140, 180)))),
        findings=(
            Finding(severity="bad", title="3 pictures can’t be opened",
                    text="IMG_0412.jpg is cut off half way, two are empty. They are skipped.",
                    files=("/home/me/pets/cat/IMG_0412.jpg", "/home/me/pets/cat/a.png", "/home/me/pets/dog/b.png")),
            Finding(severity="care", title="“cat” and “Cat ” look like one class",
                    text="They differ by a capital and a space."),
            Finding(severity="care", title="“bird” has few pictures", text="24 against 412 of “cat”; 50 would help."),
            Finding(severity="info", title="11 pictures appear twice", text="The same content under other names.",
                    files=("/home/me/pets/dog/c.png",)),
        ))


def penguins_data() -> DataView:
    columns = (
        ColumnView(name="species", role="label", detected="3 categories", detail="Adelie, Chinstrap, Gentoo"),
        ColumnView(name="island", role="category", detected="3 categories", detail="Biscoe, Dream, Torgersen"),
        ColumnView(name="bill_length_mm", role="number", detected="numbers", detail="32.1 to 59.6, 2 missing"),
        ColumnView(name="bill_depth_mm", role="number", detected="numbers", detail="13.1 to 21.5, 2 missing"),
        ColumnView(name="flipper_length_mm", role="number", detected="whole numbers", detail="172 to 231, 2 missing"),
        ColumnView(name="e-mail of the observer", role="ignore", detected="e-mail addresses", detail="12 different"),
        ColumnView(name="year", role="ignore", detected="whole numbers", detail="2007 to 2009"),
    )
    preview = (("Adelie", "Torgersen", "39,1", "18,7", "181", "kg@example.org", "2007"),
               ("Adelie", "Torgersen", "39,5", "17,4", "186", "kg@example.org", "2007"),
               ("Adelie", "Torgersen", "NA", "NA", "NA", "kg@example.org", "2007"),
               ("Gentoo", "Biscoe", "46,1", "13,2", "211", "a.very.long.name@institute.example.org", "2008"))
    email = Edit(what="role", name="e-mail of the observer", value="ignore")
    return DataView(
        title="penguins.csv", source="/home/me/penguins.csv", usable=True, training=258, validation=34, test=52,
        shape="12 numbers a row, 3 classes", score=72, score_text="Good enough to start: some values are missing.",
        classes=(ClassCard(name="Adelie", count=152), ClassCard(name="Chinstrap", count=68),
                 ClassCard(name="Gentoo", count=124)),
        table=TableView(columns=columns, rows=344, preview=preview, separator=";", decimal=",", encoding="utf-8"),
        edits=((email,),),
        findings=(
            Finding(severity="care", title="“e-mail of the observer” identifies people",
                    text="It says who, not what. Leave it out unless the task needs it.", fix=(email,),
                    fix_text="Leave this column out"),
            Finding(severity="info", title="8 values are missing",
                    text="In 3 columns. They count as the column’s mean, with a mark."),
        ))


def play_data() -> DataView:
    return DataView(
        title="plays", source="/home/me/plays", usable=True, training=1240, validation=154, test=240,
        shape="blocks of 128 characters", score=91, score_text="Plenty of text, all of it readable.",
        text=TextView(files=3, characters=209_152, tokens=209_152, encoding="utf-8",
                      sample="ACT I\n\nSCENE I. Elsinore. A platform before the castle.\n\nFRANCISCO at his post. "
                             "Enter to him BERNARDO\n\nBERNARDO\n  Who's there?\n\nFRANCISCO\n  Nay, answer me: stand, "
                             "and unfold yourself."))


def members(count: int = 4) -> tuple[MemberRow, ...]:
    rows = (
        MemberRow(peer="a1f09c2e77", name="Quiet Heron", you=True, backend="cpu", role="leader", link="you", round=6,
                  received_bytes=900_000, state="ready", training_share=0.79, exchanging_share=0.08),
        MemberRow(peer="b2d8114f03", name="Calm Lynx", backend="cpu", link="direct", rtt_ms=1.2, round=6,
                  sent_bytes=900_000, received_bytes=900_000, state="training", state_for_s=4.2, last_seen_s=0.6,
                  candidates="host → host, 2 gathered", training_share=0.95, exchanging_share=0.04),
        MemberRow(peer="c3aa90be51", name="Lab 3", backend="cuda", link="direct", rtt_ms=23.4, round=6,
                  sent_bytes=800_000, received_bytes=900_000, state="ready", last_seen_s=1.1,
                  candidates="host → srflx, 4 gathered", training_share=0.22, exchanging_share=0.10),
        MemberRow(peer="d4c7720a9e", name="Brisk Otter", backend="mps", link="via Lab 3", rtt_ms=41.0, round=6,
                  sent_bytes=600_000, received_bytes=700_000, state="ready", last_seen_s=0.2,
                  candidates="relay → host, 5 gathered", training_share=0.60, exchanging_share=0.20),
    )
    more = tuple(msgspec.structs.replace(rows[1 + i % 3], peer=f"e{i:09}", name=f"Member {i + 5}")
                 for i in range(max(0, count - 4)))
    return (rows + more)[:count]


def curves(steps: int = 140, rounds: int = 7) -> Curves:
    rng = random.Random(7)
    x = tuple(float(step) for step in range(steps))
    loss = tuple(2.3 * math.exp(-step / 45) + 0.12 + rng.uniform(-0.08, 0.08) * math.exp(-step / 90) for step in x)
    accuracy = tuple(min(0.99, 0.97 - 0.87 * math.exp(-step / 32) + rng.uniform(-0.02, 0.02)) for step in x)
    at = tuple(float(r * steps // rounds) for r in range(rounds + 1))
    return Curves(
        loss=Curve(x=x, y=loss), accuracy=Curve(x=x, y=accuracy),
        validation_loss=Curve(x=at, y=tuple(2.35 * math.exp(-step / 46) + 0.16 for step in at)),
        validation_accuracy=Curve(x=at, y=tuple(0.95 - 0.86 * math.exp(-step / 33) for step in at)),
        room_loss=Curve(x=at, y=tuple(2.4 * math.exp(-step / 44) + 0.13 for step in at)),
        room_accuracy=Curve(x=at, y=tuple(0.955 - 0.86 * math.exp(-step / 31) for step in at)))


LOG = (
    LogLine(at="17:41:02", severity="info", text="Quiet Heron opened room maple-otter"),
    LogLine(at="17:41:19", severity="info", text="Calm Lynx joined"),
    LogLine(at="17:41:30", severity="bad", text="A contribution of Lab 3 was refused: a number is not finite"),
    LogLine(at="17:42:08", severity="info", text="Brisk Otter joined, counts from round 5"),
    LogLine(at="17:42:31", severity="care", text="no direct path to Brisk Otter, going through Lab 3"),
)

SETTINGS = (
    SettingRow(key="name", title="Name", text="What the others in a room call this window. Empty: two words are drawn.",
               value="Quiet Heron", kind="text"),
    SettingRow(key="theme", title="Theme", text="Light or dark, or as the system says.", value="system", kind="choice",
               choices=("system", "light", "dark"), default="system"),
    SettingRow(key="cpu_share", title="CPU share", kind="number", value="1", default="1",
               text="Processor cores that training may use. One core left over keeps windows fluid."),
    SettingRow(key="port", title="Port", text="Where this window listens when it hosts a room. 0: any free one.",
               value="80", kind="number", default="0",
               error="port: “80” is not valid. Allowed: a whole number from 1024 to 65535, or 0 for any free one."),
    SettingRow(key="announce", title="Announce rooms", text="Others on this network see your room in “Nearby”.",
               value="true", kind="switch", default="true"),
    SettingRow(key="heartbeat_s", title="Heartbeat, s", text="How often members show each other that they are there.",
               value="2", kind="number", default="2"),
    SettingRow(key="log_level", title="Log level", text="How much the log tells.", value="info", kind="choice",
               choices=("debug", "info", "warning"), default="info"),
)

MODELS = (
    ModelRow(path="/home/me/.local/share/peerloom/models/digits-2031-05-04-1742.safetensors",
             title="Handwritten digits", date="4 May 2031, 17:42",
             rounds=12, members=3, test_accuracy=0.972, size_bytes=412_000),
    ModelRow(path="/home/me/.local/share/peerloom/models/pets-2031-05-02-0911.safetensors", title="Your own pictures",
             date="2 May 2031, 09:11", rounds=40, members=1, test_accuracy=None, size_bytes=1_630_000),
)

BASE = WindowState(name="Quiet Heron", device="CPU · 1 of 2 cores", ready=True, tasks=(DIGITS, IMAGES),
                   settings=SETTINGS, addresses=("192.168.1.20", "10.0.0.4"))
_replace = msgspec.structs.replace


def first() -> WindowState:
    return _replace(BASE, nearby=(NearbyRoom(room="maple-otter", host="Calm Lynx", task="Handwritten digits", members=2,
                                             address="192.168.1.31:47113"),))


def task() -> WindowState:
    return _replace(BASE, page="task", mode="host", task=DIGITS)


def data_empty() -> WindowState:
    return _replace(BASE, page="data", mode="host", task=DIGITS, done=("task",),
                    recent=("/home/me/pets", "/home/me/a folder with quite a long name for once", "/data/penguins.csv"))


def data_digits() -> WindowState:
    return _replace(data_empty(), data=digits_data(), done=("task",))


def data_pets() -> WindowState:
    return _replace(data_empty(), task=IMAGES, data=pets_data())


PENGUINS = TaskCard(id="penguins", title="Penguins", text="Tells a penguin’s species by its measures.", kind="table",
                    data="A table with one penguin a row", model="Two linear layers", sample=True)
PLAYS = TaskCard(id="text", title="Your own text", text="Writes on in the style of a text.", kind="text",
                 data="Text files", model="GPT, nano")


def make_task() -> WindowState:
    text = "Tells apart what a microscope shows: healthy cells and three kinds of sick ones, from coloured slides."
    groups = (
        DraftGroup(title="What it is", rows=(
            SettingRow(key="title", title="Name", text="What the others read before they join.", kind="text",
                       value="Cells under the microscope", default="Your own pictures"),
            SettingRow(key="text", title="In a sentence", text="What the model learns.", value=text, kind="text",
                       default=text))),
        DraftGroup(title="Data", rows=(
            SettingRow(key="classes", title="Classes", kind="text", value="healthy, type A, type B, type C",
                       text="Separated by commas. Empty: your own data decides when you open the room."),
            SettingRow(key="height", title="Height", kind="number", value="96", default="64",
                       error="height = 9600 is not valid. Allowed: a whole number from 8 to 512.",
                       text="Pictures are brought to this size, the whole picture, in points."),
            SettingRow(key="channels", title="Colour", text="Colour tells more; grey is quicker.", kind="choice",
                       value="colour", choices=("grey", "colour"), default="colour"))),
    )
    view = DraftView(kind="images", kinds=("images", "table", "text"), groups=groups, parameters=95_044,
                     samples_per_s=412.0, error=groups[1].rows[1].error)
    return _replace(BASE, page="make", draft=view)


def data_table() -> WindowState:
    return _replace(data_empty(), task=PENGUINS, data=penguins_data())


def data_text() -> WindowState:
    return _replace(data_empty(), task=PLAYS, data=play_data())


def data_reading() -> WindowState:
    return _replace(data_empty(), task=IMAGES, data=DataView(
        title="pets", source="/home/me/pets", reading="/home/me/pets/dog — 412 of 1,043 pictures", progress=0.4))


def data_error() -> WindowState:
    return _replace(data_empty(), task=IMAGES, data=DataView(
        title="notes", source="/home/me/notes",
        error="No pictures in /home/me/notes. Choose a folder that holds one folder of pictures for each class."))


def room_choose() -> WindowState:
    return _replace(BASE, page="room", task=DIGITS, data=digits_data(), done=("task", "data"))


def room_host() -> WindowState:
    return _replace(room_choose(), mode="host")


def room_open() -> WindowState:
    session = SessionState(peer="a1f09c2e77", name="Quiet Heron", room="maple-otter", members=tuple(
        _replace(row, state="ready" if row.you else "waiting", round=0, sent_bytes=0, received_bytes=0,
                 training_share=0.0, exchanging_share=0.0) for row in members(3)))
    return _replace(room_host(), session=session, done=("task", "data", "room"), room=RoomView(
        room="maple-otter", hosting=True, host="Quiet Heron", state="open", link=LINK,
        code="maple-otter-amber-falcon-42", address="192.168.1.20:47113", task="Handwritten digits", start_members=3))


def room_join() -> WindowState:
    nearby = (NearbyRoom(room="maple-otter", host="Calm Lynx", task="Handwritten digits", members=2,
                         address="192.168.1.31:47113"),
              NearbyRoom(room="amber-finch", host=LONG_NAME, task="Your own pictures", members=1,
                         address="192.168.1.77:40100"))
    return _replace(BASE, page="room", mode="join", nearby=nearby)


def room_joining() -> WindowState:
    return _replace(room_join(), room=RoomView(room="maple-otter", state="joining"))


def room_failed() -> WindowState:
    return _replace(room_join(), room=RoomView(state="failed", error=(
        "No room answers at 192.168.1.31:47113. Ask the host whether its window is open and on the same network.")))


def room_alone() -> WindowState:
    return _replace(room_choose(), mode="alone")


def train_ready() -> WindowState:
    return _replace(room_open(), page="train", can_start=True, values=TrainingValues())


def train_blocked() -> WindowState:
    return _replace(room_open(), page="train", can_start=False, why_not_start="Choose your data first.", data=None,
                    done=("task", "room"))


def training() -> WindowState:
    session = SessionState(
        peer="a1f09c2e77", name="Quiet Heron", role="leader", state="waiting", room="maple-otter", task="digits",
        waiting_for="waiting for Calm Lynx, 4 s", model="digits-cnn", parameters=98_000, precision="f16", invite=LINK,
        members=members(4), round=6, rounds=12, step=140, epoch=3.4, local_steps=20, round_progress=0.9, batch=32,
        lr=0.001, loss=0.214, accuracy=0.951, validation_loss=0.231, validation_accuracy=0.943,
        metrics={"f1": 0.942}, samples_per_s=1660.0, steps_per_s=52.0, bytes_per_s=410_000.0,
        seconds_left=174.0, policy=Policy(quorum=3, n=4, deadline_s=15.0),
        digest="9f2c41d0aa17c0ffee", loop_lag_ms=LoopLag(p50=0.4, p99=3.1, max=12.0))
    return _replace(room_open(), page="train", done=("task", "data", "room"), session=session, curves=curves(), log=LOG)


def training_crowd() -> WindowState:
    """Ten members, some with very long names, and a notice."""
    crowd = list(members(10))
    crowd[0] = _replace(crowd[0], name=LONG_NAME)
    crowd[1] = _replace(crowd[1], name=LONG_NAME, state="lost", state_for_s=31, link="lost", rtt_ms=None)
    state = training()
    session = _replace(state.session, members=tuple(crowd), waiting_for=f"waiting for {LONG_NAME} and 2 more, 14 s")
    return _replace(state, session=session, name=LONG_NAME,
                    notices=(Notice(id=1, severity="care", text="Member 7 joined and counts from round 8."),
                             Notice(id=2, severity="bad", text=f"{LONG_NAME} was lost 31 s ago. The others go on.")))


def training_odd() -> WindowState:
    """Numbers that are not numbers."""
    nan, inf = float("nan"), float("inf")
    odd = Curve(x=(0.0, 1.0, 2.0, 3.0), y=(1.0, nan, inf, nan))
    state = training()
    session = _replace(state.session, loss=nan, accuracy=None, steps_per_s=nan, seconds_left=inf,
                       members=(_replace(members(2)[0], rtt_ms=nan), _replace(members(2)[1], rtt_ms=nan)))
    return _replace(state, session=session, curves=Curves(loss=odd, accuracy=odd))


def training_number() -> WindowState:
    """A task that predicts a number: errors in its unit, nothing is right or wrong."""
    state, lines = training(), curves()
    error, validation, room = (Curve(x=line.x, y=tuple(28_000 * y + 900 for y in line.y)) for line in (
        lines.loss, lines.validation_loss, lines.room_loss))
    return _replace(
        state, curves=Curves(loss=lines.loss, validation_loss=lines.validation_loss, room_loss=lines.room_loss,
                             error=error, validation_error=validation, room_error=room),
        session=_replace(state.session, accuracy=None, validation_accuracy=None, metrics={"mae": 7_368.2, "r2": 0.874}))


def training_text() -> WindowState:
    state = training()
    return _replace(state, session=_replace(state.session, metrics={"perplexity": 12.62}))


def trained_number() -> WindowState:
    state = trained()
    final = Final(model_path=MODELS[0].path, test_samples=360, metrics={"mae": 6_911.4, "r2": 0.881})
    return _replace(state, session=_replace(state.session, metrics=final.metrics, final=final),
                    curves=training_number().curves)


def trained() -> WindowState:
    state = training()
    rows = tuple(_replace(row, state="done", round=12) for row in state.session.members)
    session = _replace(state.session, state="done", waiting_for="", round=12, step=240, members=rows, seconds_left=0.0,
                       final=Final(model_path=MODELS[0].path, test_accuracy=0.972, test_samples=360,
                                   metrics={"f1": 0.971}))
    return _replace(state, session=session, curves=curves(240, 12), done=("task", "data", "room", "train"),
                    try_=tried(), models=MODELS, can_start=True)


def tried() -> TryView:
    pictures = digit_pictures()
    sure = (0.001, 0.002, 0.011, 0.006, 0.001, 0.004, 0.0, 0.013, 0.958, 0.004)
    return TryView(ready=True, test_accuracy=0.972, test_samples=360, metrics={"f1": 0.971}, model_path=MODELS[0].path,
                   picture=pictures[8][3], picture_name="test picture 17",
                   confidences=tuple(Confidence(name=str(digit), value=value) for digit, value in enumerate(sure)),
                   samples=tuple(pictures[digit][5] for digit in range(10)))


def try_page() -> WindowState:
    return _replace(trained(), page="try")


def try_empty() -> WindowState:
    return _replace(BASE, page="try")


def models_page() -> WindowState:
    return _replace(trained(), page="models")


def models_empty() -> WindowState:
    return _replace(BASE, page="models")


PATHS = (PathRow(peer="b2d8114f03", state="open", path="host → host", gathered="2 host", remote=2),
         PathRow(peer="c3aa90be51", state="open", path="host → srflx", gathered="2 host, 2 srflx", remote=4),
         PathRow(peer="d4c7720a9e", state="open", path="relay → host", gathered="2 host, 1 relay, 2 srflx", remote=3))
GOOD_WAY = PathsView(
    state="done", severity="good", title="Reachable from anywhere", at="17:41",
    text="Members anywhere can connect directly: all servers see this computer at the same address, 203.0.113.7.",
    details=("Own addresses: 192.168.1.20, 10.0.0.4", "stun.one.example:3478: sees this computer at 203.0.113.7:54012",
             "stun.two.example:19302: sees this computer at 203.0.113.7:54012"))
BAD_WAY = PathsView(
    state="done", severity="bad", title="TURN: wrong name or password", at="17:41",
    text="The TURN server relay-number-7.communications.department.example-university.example:3478 answers, but "
         "refuses the name or the password. Correct them in the settings. Until then only members on the same network "
         "are reached.",
    details=("Own addresses: 192.168.1.20, 10.0.0.4", "stun.one.example:3478: no answer",
             "stun.two.example:19302: no answer",
             "relay-number-7.communications.department.example-university.example:3478: refuses the name or the "
             "password"))


def network_page() -> WindowState:
    return _replace(training(), page="network", paths=PATHS, preflight=GOOD_WAY)


def network_bad() -> WindowState:
    state = training_crowd()
    return _replace(state, page="network", preflight=_replace(BAD_WAY, state="checking"), paths=tuple(
        PathRow(peer=member.peer, state="open", path="srflx → prflx", gathered="12 host, 1 relay, 10 srflx", remote=23)
        for member in state.session.members))


def network_empty() -> WindowState:
    return _replace(BASE, page="network", addresses=())


def settings_page() -> WindowState:
    return _replace(BASE, page="settings")


def help_page() -> WindowState:
    return _replace(BASE, page="help")


SAMPLES = {made.__name__: made for made in (
    first, task, data_empty, data_digits, data_pets, data_table, data_text, data_reading, data_error, make_task,
    room_choose, room_host, room_open, room_join, room_joining, room_failed, room_alone, train_ready, train_blocked,
    training, training_crowd, training_odd, training_number, training_text, trained, trained_number, try_page,
    try_empty, models_page, models_empty, network_page, network_bad, network_empty, settings_page, help_page,
)}  # fmt: skip
