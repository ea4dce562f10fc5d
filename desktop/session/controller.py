"""What the window's person wants, done: intents become calls on trainer, room and windows; what these say becomes
the next snapshot."""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtCore import QObject, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices

from desktop import intents as want
from desktop.bridge import lifecycle as life
from desktop.bridge.adapter import PeerPort
from desktop.errors import OptionError, PeerloomError
from desktop.options import Options, validate
from desktop.paths import Folders
from desktop.rooms.code import split_code
from desktop.rooms.invite import Invite
from desktop.rooms.names import person_name
from desktop.rounds.messages import Values
from desktop.rounds.policy import RoomPolicy
from desktop.session.record import Record
from desktop.session.report import Report
from desktop.session.room import RoomKeeper
from desktop.session.trainer_thread import TrainerThread
from desktop.session.windows import Windows
from desktop.settings import Settings, cores
from desktop.state import (
    DataView,
    NearbyRoom,
    Notice,
    RoomView,
    SessionState,
    TrainingValues,
    WindowState,
)
from desktop.tasks.builtin import TASKS, card
from desktop.tasks.spec import TaskSpec

log = logging.getLogger(__name__)

BUSY = ("loading", "waiting", "training", "exchanging", "syncing", "stopping")
LINGER_S = 10.0  # how long a window that closes by itself waits for the others to end as well
GOODBYES = ("left the room", "closed its window", "was ended by force")
CHECKPOINT_S = 1.2  # for saving the model when the window is closed in the middle of training


class Controller(QObject):
    """Owns what the person has chosen. Lives on the GUI thread; never waits for anything but the loop."""

    changed = Signal()  # there is another snapshot
    finished = Signal(int)  # with --quit-when-done: everything has ended, with this exit code
    theme_changed = Signal(str)

    def __init__(
        self, me: str, options: Options, settings: Settings, folders: Folders, port: PeerPort, trainer: TrainerThread
    ) -> None:
        super().__init__()
        self._me, self._options, self._settings, self._folders = me, options, settings, folders
        self._trainer, self._port = trainer, port
        if not settings.name:
            settings.set("name", person_name(random.SystemRandom()))
            self._save_settings()
        self.record = Record(me)
        self.report = Report(options.report) if options.report else None
        self.room = RoomKeeper(me, port, settings, loopback=options.loopback, changed=self._room_changed,
                               noted=lambda severity, text: self.record.fault(severity, text))
        self.windows = Windows(lambda number: f"window {number}", self)
        self.windows.ended.connect(self._window_ended)
        self._page, self._mode = "first", ""
        self._backends: tuple[str, ...] = ()
        self._spec: TaskSpec | None = None
        self._data: DataView | None = None
        self._data_source: tuple[str, ...] = ()
        self._share = options.share
        self._values = TrainingValues()
        self._start_members = settings.min_members
        self._nearby: tuple[NearbyRoom, ...] = ()
        self._models: tuple[Any, ...] = ()
        self._notices: list[Notice] = []
        self._names: dict[str, str] = {}
        self._refused_settings: dict[str, str] = {}
        self._wants_start = False
        self._wants_leave = False
        self._lost_by_force = False
        self._demo = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._entering: asyncio.Task[None] | None = None
        self._stop_timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._handlers: dict[type[want.Intent], Callable[[Any], None]] = {
            want.GoTo: lambda i: self._go(i.page),
            want.TryDemo: lambda i: self._try_demo(i.members),
            want.BeginRoom: lambda _: self._begin("host", "task"),
            want.BeginJoin: lambda _: self._begin("join", "room"),
            want.TrainAlone: lambda _: self._begin("alone", "task"),
            want.ChooseTask: lambda i: self._choose_task(i.task),
            want.AddData: lambda i: self._read_folders(i.paths),
            want.UseSample: lambda _: self._read_sample(),
            want.ClearData: lambda _: self._clear_data(),
            want.OpenRoom: lambda i: self._open_room(i.start_members, self._options.loopback),
            want.Join: lambda i: self._join(i.text, i.address),
            want.Leave: lambda _: self._leave(),
            want.SetTraining: lambda i: self._set_training(i.key, i.value),
            want.Start: lambda _: self._start(),
            want.Stop: lambda _: self._stop(),
            want.TryImage: lambda i: trainer.do(life.TryPicture(path=i.path)),
            want.TrySample: lambda i: trainer.do(life.TryPicture(index=i.index)),
            want.SetSetting: lambda i: self._set_setting(i.key, i.value),
            want.Dismiss: lambda i: self._dismiss(i.notice),
            want.OpenFolder: lambda i: self._open_folder(i.path),
            want.AnotherWindow: lambda _: self._another_window(),
        }
        self._answers: dict[type[life.Said], Callable[[Any], None]] = {
            life.TorchReady: self._torch_ready,
            life.Models: self._have_models,
            life.DataRead: self._data_read,
            life.Begun: self.record.begin,
            life.Progress: self._progressed,
            life.RoundCommitted: self._committed,
            life.Noted: self._noted,
            life.Failed: self._failed,
            life.FinalModel: self._final_model,
            life.Prediction: self._predicted,
        }
        trainer.said.connect(self.hear)
        port.faulted.connect(self._peer_fault)
        port.connected.connect(self._peer_connected)
        port.lost.connect(self._peer_lost)
        port.moved.connect(self._peers_moved)
        for problem in settings.problems:
            self._notice("care", str(problem))

    # -- in: intents, and what the trainer says ---------------------------------------------------------

    @Slot(object)
    def intend(self, intent: want.Intent) -> None:
        """Do what the person asked for; what cannot be done becomes a notice."""
        try:
            handler = self._handlers.get(type(intent))
            if handler is not None:
                handler(intent)
        except PeerloomError as error:
            self._notice("bad", error.sentence)
        self.changed.emit()

    @Slot(object)
    def hear(self, said: life.Said) -> None:
        """The trainer says something."""
        try:
            self._answers[type(said)](said)
        except PeerloomError as error:
            self._notice("bad", error.sentence)
        self.changed.emit()

    # -- beginning --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """After the first paint: load torch, and do what the options ask."""
        self._trainer.do(life.WarmUp(threads=self._settings.cpu_share))
        self._trainer.do(life.ListModels(folder=str(self._models_folder())))
        options = self._options
        if options.demo:
            self._try_demo(options.demo)
        elif options.link or options.room:
            self._mode, self._page = "join", "room"
            if options.data:
                self._data_source = () if options.data == "sample" else (options.data,)
            self._join(options.link or options.room or "", options.at or "")
            self._wants_start = options.start
        elif options.host or options.task or options.data or options.start:
            self._begin("host" if options.host else "alone", "task")
            self._choose_task(options.task or "digits")
            if options.data == "sample" or (options.data is None and options.start):
                self._read_sample()
            elif options.data:
                self._read_folders((options.data,))
            self._wants_start = options.start
        self.changed.emit()

    def _begin(self, mode: str, page: str) -> None:
        if self.record.state in BUSY and mode != self._mode:
            self._notice("care", "Training is under way. Stop it first.")
            return
        self._mode, self._page = mode, page

    def _go(self, page: str) -> None:
        self._page = page
        if page == "models":
            self._trainer.do(life.ListModels(folder=str(self._models_folder())))

    def _torch_ready(self, said: life.TorchReady) -> None:
        self._backends = said.backends
        self.room.backend = said.backends[-1] if self._options.backend == "auto" else self._options.backend
        self._go_on()

    def _models_folder(self) -> Path:
        return Path(self._settings.models_folder) if self._settings.models_folder else self._folders.models

    def _have_models(self, said: life.Models) -> None:
        self._models = said.rows

    # -- task and data ----------------------------------------------------------------------------------

    def _choose_task(self, task: str) -> None:
        self._refuse_while_busy()
        spec = TASKS[task]
        options = self._options
        given = {key: getattr(options, key) for key in ("batch", "lr", "local_steps", "rounds")}
        spec = spec.changed(seed=self._settings.seed, **{k: v for k, v in given.items() if v is not None})
        self._take_task(spec, options.precision or "f32")
        self._page = "data"

    def _take_task(self, spec: TaskSpec, precision: str) -> None:
        if self._spec is not None and self._spec.schema_digest() != spec.schema_digest():
            self._clear_data()
        self._spec = spec
        self._values = TrainingValues(batch=spec.batch, lr=spec.lr, local_steps=spec.local_steps, rounds=spec.rounds,
                                      precision=precision)

    def _set_training(self, key: str, value: str) -> None:
        checked = validate(key.replace("_", "-"), value)
        self._values = msgspec.structs.replace(self._values, **{key: checked})

    def _read_sample(self) -> None:
        self._refuse_while_busy()
        if self._spec is None or not self._spec.sample:
            raise OptionError(key="data", value="sample", allowed="a folder: this task has no sample data")
        self._data_source = ()
        self._data = DataView(title="Sample data", source="sample", reading="reading")
        self._trainer.do(life.ReadSample(task=self._spec.to_json(), share=self._share))

    def _read_folders(self, paths: tuple[str, ...]) -> None:
        self._refuse_while_busy()
        if self._spec is None:
            self._begin(self._mode or "alone", "data")
            self._choose_task("images")
        assert self._spec is not None
        spec = self._spec
        if self._mode != "join" and spec.id == "images":
            spec = spec.changed(classes=())  # other folders may hold other classes
        self._data_source = paths
        self._data = DataView(title=Path(paths[0]).name, source=paths[0], reading="reading")
        self._page = "data"
        self._trainer.do(life.ReadFolders(task=spec.to_json(), paths=paths))

    def _clear_data(self) -> None:
        self._refuse_while_busy()
        self._data, self._data_source = None, ()
        self._trainer.do(life.ForgetData())

    def _data_read(self, said: life.DataRead) -> None:
        self._data = said.view
        if said.task and self._spec is not None:
            self._spec = TaskSpec.from_json(said.task)
        if said.view.error:
            self.record.fault("bad", said.view.error)
            self._wants_start = False
            self._page = "data"
            self._give_up_if_unattended(said.view.error)
        self._go_on()

    def _refuse_while_busy(self) -> None:
        if self.record.state in BUSY:
            raise PeerloomError(what="task and data cannot be changed while training is under way; stop it first")

    # -- the room ---------------------------------------------------------------------------------------

    def _open_room(self, start_members: int, loopback: bool) -> None:
        if self.room.view is not None and self.room.view.state in ("open", "joined", "opening", "joining"):
            return
        if self._spec is None or self._data is None or not self._data.usable:
            raise PeerloomError(what="choose a task and your data first; the room's classes come from them")
        self._start_members = start_members
        spec = self._spec
        self._enter(self.room.open(
            task=lambda: self._task_json(), policy=lambda: self._policy_json(), title=spec.title, task_id=spec.id,
            start_members=start_members, loopback=loopback,
        ))

    def _join(self, text: str, address: str) -> None:
        self._refuse_while_busy()
        if self.room.inside:
            raise PeerloomError(what="this window is in a room; leave it first")
        if self._mode != "join":
            self._begin("join", "room")
        self._page = "room"
        if "peerloom:" in text:
            self._enter(self._join_and_take(self.room.join_invite(Invite.parse(text))))
        else:
            self._enter(self._join_and_take(self._join_by_code(text, address)))

    async def _join_by_code(self, text: str, address: str) -> None:
        room, _ = split_code(text)
        if not address:
            self.room.view = RoomView(room=room, state="joining")
            address = await self._find_nearby(room)
        await self.room.join_code(address, text)

    async def _find_nearby(self, room: str) -> str:
        """The address of a room that is announced on the LAN; a code given at the start waits for the first answers."""
        for _ in range(30):
            for each in self._nearby:
                if each.room == room:
                    return each.address
            await asyncio.sleep(0.1)
        raise PeerloomError(what=f"the room {room} is not announced on this network; enter the address that its host "
                                 "shows, too")

    async def _join_and_take(self, joining: Coroutine[Any, Any, None]) -> None:
        await joining
        assert self.room.info is not None
        spec = TaskSpec.from_json(self.room.info.task)
        policy = msgspec.json.decode(self.room.info.policy, type=RoomPolicy)
        source, data, before = self._data_source, self._data, self._spec
        same = before is not None and before.schema_digest() == spec.schema_digest()
        self._take_task(spec, policy.values.precision)
        self._take_values(policy.values)
        self._start_members = policy.start_members
        if data is None or not data.usable or not same:
            if source:
                self._read_folders(source)
            elif self._options.data == "sample":
                self._read_sample()
        self._page = "train" if self._wants_start else "data" if self._data is None else "room"

    def _take_values(self, values: Values) -> None:
        self._values = TrainingValues(batch=values.batch, lr=values.lr, local_steps=values.local_steps,
                                      rounds=values.rounds, precision=values.precision)

    def _enter(self, entering: Coroutine[Any, Any, None]) -> None:
        """Open or join a room in a task of its own; what goes wrong is the room's error."""
        self._cancel_entering()
        self.room.name = self._settings.name

        async def enter() -> None:
            try:
                await entering
            except PeerloomError as error:
                await self.room.leave()
                self.room.fail(error.sentence)
                self.record.fault("bad", error.sentence)
                self._give_up_if_unattended(error.sentence)
            self._go_on()
            self.changed.emit()

        self._entering = self._spawn(enter())

    def _cancel_entering(self) -> None:
        if self._entering is not None:
            self._entering.cancel()

    def _is_entering(self) -> bool:
        return self._entering is not None and not self._entering.done()

    def _room_changed(self) -> None:
        self._go_on()
        self.changed.emit()

    def _leave(self) -> None:
        self._cancel_entering()
        self._wants_start = False
        if self.record.state in BUSY and self.record.begun is not None:
            self._wants_leave = True
            self._stop()
        else:
            self._trainer.do(life.Leave())
            self._spawn(self.room.leave())

    @Slot(str, str)
    def _peer_connected(self, peer: str, name: str) -> None:
        self._names[peer] = name
        self.record.fault("info", f"{name} is here.", peer)

    @Slot(str, str)
    def _peer_lost(self, peer: str, reason: str) -> None:
        left = reason in GOODBYES
        self.record.fault("info" if left else "care",
                          f"{self._names.get(peer, peer[:8])} {reason if left else f'is lost: {reason}'}.", peer)
        self._report("lost")

    @Slot()
    def _peers_moved(self) -> None:
        self.room.count_members()
        self.changed.emit()

    @Slot(str, str, str)
    def _peer_fault(self, severity: str, text: str, peer: str) -> None:
        self.record.fault(severity, text, peer)
        self.changed.emit()

    # -- training ---------------------------------------------------------------------------------------

    def why_not_start(self) -> str:
        """The reason that Start is disabled; "" when it is not."""
        room = self.room.view
        if self.record.state in BUSY:
            return "Training is under way."
        if self._spec is None:
            return "Choose a task first."
        if self._data is None:
            return "Choose your data first."
        if self._data.reading:
            return "Your data is being read."
        if not self._data.usable:
            return self._data.error or "This data cannot be used."
        if self._mode in ("host", "demo") and (room is None or room.state != "open"):
            return "Open the room first."
        if self._mode == "join" and (room is None or room.state != "joined"):
            return "Join the room first."
        return ""

    def _start(self) -> None:
        self._wants_start = True
        self._page = "train"
        self._go_on()

    def _go_on(self) -> None:
        """Do the next thing that was asked for and has become possible."""
        if self._wants_start and self._mode in ("host", "demo"):
            usable = self._data is not None and self._data.usable
            if usable and self.room.view is None and not self._is_entering():
                self._open_room(self._demo or self._start_members, bool(self._demo) or self._options.loopback)
            if self._demo and self.room.view is not None and self.room.view.state == "open":
                self._start_demo_windows()
        if self._wants_start and not self.why_not_start():
            if not self._backends:
                self.record.state = "loading"
                return
            self._wants_start = False
            self._begin_training()
        elif self.record.state == "loading" and self._backends:
            self.record.state = "idle"
            self._go_on()

    def _begin_training(self) -> None:
        self.record.reset()
        self.record.state = "waiting"
        self._page = "train"
        self._trainer.do(
            life.Start(
                task=self._task_json(), policy=self._policy(), backend=self._options.backend,
                founder=self._mode != "join", name=self._settings.name, models_folder=str(self._models_folder()),
            )
        )
        self._report("start")

    def _task_json(self) -> str:
        assert self._spec is not None
        values = self._values
        return self._spec.changed(batch=values.batch, lr=values.lr, local_steps=values.local_steps,
                                  rounds=values.rounds).to_json()

    def _policy(self) -> RoomPolicy:
        if self._mode == "join" and self.room.info is not None:
            return msgspec.json.decode(self.room.info.policy, type=RoomPolicy)
        v = self._values
        values = Values(rounds=v.rounds, local_steps=v.local_steps, precision=v.precision, batch=v.batch, lr=v.lr)
        alone = self._mode == "alone" or not self.room.inside
        start = 1 if alone else self._start_members
        # A demo goes on when its other windows are closed; a room of people waits for a second one.
        least = 1 if alone or self._demo else min(2, start)
        return RoomPolicy(values=values, start_members=start, min_members=least)

    def _policy_json(self) -> str:
        return msgspec.json.encode(self._policy()).decode()

    def _progressed(self, said: life.Progress) -> None:
        before = self.record.progress
        self.record.progressed(said)
        if before is not None and before.round != said.round:
            self._report("round")
        if before is None or before.values != said.values:
            self._take_values(said.values)

    def _committed(self, said: life.RoundCommitted) -> None:
        self.record.committed(said)

    def _noted(self, said: life.Noted) -> None:
        self.record.noted(said)
        if said.severity == "bad":
            self._report("fault")

    def _failed(self, said: life.Failed) -> None:
        self._cancel_stop_timer()
        self.record.fault("bad", said.sentence)
        self.record.state = "failed"
        self._notice("bad", said.sentence)
        self._training_ended()
        self._give_up_if_unattended(said.sentence)

    def _final_model(self, said: life.FinalModel) -> None:
        self._cancel_stop_timer()
        self.record.ended(said)
        self._trainer.do(life.ListModels(folder=str(self._models_folder())))
        self._training_ended()

    def _training_ended(self) -> None:
        self._report("end")
        self._ended.set()
        if self._wants_leave:
            self._wants_leave = False
            self._spawn(self.room.leave())
        if self._options.quit_when_done and self.record.final is not None:
            self._spawn(self._quit_when_others_ended())

    def _stop(self) -> None:
        self._wants_start = False
        if self.record.state == "loading" or self.record.begun is None:
            self.record.state = "idle"
            return
        if self.record.state not in BUSY or self.record.state == "stopping":
            return
        self.record.state = "stopping"
        self._trainer.do(life.Stop())
        self._stop_timer = asyncio.get_running_loop().call_later(self._settings.stop_timeout_s, self._force_stop)

    def _force_stop(self) -> None:
        """The trainer did not answer: end it, close the peers, stay usable."""
        self._stop_timer = None
        seconds = self._settings.stop_timeout_s
        sentence = f"Training did not stop within {seconds:g} s and was ended by force. The room was left."
        self._trainer.force()
        self._trainer.do(life.WarmUp(threads=self._settings.cpu_share))
        self.record.fault("bad", sentence)
        self.record.state = "failed"
        self._notice("bad", sentence)
        self._data = None  # it went with the thread
        self._spawn(self.room.leave("was ended by force"))
        self._training_ended()
        self.changed.emit()

    def _cancel_stop_timer(self) -> None:
        if self._stop_timer is not None:
            self._stop_timer.cancel()
            self._stop_timer = None

    def _predicted(self, said: life.Prediction) -> None:
        self.record.prediction = said

    # -- the demo, and further windows ------------------------------------------------------------------

    def _try_demo(self, members: int) -> None:
        self._refuse_while_busy()
        if self.room.view is not None:
            raise PeerloomError(what="this window is in a room; leave it first")
        self._demo = members
        self._mode = "demo"
        self._choose_task("digits")
        self._share = (1, members)
        self._start_members = members
        self._read_sample()
        self._wants_start = True
        self._page = "train"

    def _start_demo_windows(self) -> None:
        if self.windows.running:
            return
        for number in range(2, self._demo + 1):
            self._open_window(number, ["--data", "sample", "--share", f"{number}/{self._demo}", "--start"])

    def _another_window(self) -> None:
        self._open_window(self.windows.running + 2, [])

    def _open_window(self, number: int, more: list[str]) -> None:
        view, options = self.room.view, self._options
        if view is None or not view.link:
            raise PeerloomError(what="there is no room yet that another window could join")
        profile = Path(tempfile.mkdtemp(prefix=f"window-{number}-", dir=self._folders.cache))
        arguments = [view.link, "--profile", str(profile), "--new-instance", "--theme", self._settings.theme, *more]
        if options.report:
            arguments += ["--report", str(options.report.with_stem(f"{options.report.stem}-{number}"))]
        if options.quit_when_done:
            arguments.append("--quit-when-done")
        if options.backend != "auto":
            arguments += ["--backend", options.backend]
        self.windows.start(number, arguments, profile / "window.log")

    @Slot(int, bool)
    def _window_ended(self, number: int, well: bool) -> None:
        text = f"Window {number} was closed." if well else f"Window {number} ended unexpectedly."
        self.record.fault("info" if well else "care", text)
        self._report("window")
        self.changed.emit()

    # -- ending -----------------------------------------------------------------------------------------

    def _give_up_if_unattended(self, sentence: str) -> None:
        """With --quit-when-done nobody is there who could put it right."""
        if self._options.quit_when_done and self.record.final is None:
            log.error("%s", sentence)
            self._report("failed")
            self.finished.emit(1)

    async def _quit_when_others_ended(self) -> None:
        """Let the members and windows end as well: they may still need what only I hold."""
        until = time.monotonic() + LINGER_S
        while time.monotonic() < until:
            seats = self.record.progress.seats if self.record.progress else ()
            present = {row.peer for row in self.room.rows() if row.state == "open"}
            if all(seat.phase == "done" for seat in seats if seat.peer in present) and not self.windows.running:
                break
            if self.windows.running and not present:
                until = max(until, time.monotonic() + 0.5)  # they are closing
            await asyncio.sleep(0.1)
        self.finished.emit(0 if self.record.final and self.record.final.complete else 1)

    async def shut_down(self) -> None:
        """Checkpoint, good-bye, gone: within 3 s."""
        self.windows.terminate()
        self._cancel_entering()
        if self.record.begun is not None and self.record.state in BUSY:
            self._ended.clear()
            if self.record.state != "stopping":
                self._trainer.do(life.Stop())
            try:
                async with asyncio.timeout(CHECKPOINT_S):
                    await self._ended.wait()
            except TimeoutError:
                self.record.fault("care", "The window was closed before the model was saved.")
        self._cancel_stop_timer()
        self._report("closed")
        await self._trainer.close(0.7)
        await self.room.leave("closed its window", quick=True)
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self.windows.kill()
        if self.report is not None:
            self.report.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            log.error("a task of the window failed", exc_info=error)
            self._notice("bad", f"Something unexpected went wrong: {error!r}.")
            self.changed.emit()

    # -- settings, notices, folders ---------------------------------------------------------------------

    def _set_setting(self, key: str, value: str) -> None:
        try:
            self._settings.set(key, value)
            self._refused_settings.pop(key, None)
        except OptionError as error:
            self._refused_settings[key] = error.sentence
            return
        self._save_settings()
        if key == "theme":
            self.theme_changed.emit(self._settings.theme)
        if key == "name" and not value:
            self._settings.set("name", person_name(random.SystemRandom()))

    def _save_settings(self) -> None:
        try:
            self._settings.save()
        except PeerloomError as error:
            self._notice("care", error.sentence)

    def _notice(self, severity: str, text: str) -> None:
        number = 1 + max((notice.id for notice in self._notices), default=0)
        self._notices = [*self._notices[-9:], Notice(id=number, severity=severity, text=text)]

    def _dismiss(self, number: int) -> None:
        self._notices = [notice for notice in self._notices if notice.id != number]

    def _open_folder(self, path: str) -> None:
        folder = Path(path)
        folder = folder if folder.is_dir() else folder.parent
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))

    def nearby_changed(self, rooms: tuple[NearbyRoom, ...]) -> None:
        """Rooms announced on the network."""
        mine = self.room.view.room if self.room.view and self.room.view.hosting else ""
        self._nearby = tuple(room for room in rooms if room.room != mine)
        self.changed.emit()

    # -- out --------------------------------------------------------------------------------------------

    def session(self) -> SessionState:
        """The session as the report shows it."""
        room, values, spec = self.room.view, self._values, self._spec
        base = SessionState(
            peer=self._me, name=self._settings.name, backend=self.room.backend, task=spec.id if spec else "",
            model=spec.model if spec else "", room=room.room if room and room.state in ("open", "joined") else "",
            invite=room.link if room else "", rounds=values.rounds, local_steps=values.local_steps,
            batch=values.batch, lr=values.lr, precision=values.precision,
        )
        return self.record.session(base, self.room.rows(), room.host if room else "")

    def snapshot(self) -> WindowState:
        """All that the window shows."""
        why = self.why_not_start()
        room = self.room.view
        share = self._settings.cpu_share
        backend = self.room.backend.upper()
        rows = tuple(
            msgspec.structs.replace(row, error=self._refused_settings.get(row.key, ""))
            for row in self._settings.rows()
        )
        return WindowState(
            page=self._page, mode=self._mode, done=self._done(), name=self._settings.name,
            device=f"{backend} · {share} of {cores()} cores", addresses=self.addresses, ready=bool(self._backends),
            tasks=tuple(card(spec) for spec in TASKS.values()), task=card(self._spec) if self._spec else None,
            values=self._values, data=self._data, room=room, nearby=self._nearby, can_start=not why,
            why_not_start=why, session=self.session(), curves=self.record.curves(), try_=self.record.try_view(),
            models=self._models, settings=rows, log=tuple(self.record.log), notices=tuple(self._notices),
        )

    addresses: tuple[str, ...] = ()

    def _done(self) -> tuple[str, ...]:
        """Steps of the path that are behind us."""
        room = self.room.view
        done = {
            "task": self._spec is not None,
            "data": self._data is not None and self._data.usable,
            "room": self._mode == "alone" or (room is not None and room.state in ("open", "joined")),
            "train": self.record.final is not None,
        }
        return tuple(step for step, behind in done.items() if behind)

    def _report(self, event: str) -> None:
        if self.report is not None:
            self.report.write(event, self.session())

    def write_report(self) -> None:
        """Once a second."""
        self._report("second")
