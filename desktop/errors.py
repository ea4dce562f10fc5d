"""Every error a person can meet: the class docstring is the sentence they read."""

from __future__ import annotations

import inspect


class PeerloomError(Exception):
    """Something went wrong: {what}."""

    def __init__(self, **details: object) -> None:
        self.details = details
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        """The class docstring with the details filled in: what happened, where, and what to do."""
        return inspect.cleandoc(type(self).__doc__ or "").replace("\n", " ").format(**self.details)


# -- options and settings ---------------------------------------------------------------------------


class OptionError(PeerloomError):
    """{key}: “{value}” is not valid. Allowed: {allowed}."""


class UnknownOptionError(PeerloomError):
    """{key} is not an option of Peerloom. Run with --help for the list."""


# -- rooms ------------------------------------------------------------------------------------------


class LinkError(PeerloomError):
    """This is not a link to a room: {why}. Ask the host to copy the link again."""


class RoomNotFoundError(PeerloomError):
    """No room answers at {address}. Ask the host whether its window is open and on the same network."""


class RoomRefusedError(PeerloomError):
    """The room did not let you in: {why}."""


class CodeRefusedError(PeerloomError):
    """The code did not match, and each code is good for one try. Ask the host for the new code."""


class PortInUseError(PeerloomError):
    """Port {port} is already used by another program. Choose another port, or 0 for any free one."""


class VersionError(PeerloomError):
    """{older} uses an older version of Peerloom ({old}) than {newer} ({new}). Update {older} first."""


# -- peers ------------------------------------------------------------------------------------------


class PacketError(PeerloomError):
    """A packet could not be used: {why}."""


class NoNetworkError(PeerloomError):
    """This computer has no network address that others could reach. Connect it to a network."""


# -- tasks and data ---------------------------------------------------------------------------------


class DataError(PeerloomError):
    """{place}: {why}. {remedy}"""


class NoImagesError(DataError):
    """No pictures in {place}. Choose a folder that holds one folder of pictures for each class."""


class TooLittleDataError(DataError):
    """Too little data in {place}: {have}, at least {need} are needed."""


class BrokenImageError(DataError):
    """{place} cannot be opened as a picture: {why}. It is skipped."""


class ClassesDifferError(DataError):
    """These classes are not part of the room: {unknown}. The room has: {known}. Rename the folders, or leave them out."""


class TaskError(PeerloomError):
    """The task cannot be used: {why}."""


# -- training and models ----------------------------------------------------------------------------


class TrainingError(PeerloomError):
    """Training stopped: {why}. The weights of the last finished round are kept."""


class ContributionError(PeerloomError):
    """A contribution of {peer} was refused: {why}."""


class ModelFileError(PeerloomError):
    """{place} is not a model that Peerloom can read: {why}."""


class SaveError(PeerloomError):
    """The model could not be saved to {place}: {why}. It is still in memory: choose another folder."""
