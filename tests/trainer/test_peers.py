"""What other members send, as the trainer sees it: rubbish, floods, numbers that cannot be used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from desktop.bridge import codec
from desktop.bridge.lifecycle import Failed, FinalModel, Noted
from desktop.bridge.transport import Buffer
from desktop.rounds import actions as act
from desktop.rounds.messages import Contribution, Hello, Refused, SnapshotRequest, Stamp, View
from desktop.trainer.training import HIGH_WATER, SendResult, Training
from tests.trainer.test_training import Room


def notes(room: Room, name: str) -> list[str]:
    return [said.text for said in room.said[name] if isinstance(said, Noted)]


def exchanging(room: Room, name: str) -> Training:
    """The room goes on until this member has begun to exchange."""
    training = room.trainings[name]
    room.run(lambda: training.numbers.stamp is not None)
    return training


def test_bytes_that_are_no_message_are_told_once_per_peer(tmp_path: Path) -> None:
    room = Room(tmp_path, 2)
    for number in range(50):
        room.trainings["m0"].received("m1", memoryview(bytearray([number] * 9)))
    assert len([text for text in notes(room, "m0") if "could not be read" in text]) == 1
    room.run(room.all_ended)
    assert len(room.digests()) == 1


def test_another_task_is_told_once_per_peer_and_once_more_when_it_comes_back(tmp_path: Path) -> None:
    room = Room(tmp_path, 2)
    foreign = memoryview(codec.encode(Hello(View(), 0), "another schema"))
    training = room.trainings["m0"]
    for _ in range(50):
        training.received("x", foreign)
    training.peer_lost("x", "gone")
    training.received("x", foreign)
    assert len([text for text in notes(room, "m0") if "another task" in text]) == 2


@pytest.mark.parametrize("length", [0, 7, 10**7])
def test_a_contribution_of_a_wrong_length_is_refused_and_the_others_go_on(tmp_path: Path, length: int) -> None:
    room = Room(tmp_path, 3)
    bad = room.trainings["m2"]
    encode = codec.reserve

    def spoiled(self: Training, to: str, action: act.Action) -> None:
        if isinstance(action, act.Contribute):
            message = Contribution(action.stamp, action.bucket)
            self._transport.send(action.to, encode(message, self._schema, length)[0], bulk=True)

    bad._send_bulk = spoiled.__get__(bad)  # type: ignore[method-assign]
    room.run(lambda: all(room.trainings[name].ended for name in ("m0", "m1")))
    assert any("bytes" in text and "expected" in text for text in notes(room, "m2"))
    assert room.trainings["m0"].engine.room.digest == room.trainings["m1"].engine.room.digest
    assert room.trainings["m0"].engine.room.round == 3


def test_of_a_payload_that_is_far_too_long_only_the_beginning_is_held(tmp_path: Path) -> None:
    room = Room(tmp_path, 2)
    training = room.trainings["m0"]
    early = Contribution(Stamp(2, 1, 9), 0)
    training.received("m1", memoryview(codec.reserve(early, training._schema, 10**7)[0]))
    ((_, payload),) = training.engine.member._early["m1"].values()
    assert isinstance(payload, memoryview)
    assert payload.obj is not None
    assert len(payload.obj) == 40_001  # type: ignore[arg-type] # a bucket and one byte, so that it is refused


def test_who_asks_for_the_same_weights_again_and_again_gets_them_once(tmp_path: Path) -> None:
    room = Room(tmp_path, 2)
    room.run(lambda: room.trainings["m0"].engine.room.round == 1)
    training = room.trainings["m0"]
    training._transport.unsent = lambda peer: HIGH_WATER  # type: ignore[method-assign] # a slow link: nothing goes out
    for _ in range(20):
        training.engine.received("m1", SnapshotRequest((0, 1, 2)), None, room.clock())
        for _ in range(10):
            training.slice()
    waiting = [action for action in training._held["m1"] if isinstance(action, act.SendSnapshot)]
    assert [action.bucket for action in waiting] == [0, 1, 2]


def test_a_new_exchange_does_not_forget_the_weights_that_a_newcomer_waits_for(tmp_path: Path) -> None:
    room = Room(tmp_path, 2)
    training = exchanging(room, "m0")
    exchange = training.engine.member.exchange
    assert exchange is not None
    training._held = {}
    training._carry_out(act.SendSnapshot("m1", 0, 2))
    training._carry_out(act.Contribute(exchange.stamp, 1, "m1", "f32"))
    training._carry_out(act.BeginExchange(exchange.plan))
    assert list(training._held["m1"]) == [act.SendSnapshot("m1", 0, 2)]


def test_above_high_water_nothing_more_is_produced_for_a_peer(tmp_path: Path) -> None:
    room = Room(tmp_path, 2, local_steps=1)
    training = room.trainings["m0"]
    training._transport.unsent = lambda peer: HIGH_WATER  # type: ignore[method-assign]
    room.run(lambda: training.engine.member.phase == "exchanging" and bool(training._held.get("m1")))
    before = room.hub.bytes_sent["m0"]
    for _ in range(20):
        training.slice()
    assert room.hub.bytes_sent["m0"] - before < 2_000  # beats, but no bucket
    del training._transport.unsent  # type: ignore[attr-defined]
    room.run(room.all_ended)
    assert len(room.digests()) == 1


def waiting_results(training: Training, peer: str) -> list[SendResult]:
    return [action for action in training._held.get(peer, ()) if isinstance(action, SendResult)]


def reduced_above_high_water(room: Room) -> Training:
    """The room goes on until m0, which cannot send anything more to m1, has made all its results."""
    training = room.trainings["m0"]
    training._transport.unsent = lambda peer: HIGH_WATER  # type: ignore[method-assign]
    room.run(lambda: len(waiting_results(training, "m1")) == 2)
    return training


def test_results_wait_above_high_water_in_the_one_buffer_that_is_kept_for_the_commit(tmp_path: Path) -> None:
    room = Room(tmp_path, 2, local_steps=1)
    training = reduced_above_high_water(room)
    kept = [memoryview(payload).obj for payload in training.numbers._results.values()]
    assert all(any(waiting.buffer.obj is each for each in kept) for waiting in waiting_results(training, "m1"))
    del training._transport.unsent  # type: ignore[attr-defined]
    room.run(room.all_ended)
    assert len(room.digests()) == 1


def test_results_of_an_earlier_attempt_or_a_committed_round_are_not_sent(tmp_path: Path) -> None:
    room = Room(tmp_path, 2, local_steps=1)
    training = reduced_above_high_water(room)
    exchange = training.engine.member.exchange
    assert exchange is not None
    waiting = list(training._held["m1"])
    training._carry_out(act.BeginExchange(exchange.plan))
    assert not training._held["m1"]
    training._held["m1"].extend(waiting)
    training._carry_out(act.ApplyResults(1, ()))
    assert not waiting_results(training, "m1")


def test_members_who_all_wait_above_high_water_go_on_when_what_they_sent_has_come(tmp_path: Path) -> None:
    room = Room(tmp_path, 3, local_steps=1)
    for training in room.trainings.values():
        on_its_way = OnItsWay(room, training)
        training._transport.unsent = on_its_way.unsent  # type: ignore[method-assign]
        training._transport.send = on_its_way.send  # type: ignore[method-assign]
    room.run(room.all_ended)
    assert len(room.digests()) == 1


class OnItsWay:
    """Puts a member above the high-water mark from each bucket that it sends until a while later."""

    def __init__(self, room: Room, training: Training) -> None:
        self.room, self.until, self.post = room, dict[str, float](), training._transport.send

    def send(self, peer: str, data: Buffer, *, bulk: bool) -> None:
        assert not bulk or self.unsent(peer) < HIGH_WATER
        if bulk:
            self.until[peer] = self.room.clock() + 0.2
        self.post(peer, data, bulk=bulk)

    def unsent(self, peer: str) -> int:
        return HIGH_WATER if self.room.clock() < self.until.get(peer, 0.0) else 0


def test_a_bucket_without_a_result_is_told_to_the_engine_at_the_commit(tmp_path: Path) -> None:
    room = Room(tmp_path, 2, rounds=3)
    training = room.trainings["m1"]
    room.run(lambda: training.numbers.versions == [1] * 4 and training._job is None)
    training.numbers.versions[2] = 0  # as if the result of bucket 2 had not been usable
    training.numbers.committed[training.numbers.slices[2]] = 0.0
    list(training._apply(1, (2,), ""))
    assert training.engine.member.phase == "syncing"
    room.run(room.all_ended)
    assert len(room.digests()) == 1


def test_going_back_to_the_committed_weights_is_done_bucket_by_bucket(tmp_path: Path) -> None:
    room = Room(tmp_path, 1)
    training = room.trainings["m0"]
    room.run(lambda: training.engine.room.round == 1)
    training._job = None
    training._carry_out(act.Train(2, room.policy.values))
    for _ in range(len(training.numbers)):
        assert not training.local.running
        training._one_piece()
    training._one_piece()
    assert training.local.running


def test_who_leaves_just_before_training_does_not_train(tmp_path: Path) -> None:
    room = Room(tmp_path, 1)
    training = room.trainings["m0"]
    room.run(lambda: training.engine.room.round == 1)
    training._carry_out(act.Train(2, room.policy.values))
    training.stop()
    room.run(lambda: training.ended)
    assert not training.local.running
    final = room.last("m0", FinalModel)
    assert isinstance(final, FinalModel)
    assert final.digest == training.engine.room.digest


def test_after_a_failure_the_last_committed_weights_are_saved(tmp_path: Path) -> None:
    room = Room(tmp_path, 1)
    training = room.trainings["m0"]
    room.run(lambda: training.engine.room.round == 1 and training.local.running)
    training.slice()
    training._fail("It failed.")
    room.run(lambda: training.ended)
    said = [type(each) for each in room.said["m0"]]
    assert said.index(Failed) < said.index(FinalModel)
    final = room.last("m0", FinalModel)
    assert isinstance(final, FinalModel)
    assert not final.complete
    assert Path(final.path).exists()
    np.testing.assert_array_equal(training.local.flat.numpy(), training.numbers.committed.numpy())
    assert training.left


def test_a_refusal_reaches_the_person(tmp_path: Path) -> None:
    room = Room(tmp_path, 2)
    training = exchanging(room, "m0")
    assert training.numbers.stamp is not None
    message = Refused(training.numbers.stamp, "it is too short")
    training.received("m1", memoryview(codec.encode(message, training._schema)))
    room.run(lambda: bool(notes(room, "m0")))
    assert any("it is too short" in text for text in notes(room, "m0"))
