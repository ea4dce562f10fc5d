"""What a person can ask for: the frozen intents that the window emits, one class per meaning."""

from __future__ import annotations

import msgspec

from desktop.state import Edit


class Intent(msgspec.Struct, frozen=True):
    """Base of all intents."""


class GoTo(Intent, frozen=True):
    """Show a page: one of `state.PAGES`."""

    page: str


class TryDemo(Intent, frozen=True):
    """Train the demo in this window and `members - 1` further ones on this computer."""

    members: int = 3


class BeginRoom(Intent, frozen=True):
    """Start a room: go to the Task page as its host."""


class BeginJoin(Intent, frozen=True):
    """Join a room: go to the Room page with the ways of joining."""


class TrainAlone(Intent, frozen=True):
    """The same path without a room."""


class ChooseTask(Intent, frozen=True):
    """Take a task by the id of its card."""

    task: str


class MakeTask(Intent, frozen=True):
    """Make a task of one's own, beginning with the one chosen."""


class SetDraft(Intent, frozen=True):
    """Change one value of the task in the making; "kind" is that of its data."""

    key: str
    value: str


class UseDraft(Intent, frozen=True):
    """Take the task in the making."""


class SaveTask(Intent, frozen=True):
    """Write the task in the making to a file."""

    path: str


class OpenTask(Intent, frozen=True):
    """Take the task of a file."""

    path: str


class AddData(Intent, frozen=True):
    """Use these files and folders as my data."""

    paths: tuple[str, ...]


class EditData(Intent, frozen=True):
    """Read my data with these changes as well: one step that can be undone."""

    edits: tuple[Edit, ...]


class UndoData(Intent, frozen=True):
    """Take the last step of changes to my data back."""


class UseSample(Intent, frozen=True):
    """Use the sample data that ships with the task."""


class ClearData(Intent, frozen=True):
    """Forget the data chosen so far."""


class OpenRoom(Intent, frozen=True):
    """Open a room that starts when `start_members` members are ready."""

    start_members: int = 2


class Join(Intent, frozen=True):
    """Join by a link, or by a code; `address` ("host:port") is where to knock when the room is not nearby."""

    text: str
    address: str = ""


class Leave(Intent, frozen=True):
    """Leave the room (or stop joining it). What was learnt so far is kept."""


class SetTraining(Intent, frozen=True):
    """Change one training value, by its key in `state.TrainingValues`: before Start, or from the next round on."""

    key: str
    value: str


class Start(Intent, frozen=True):
    """Start training, or say ready in a room."""


class Stop(Intent, frozen=True):
    """Stop training and keep the last committed weights."""


class TryImage(Intent, frozen=True):
    """Let the model read a picture."""

    path: str


class TrySample(Intent, frozen=True):
    """Let the model read the held-out picture at this index of `TryView.samples`."""

    index: int


class SetSetting(Intent, frozen=True):
    """Change a setting by its key; the value is text and is checked by `settings`."""

    key: str
    value: str


class Dismiss(Intent, frozen=True):
    """Put a notice away."""

    notice: int


class OpenFolder(Intent, frozen=True):
    """Show a file or folder in the system's file manager."""

    path: str


class CheckPaths(Intent, frozen=True):
    """Check again how this computer can be reached."""


class AnotherWindow(Intent, frozen=True):
    """Start another window on this computer that joins the room of this one."""


class Quit(Intent, frozen=True):
    """Close the window."""
