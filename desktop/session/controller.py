"""What the window's person wants, done: intents become calls on setup, room, run and windows; what these and the
trainer say becomes the next snapshot."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtCore import QObject, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices

from desktop import intents as want
from desktop.bridge import lifecycle as life
from desktop.bridge.adapter import OWN_GOODBYE, PeerPort
from desktop.errors import (
    BusyError,
    NotNearbyError,
    OptionError,
    PeerloomError,
    RoomFirstError,
    SetupFirstError,
    TaskFileError,
)
from desktop.options import Options
from desktop.paths import Folders
from desktop.rooms.code import split_code
from desktop.rooms.invite import Invite
from desktop.rooms.names import person_name
from desktop.session.draft import OWN, Draft, load_task, save_task
from desktop.session.paths import Preflight, path_rows
from desktop.session.recent import Recent
from desktop.session.record import Record
from desktop.session.report import Report
from desktop.session.room import RoomKeeper
from desktop.session.run import Run
from desktop.session.setup import Setup
from desktop.session.trainer_thread import TrainerThread
from desktop.session.windows import Windows
from desktop.settings import Settings, cores
from desktop.state import (
    DraftView,
    Edit,
    ModelRow,
    NearbyRoom,
    Notice,
    PathRow,
    Policy,
    SessionState,
    SettingRow,
    WindowState,
)
from desktop.tasks.builtin import TASKS, card, fitting_task
from desktop.tasks.spec import TaskSpec
from desktop.values import TASK_SUFFIX

log = logging.getLogger(__name__)

LEAST_LINGER_S = 1.5  # a window that closes by itself shows its end state at least this long,
MOST_LINGER_S = 12.0  # and waits at most this long for the others to end as well
GOODBYES = ("left the room", "closed its window", "was ended by force")
CARDS = tuple(card(spec) for spec in TASKS.values())
FIRST_ANSWERS = 30  # tenths of a second within which a nearby room should have answered


class Controller(QObject):
    """Lives on the GUI thread; never waits for anything but the loop."""

    changed = Signal()  # there is another snapshot
    finished = Signal(int)  # with --quit-when-done: everything has ended, with this exit code
    theme_changed = Signal(str)
    torch_ready = Signal()

    def __init__(
        self,
        me: str,
        options: Options,
        settings: Settings,
        folders: Folders,
        port: PeerPort,
        trainer: TrainerThread,
        report: Report | None,
    ) -> None:
        super().__init__()
        self._me, self._options, self._settings, self._folders = me, options, settings, folders
        self._trainer = trainer
        self.record = Record(me)
        self.report = report
        self.setup = Setup(options, settings, trainer.do)
        self.run = Run(self.record, trainer, settings, self._training_ended)
        self.room = RoomKeeper(me, port, settings, loopback=options.loopback, changed=self._room_changed,
                               noted=lambda severity, text: self.record.fault(severity, text))
        self.preflight = Preflight(settings, self._spawn, self.changed.emit)
        self.windows = Windows(options, settings, folders, self)
        self.windows.ended.connect(self._window_ended)
        self.addresses: tuple[str, ...] = ()  # of this computer
        self._page, self._mode = "first", ""
        self._backends: tuple[str, ...] = ()  # () until torch is here
        self._nearby: tuple[NearbyRoom, ...] = ()
        self._paths: tuple[PathRow, ...] = ()
        self._models: tuple[ModelRow, ...] = ()
        self._notices: list[Notice] = []
        self._draft: Draft | None = None
        self._measured: life.Measured | None = None
        self._measuring = False
        self.recent = Recent(folders.recent)
        self._names: dict[str, str] = {}
        self._refused_settings: dict[str, str] = {}
        self._wants_start = self._wants_leave = False
        self._rounds = 0  # of a run; a room that has done them may go on for as many again
        self._tasks: set[asyncio.Task[None]] = set()
        self._entering: asyncio.Task[None] | None = None
        self._closing = False
        self._handlers = self._intents()
        self._answers: dict[type[life.Said], Callable[[Any], None]] = {
            life.TorchReady: self._torch_ready,
            life.Models: self._have_models,
            life.Measured: self._task_measured,
            life.DataRead: self._data_read,
            life.Begun: self.run.begun,
            life.Progress: self._progressed,
            life.RoundCommitted: self.record.committed,
            life.Noted: self._noted,
            life.NotChanged: self._not_changed,
            life.Failed: self.run.failed,
            life.FinalModel: self.run.final_model,
            life.Prediction: self.record.predicted,
        }
        trainer.said.connect(self.hear)
        port.faulted.connect(self._peer_fault)
        port.connected.connect(self._peer_connected)
        port.lost.connect(self._peer_lost)
        if not settings.name:
            self._set_setting("name", "")
        for problem in settings.problems:
            self._notice("care", str(problem))

    def _intents(self) -> dict[type[want.Intent], Callable[[Any], None]]:
        return {
            want.GoTo: lambda i: self._go(i.page),
            want.TryDemo: lambda i: self._try_demo(i.members),
            want.BeginRoom: lambda _: self._begin("host", "task"),
            want.BeginJoin: lambda _: self._begin("join", "room"),
            want.TrainAlone: lambda _: self._begin("alone", "task"),
            want.ChooseTask: lambda i: self._choose_task(i.task),
            want.MakeTask: lambda _: self._make_task(),
            want.SetDraft: lambda i: self._set_draft(i.key, i.value),
            want.UseDraft: lambda _: self._use_draft(),
            want.SaveTask: lambda i: self._save_task(i.path),
            want.OpenTask: lambda i: self._open_task(i.path),
            want.AddData: lambda i: self._read_data(i.paths),
            want.EditData: lambda i: self._edit_data(i.edits),
            want.UndoData: lambda _: self._undo_data(),
            want.UseSample: lambda _: self._read_sample(),
            want.ClearData: lambda _: self._clear_data(),
            want.OpenRoom: lambda i: self._open_room(i.start_members),
            want.Join: lambda i: self._join(i.text, i.address),
            want.Leave: lambda _: self._leave(),
            want.SetTraining: lambda i: self._set_training(i.key, i.value),
            want.Start: lambda _: self._start(),
            want.Stop: lambda _: self._stop(),
            want.TryImage: lambda i: self._trainer.do(life.TryPicture(path=i.path)),
            want.TrySample: lambda i: self._trainer.do(life.TryPicture(index=i.index)),
            want.SetSetting: lambda i: self._set_setting(i.key, i.value),
            want.Dismiss: lambda i: self._dismiss(i.notice),
            want.OpenFolder: lambda i: self._open_folder(i.path),
            want.CheckPaths: lambda _: self.preflight.again(),
            want.AnotherWindow: lambda _: self.windows.open(self._link()),
        }

    # -- in: intents, and what the trainer says ---------------------------------------------------------

    @Slot(object)
    def intend(self, intent: want.Intent) -> None:
        """Do what the person asked for; what cannot be done becomes a notice."""
        self._handle(self._handlers, intent)

    @Slot(object)
    def hear(self, said: life.Said) -> None:
        """The trainer says something."""
        self._handle(self._answers, said)

    def _handle(self, handlers: dict[type[Any], Callable[[Any], None]], message: Any) -> None:
        try:
            handlers[type(message)](message)
        except PeerloomError as error:
            self._notice("bad", error.sentence)
        self.changed.emit()

    # -- beginning --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """After the first paint: load torch, and do what the options ask."""
        self._trainer.do(life.WarmUp(threads=self._settings.cpu_share))
        self._list_models()
        try:
            self._follow_options(self._options)
        except PeerloomError as error:
            self._notice("bad", error.sentence)
            self._give_up_if_unattended(error.sentence)
        self.changed.emit()

    def _follow_options(self, options: Options) -> None:
        if options.demo:
            self._try_demo(options.demo)
        elif options.link or options.room:
            self._wants_start = options.start
            self._join(options.link or options.room or "", options.at or "")
        elif options.host or options.task or options.data or options.start:
            folder = options.data if options.data != "sample" else None
            self._begin("host" if options.host else "alone", "task")
            if options.task and options.task.endswith(TASK_SUFFIX):
                self._open_task(options.task)
            else:
                self._choose_task(options.task or (fitting_task((folder,)) if folder else "digits"))
            self._wants_start = options.start
            if folder:
                self._read_data((folder,))
            elif options.data or options.start:
                self._read_sample()

    def _begin(self, mode: str, page: str) -> None:
        if mode != self._mode:
            self._refuse_while_busy()
            if self.room.view is not None and self.room.view.state != "failed":
                raise RoomFirstError
        self._mode, self._page = mode, page

    def _go(self, page: str) -> None:
        self._page = page
        if page == "models":
            self._list_models()

    def _refuse_while_busy(self) -> None:
        if self.run.busy:
            raise BusyError

    def _torch_ready(self, said: life.TorchReady) -> None:
        self._backends = said.backends
        self.torch_ready.emit()
        self.room.backend = said.backends[-1] if self._options.backend == "auto" else self._options.backend
        self._go_on()

    def _list_models(self) -> None:
        self._trainer.do(life.ListModels(folder=str(self._models_folder())))

    def _models_folder(self) -> Path:
        return Path(self._settings.models_folder) if self._settings.models_folder else self._folders.models

    def _have_models(self, said: life.Models) -> None:
        self._models = said.rows

    # -- task and data ----------------------------------------------------------------------------------

    def _choose_task(self, task: str) -> None:
        self._refuse_while_busy()
        self.setup.choose(task)
        self._page = "data"

    def _make_task(self) -> None:
        self._refuse_while_busy()
        self._change_draft(Draft.begin(spec=self.setup.chosen_task))
        self._page = "make"

    def _change_draft(self, draft: Draft) -> None:
        self._draft = draft
        self._measure_draft()

    def _measure_draft(self) -> None:
        """Let the trainer find out how large the model is: one question at a time, and then the latest."""
        assert self._draft is not None
        task = self._draft.spec.to_json()
        if not self._measuring and (self._measured is None or self._measured.task != task):
            self._measuring = True
            self._trainer.do(life.Measure(task=task))

    def _set_draft(self, key: str, value: str) -> None:
        if self._draft is not None:
            self._draft.set(key, value)
            self._change_draft(self._draft)

    def _task_measured(self, said: life.Measured) -> None:
        self._measured, self._measuring = said, False
        self._measure_draft()

    def _use_draft(self) -> None:
        self._refuse_while_busy()
        if self._draft is not None and not self._draft.error:
            self._take_task(self._draft.spec)

    def _take_task(self, spec: TaskSpec) -> None:
        if not self._mode:
            self._begin("alone", "data")
        self.setup.take(spec)
        self.setup.start_members = spec.min_members
        self._page = "data"

    def _save_task(self, path: str) -> None:
        if self._draft is not None:
            kept = save_task(self._draft.spec, Path(path))
            self._notice("info", f"The task was saved as {kept.name}.")

    def _open_task(self, path: str) -> None:
        self._refuse_while_busy()
        if self.room.inside:
            raise TaskFileError(place=Path(path).name, why="the host of the room decides what it trains")
        spec = load_task(Path(path))
        self._change_draft(Draft.begin(spec=spec))
        self._take_task(spec)

    def _draft_view(self) -> DraftView | None:
        if self._draft is None:
            return None
        found = self._measured
        if found is None or found.task != self._draft.spec.to_json():
            return self._draft.view()
        return self._draft.view(found.parameters, found.samples_per_s)

    def _read_sample(self) -> None:
        self._refuse_while_busy()
        self.setup.read_sample()

    def _read_data(self, paths: tuple[str, ...]) -> None:
        self._refuse_while_busy()
        if self.setup.spec is None:
            self._begin(self._mode or "alone", "data")
            self.setup.choose(fitting_task(paths))
        elif not self.room.inside and (kind := fitting_task(paths)) != "images" and self.setup.spec.kind != kind:
            self.setup.choose(kind)  # a table says nothing to a task for pictures, and so on
        self.setup.read_data(paths, own_schema=not self.room.inside)
        self._page = "data"

    def _edit_data(self, edits: tuple[Edit, ...]) -> None:
        self._refuse_while_busy()
        self.setup.edit(edits)

    def _undo_data(self) -> None:
        self._refuse_while_busy()
        self.setup.undo()

    def _clear_data(self) -> None:
        self._refuse_while_busy()
        self.setup.clear_data()

    def _data_read(self, said: life.DataRead) -> None:
        self.setup.data_read(said)
        if said.view.usable and said.view.source != "sample" and len(self.setup.source) == 1:
            self.recent.add(self.setup.source[0])
        for finding in said.view.findings:
            self.record.fault(finding.severity, f"{finding.title}: {', '.join(finding.files[:5]) or finding.text}")
        if said.view.error:
            self.record.fault("bad", said.view.error)
            self._wants_start = False
            self._page = "data"
            self._give_up_if_unattended(said.view.error)
        self._go_on()

    # -- the room ---------------------------------------------------------------------------------------

    def _open_room(self, start_members: int) -> None:
        if self.room.view is not None and self.room.view.state != "failed":
            return
        if self.setup.spec is None or not self.setup.usable:
            raise SetupFirstError(missing=self.setup.why_not())
        self.setup.start_members = start_members
        self._enter(
            self.room.open(
                task=self.setup.task_json, policy=lambda: self.setup.policy_json(self._mode),
                title=self.setup.spec.title, task_id="" if self.setup.spec.id == OWN else self.setup.spec.id,
                start_members=start_members,
                loopback=self._mode == "demo",
            )
        )

    def _join(self, text: str, address: str) -> None:
        self._refuse_while_busy()
        if self.room.inside:
            raise RoomFirstError
        self._begin("join", "room")
        if "peerloom:" in text:
            self._enter(self._join_and_take(self.room.join_invite(Invite.parse(text))))
        else:
            self._enter(self._join_and_take(self._join_by_code(text, address)))

    async def _join_by_code(self, text: str, address: str) -> None:
        room, _ = split_code(text)
        self.room.knock(room, address)
        await self.room.join_code(address or await self._find_nearby(room), text)

    async def _find_nearby(self, room: str) -> str:
        for _ in range(FIRST_ANSWERS):
            for each in self._nearby:
                if each.room == room:
                    return each.address
            await asyncio.sleep(0.1)
        raise NotNearbyError(room=room)

    async def _join_and_take(self, joining: Coroutine[Any, Any, None]) -> None:
        await joining
        assert self.room.info is not None
        if self.setup.take_room(self.room.info.task, self.room.info.policy):
            self.setup.read_again()
        self._page = "train" if self._wants_start else "room" if self.setup.data else "data"

    def _enter(self, entering: Coroutine[Any, Any, None]) -> None:
        """Open or join a room in a task of its own; what goes wrong is the room's error."""
        self._cancel_entering()
        self.room.name = self._settings.name

        async def enter() -> None:
            try:
                await entering
                self.preflight.room(self.room.where)
            except PeerloomError as error:
                view = self.room.view
                await self.room.leave()
                self.room.fail(view, error.sentence)
                self.record.fault("bad", error.sentence)
                self._give_up_if_unattended(error.sentence)
            self._go_on()
            self.changed.emit()

        self._entering = self._spawn(enter())
        # Cancelled before its first step, it would complain of never having run.
        self._entering.add_done_callback(lambda _: entering.close())

    def _cancel_entering(self) -> None:
        if self._entering is not None:
            self._entering.cancel()

    def _room_changed(self) -> None:
        self._go_on()
        self.changed.emit()

    def _leave(self) -> None:
        self._cancel_entering()
        self._wants_start = False
        self._wants_leave = self.run.under_way
        if self._wants_leave:
            self._stop()
        else:
            self._trainer.do(life.Leave())
            self._spawn(self.room.leave())

    def _link(self) -> str:
        link = self.room.view.link if self.room.view else ""
        if not link:
            raise SetupFirstError(missing="Open a room first.")
        return link

    @Slot(str, str)
    def _peer_connected(self, peer: str, name: str) -> None:
        self._names[peer] = name
        self.record.fault("info", f"{name} is here.", peer)
        self._peers_moved("joined")

    @Slot(str, str)
    def _peer_lost(self, peer: str, reason: str) -> None:
        name = self._names.get(peer, peer[:8])
        if reason == OWN_GOODBYE:
            pass
        elif reason in GOODBYES:
            self.record.fault("info", f"{name} {reason}.", peer)
        else:
            self.record.fault("care", f"{name} is lost: {reason}", peer)
        self._peers_moved("lost")

    def _peers_moved(self, event: str) -> None:
        self.room.count_members()
        self._report(event)
        self.changed.emit()

    @Slot(str, str, str)
    def _peer_fault(self, severity: str, text: str, peer: str) -> None:
        if severity != "info" and not self.room.others:
            text = f"{text} {self.preflight.trouble(self.room.where)}".rstrip()
        self.record.fault(severity, text, peer)
        self.changed.emit()

    def look_at_paths(self) -> None:
        """Every 3 s: how each member is reached."""
        paths = path_rows(self.room.rows())
        if paths != self._paths:
            self._paths = paths
            self.changed.emit()

    def nearby_changed(self, rooms: tuple[NearbyRoom, ...]) -> None:
        """Rooms announced on the network."""
        mine = self.room.view.room if self.room.view and self.room.view.hosting else ""
        self._nearby = tuple(room for room in rooms if room.room != mine)
        self.changed.emit()

    # -- training ---------------------------------------------------------------------------------------

    def why_not_start(self) -> str:
        """The reason that Start is disabled; "" when it is not."""
        if self.run.busy:
            return "Training is under way."
        if self._room_is_done() and not self._leading():
            return "This room has trained all its rounds. Its leader can go on with more; or leave it to train anew."
        state = self.room.view.state if self.room.view else ""
        if not self.setup.why_not():
            if self._mode in ("host", "demo") and state != "open":
                return "Open the room first."
            if self._mode == "join" and state != "joined":
                return "Join the room first."
        return self.setup.why_not()

    def _room_is_done(self) -> bool:
        return self.room.inside and self.record.final is not None and self.record.final.complete

    def _leading(self) -> bool:
        return self.record.progress is not None and self.record.progress.leading

    def _start(self) -> None:
        progress = self.record.progress
        if progress is not None and progress.leading and self._room_is_done():
            self._trainer.do(life.Change(new={"rounds": progress.round + self._rounds}))
            return
        self._wants_start = True
        self._page = "train"
        self._go_on()

    def _go_on(self) -> None:
        """Do the next thing that was asked for and has become possible."""
        if self._closing:
            return
        if self.record.state == "loading" and self._backends:
            self.record.state = "idle"
        if not self._wants_start:
            return
        entering = self._entering is not None and not self._entering.done()
        if self._mode in ("host", "demo") and self.setup.usable and self.room.view is None and not entering:
            self._open_room(self.setup.start_members)
        if self.why_not_start():
            return
        if not self._backends:
            self.record.state = "loading"
            return
        self._wants_start = False
        self._begin_training()

    def _begin_training(self) -> None:
        self._page = "train"
        self._rounds = self.setup.values.rounds
        self.run.begin(
            life.Start(
                task=self.setup.task_json(), policy=self.setup.policy(self._mode), backend=self._options.backend,
                founder=self._mode != "join", name=self._settings.name, models_folder=str(self._models_folder()),
            )
        )
        self._report("start")
        if self._mode == "demo":
            for number in range(2, self.setup.start_members + 1):
                share = f"{number}/{self.setup.start_members}"
                self.windows.open(self._link(), "--data", "sample", "--share", share, "--start")

    def _try_demo(self, members: int) -> None:
        self._begin("demo", "train")
        self.setup.choose("digits")
        self.setup.share, self.setup.start_members = (1, members), members
        self.setup.read_sample()
        self._wants_start = True

    def _progressed(self, said: life.Progress) -> None:
        before = self.record.progress
        self.record.progressed(said)
        if before is not None and before.round != said.round:
            self._report("round")
        if before is not None and before.wanted != said.wanted:
            self.setup.take_values(said.wanted)

    def _set_training(self, key: str, value: str) -> None:
        """Before Start: what will be; afterwards: a wish that the leader's trainer grants at the next round."""
        changed = self.setup.set_value(key, value)
        if self.run.under_way:
            self._trainer.do(life.Change(new=changed))

    def _not_changed(self, said: life.NotChanged) -> None:
        self.setup.take_values(said.values)
        self._notice("care", said.sentence)

    def _noted(self, said: life.Noted) -> None:
        self.record.fault(said.severity, said.text, said.peer)
        if said.severity != "info":
            self._report("fault")

    def _stop(self) -> None:
        self._wants_start = False
        self.run.stop()

    def _training_ended(self, failed: life.Failed | None) -> None:
        """The run is over, well or not."""
        if failed is not None:
            self._notice("bad", failed.sentence)
            self._give_up_if_unattended(failed.sentence)
            if failed.lost_data:
                self.setup.data = None
                self._backends = ()
                self._spawn(self.room.leave("was ended by force"))
        self._report("end")
        self._list_models()
        if self._wants_leave:
            self._wants_leave = False
            self._spawn(self.room.leave())
        if self._options.quit_when_done and self.record.final is not None:
            self._spawn(self._quit_when_others_ended())
        self.changed.emit()

    # -- further windows --------------------------------------------------------------------------------

    @Slot(int, bool)
    def _window_ended(self, number: int, well: bool) -> None:
        text = f"Window {number} was closed." if well else f"Window {number} ended unexpectedly."
        self.record.fault("info" if well else "care", text)
        progress = self.record.progress
        if self._mode == "demo" and self.run.under_way and not (progress and progress.begun):
            sentence = f"{text} The demo needs it to begin. Start the demo again."
            self._notice("bad", sentence)
            self.record.fault("bad", sentence)
            self.run.stop()
        self._report("window")
        self.changed.emit()

    # -- ending -----------------------------------------------------------------------------------------

    def _give_up_if_unattended(self, sentence: str) -> None:
        """With --quit-when-done nobody is there who could put it right."""
        if self._options.quit_when_done and not self._closing:
            log.error("%s", sentence)
            self.record.state = "failed"
            self._report("failed")
            self.finished.emit(1)

    async def _quit_when_others_ended(self) -> None:
        """Let the members and windows end as well: they may still need what only I hold."""
        now = asyncio.get_running_loop().time
        began = now()
        while now() - began < MOST_LINGER_S:
            seats = self.record.progress.seats if self.record.progress else ()
            present = {row.peer for row in self.room.rows() if row.state == "open"}
            all_done = all(seat.phase == "done" for seat in seats if seat.peer in present)
            if now() - began >= LEAST_LINGER_S and all_done and not self.windows.running:
                break
            await asyncio.sleep(0.1)
        self.finished.emit(0 if self.record.final and self.record.final.complete else 1)

    async def shut_down(self) -> None:
        """Checkpoint, good-bye, gone: within 3 s."""
        self._closing = True
        self.windows.terminate()
        self._cancel_entering()
        await self.run.checkpoint()
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
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the window failed", exc_info=error)
            self._notice("bad", f"Something unexpected went wrong: {error!r}.")
            self.changed.emit()

    # -- settings, notices, folders ---------------------------------------------------------------------

    def _set_setting(self, key: str, value: str) -> None:
        if key == "name" and not value.strip():
            value = person_name(random.SystemRandom())
        try:
            self._settings.set(key, value)
            self._refused_settings.pop(key, None)
            self._settings.save()
        except OptionError as error:
            self._refused_settings[key] = error.sentence
            return
        if key in ("reach", "ice_servers", "turn"):
            self.preflight.settings_changed()
        if key == "theme":
            self.theme_changed.emit(self._settings.theme)

    def _setting_rows(self) -> tuple[SettingRow, ...]:
        return tuple(
            msgspec.structs.replace(row, error=self._refused_settings.get(row.key, ""))
            for row in self._settings.rows()
        )

    def _notice(self, severity: str, text: str) -> None:
        number = 1 + max((notice.id for notice in self._notices), default=0)
        self._notices = [*self._notices[-9:], Notice(id=number, severity=severity, text=text)]

    def _dismiss(self, number: int) -> None:
        self._notices = [notice for notice in self._notices if notice.id != number]

    def _open_folder(self, path: str) -> None:
        folder = Path(path) if Path(path).is_dir() else Path(path).parent
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))

    # -- out --------------------------------------------------------------------------------------------

    def session(self) -> SessionState:
        """The session as the report shows it."""
        room, values, spec = self.room.view, self.setup.values, self.setup.spec
        inside = room is not None and room.state in ("open", "joined")
        base = SessionState(
            peer=self._me, name=self._settings.name, backend=self.room.backend, task=spec.id if spec else "",
            model=spec.model if spec else "", room=room.room if room and inside else "",
            invite=room.link if room and inside else "", rounds=values.rounds, local_steps=values.local_steps,
            batch=values.batch, lr=values.lr, precision=values.precision, local_epochs=values.local_epochs,
            outer=values.outer, outer_lr=values.outer_lr, outer_momentum=values.outer_momentum,
            policy=Policy(weighting=values.weighting, late=values.late), topology=values.topology,
        )
        return self.record.session(base, self.room.rows(), room.host if room else "")

    def snapshot(self) -> WindowState:
        """All that the window shows."""
        why = self.why_not_start()
        spec = self.setup.spec
        rows = self._setting_rows() if self._page == "settings" else ()
        return WindowState(
            page=self._page, mode=self._mode, done=self._done(), name=self._settings.name,
            device=f"{self.room.backend.upper()} · {self._settings.cpu_share} of {cores()} cores",
            addresses=self.addresses, ready=bool(self._backends), tasks=CARDS,
            task=card(spec) if spec else None, draft=self._draft_view() if self._page == "make" else None,
            recent=self.recent.paths,
            values=self.setup.values, data=self.setup.data, room=self.room.view,
            nearby=self._nearby, preflight=self.preflight.view, paths=self._paths,
            can_start=not why, why_not_start=why, session=self.session(),
            curves=self.record.curves(), try_=self.record.try_view(), models=self._models, settings=rows,
            log=tuple(self.record.log), notices=tuple(self._notices),
        )

    def _done(self) -> tuple[str, ...]:
        """Steps of the path that are behind us."""
        room = self.room.view
        behind = {
            "task": self.setup.spec is not None,
            "data": self.setup.usable,
            "room": self._mode == "alone" or (room is not None and room.state in ("open", "joined")),
            "train": self.record.final is not None,
        }
        return tuple(step for step, done in behind.items() if done)

    def _report(self, event: str) -> None:
        if self.report is not None:
            self.report.write(event, self.session())

    def write_report(self) -> None:
        """Once a second."""
        self._report("second")
