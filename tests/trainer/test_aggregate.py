"""The numbers of an exchange, against numpy by hand."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from desktop.rounds.messages import Outer, Stamp
from desktop.trainer import wire
from desktop.trainer.aggregate import Aggregation

STAMP, NEXT = Stamp(1, 1, 1), Stamp(1, 1, 1, 1)
BASE = np.array([0.1, 0.2, 0.3, 0.4, 0.5], np.float32)
SHARES = (("me", 0.5), ("b", 0.3), ("c", 0.2))


def made(update: np.ndarray | float = 0.0, base: np.ndarray = BASE) -> Aggregation:
    """Two buckets, of 3 and 2 weights; trained by `update`."""
    current = torch.from_numpy(base.copy())
    numbers = Aggregation(current, bucket_bytes=12)
    current += torch.as_tensor(np.asarray(update, np.float32))
    return numbers


def wired(numbers: np.ndarray, precision: str = "f32") -> memoryview:
    numbers = np.asarray(numbers, np.float32)
    out = memoryview(bytearray(wire.size(len(numbers), precision)))
    wire.encode(torch.from_numpy(numbers), precision, out)
    return out


def read(payload: object, count: int, precision: str) -> np.ndarray:
    return wire.decode(payload, count, precision).numpy()


def finish(slices: Iterator[object]) -> list[object]:
    return list(slices)


def reduce(numbers: Aggregation, bucket: int, shares: tuple[tuple[str, float], ...] = SHARES) -> bytes:
    out = bytearray(wire.size(numbers.count(bucket), numbers.precision))
    numbers.reduce(bucket, shares, "me", memoryview(out))
    return bytes(out)


def test_it_is_cut_into_buckets() -> None:
    numbers = made()
    assert len(numbers) == 2
    assert [numbers.count(bucket) for bucket in range(2)] == [3, 2]
    assert numbers.versions == [0, 0]


def test_my_update_is_what_i_trained_since_the_commit() -> None:
    step = np.array([1, 2, 3, 4, 5], np.float32)
    numbers = made(step)
    expected = (BASE + step) - BASE
    np.testing.assert_array_equal(numbers.update(0).numpy(), expected[:3])
    np.testing.assert_array_equal(numbers.update(1).numpy(), expected[3:])


def test_a_bucket_is_reduced_to_the_sum_weighted_by_shares() -> None:
    numbers = made(np.array([1, 2, 3, 0, 0], np.float32))
    numbers.begin(STAMP, "f32")
    from_b, from_c = np.array([10, 20, 30], np.float32), np.array([100, 200, 300], np.float32)
    assert not numbers.has_all(0, SHARES, "me")
    numbers.keep(0, "b", wired(from_b), 0.3)
    numbers.keep(0, "c", wired(from_c), 0.2)
    assert numbers.has_all(0, SHARES, "me")
    result = np.frombuffer(reduce(numbers, 0), "<f4")
    np.testing.assert_allclose(result, 0.5 * np.array([1, 2, 3]) + 0.3 * from_b + 0.2 * from_c, rtol=1e-6)


@pytest.mark.parametrize("precision", ["f32", "f16", "int8"])
def test_a_reducer_holds_one_contribution_at_most_however_many_come(precision: str) -> None:
    numbers = made()
    numbers.begin(STAMP, precision)
    payloads = [wired(np.full(3, float(number)), precision) for number in range(1, 6)]
    gone = [weakref.ref(payload) for payload in payloads]
    for number in range(5):
        numbers.keep(0, f"p{number}", payloads.pop(0), 0.2)
        assert sum(payload() is not None for payload in gone) <= len(payloads) + 1
    result = read(reduce(numbers, 0, tuple((f"p{number}", 0.2) for number in range(5))), 3, precision)
    np.testing.assert_allclose(result, np.full(3, 3.0), rtol=0.01)


@pytest.mark.parametrize("precision", ["f32", "f16", "int8"])
def test_the_reducer_applies_its_rounded_result_itself(precision: str) -> None:
    numbers = made(np.array([1 / 3, 1 / 7, 1e-4, 0, 0], np.float32))
    numbers.begin(STAMP, precision)
    sent = reduce(numbers, 0, (("me", 1.0),))
    numbers.keep_result(1, wired(np.zeros(2), precision))
    finish(numbers.apply(1, (0, 1)))
    other = made()
    other.begin(STAMP, precision)
    other.keep_result(0, memoryview(bytearray(sent)))
    other.keep_result(1, wired(np.zeros(2), precision))
    finish(other.apply(1, (0, 1)))
    by_hand = BASE[:3] + read(sent, 3, precision)
    assert numbers.committed[:3].numpy().tobytes() == other.committed[:3].numpy().tobytes() == by_hand.tobytes()


@pytest.mark.parametrize("precision", ["f16", "int8"])
def test_my_own_update_is_rounded_as_the_others_got_it(precision: str) -> None:
    numbers = made(np.array([1 / 3, 1 / 7, 0, 0, 0], np.float32))
    numbers.begin(STAMP, precision)
    update = read(wired(numbers.update(0).numpy(), precision), 3, precision)
    numbers.keep(0, "b", wired(np.zeros(3), precision), 0.5)
    result = reduce(numbers, 0, (("me", 0.5), ("b", 0.5)))
    assert result == bytes(wired(update * np.float32(0.5), precision))


def test_the_digest_is_sha256_of_the_weights_in_numpys_bytes() -> None:
    numbers = made()
    *before, digest = finish(numbers.digest())
    assert before == ["", ""]  # one slice per bucket
    assert digest == hashlib.sha256(BASE.astype("<f4").tobytes()).hexdigest()


def test_the_digest_with_results_is_that_of_the_weights_to_be() -> None:
    numbers = made(9.0)
    numbers.begin(STAMP, "f32")
    step = np.array([0.1, -0.2, 0.3, -0.4, 0.5], np.float32)
    numbers.keep_result(0, wired(step[:3]))
    numbers.keep_result(1, wired(step[3:]))
    *_, digest = finish(numbers.digest_with_results())
    assert digest == hashlib.sha256((BASE + step).astype("<f4").tobytes()).hexdigest()
    finish(numbers.apply(1, (0, 1)))
    assert finish(numbers.digest())[-1] == digest
    np.testing.assert_array_equal(numbers.current.numpy(), BASE + step)  # the model goes on from there
    assert numbers.versions == [1, 1]


def test_results_are_digested_while_others_still_come_and_anew_when_weights_are_replaced() -> None:
    numbers = made(9.0)
    numbers.begin(STAMP, "f32")
    step = np.array([0.1, -0.2, 0.3, -0.4, 0.5], np.float32)
    numbers.keep_result(1, wired(step[3:]))
    assert not numbers.digest_ahead()  # the first comes first
    numbers.keep_result(0, wired(step[:3]))
    assert numbers.digest_ahead()
    numbers.restore(0, 0, wired(BASE[:3] + np.float32(1)))
    assert [numbers.digest_ahead() for _ in range(3)] == [True, True, False]
    weights = np.concatenate([BASE[:3] + np.float32(1), BASE[3:]]) + step
    assert finish(numbers.digest_with_results()) == [hashlib.sha256(weights.astype("<f4").tobytes()).hexdigest()]


def test_without_all_results_or_after_a_new_attempt_there_is_no_digest() -> None:
    numbers = made()
    numbers.begin(STAMP, "f32")
    numbers.keep_result(0, wired(np.zeros(3)))
    assert finish(numbers.digest_with_results()) == [""]
    numbers.keep_result(1, wired(np.zeros(2)))
    slices = numbers.digest_with_results()
    assert next(slices) == ""
    numbers.begin(NEXT, "f32")
    assert finish(slices) == []


def test_only_buckets_of_the_previous_round_take_a_result() -> None:
    numbers = made()
    numbers.versions = [0, 4]  # the second one has come as a snapshot of a later round
    numbers.begin(STAMP, "f32")
    numbers.keep_result(0, wired(np.ones(3)))
    numbers.keep_result(1, wired(np.ones(2)))
    finish(numbers.apply(1, (0, 1)))
    np.testing.assert_array_equal(numbers.committed.numpy(), np.concatenate([BASE[:3] + np.float32(1), BASE[3:]]))
    assert numbers.versions == [1, 4]


def test_a_result_that_is_not_here_leaves_its_bucket() -> None:
    numbers = made()
    numbers.begin(STAMP, "f32")
    finish(numbers.apply(1, (0, 1)))
    assert numbers.versions == [0, 0]
    np.testing.assert_array_equal(numbers.committed.numpy(), BASE)


def test_a_result_is_applied_once() -> None:
    numbers = made()
    numbers.begin(STAMP, "f32")
    numbers.keep_result(0, wired(np.ones(3)))
    finish(numbers.apply(1, (0,)))
    finish(numbers.apply(1, (0,)))
    finish(numbers.apply(2, (0,)))
    np.testing.assert_array_equal(numbers.committed[:3].numpy(), BASE[:3] + np.float32(1))


def test_a_new_attempt_forgets_contributions_and_results_and_keeps_my_update() -> None:
    numbers = made(1.0)
    mine = numbers.update(0).clone()
    numbers.begin(STAMP, "f32")
    numbers.keep(0, "b", wired(np.ones(3)), 1.0)
    numbers.keep_result(1, wired(np.ones(2)))
    numbers.begin(NEXT, "f32")
    assert not numbers.has_all(0, (("b", 1.0),), "me")
    assert torch.equal(numbers.update(0), mine)
    finish(numbers.apply(1, (1,)))
    assert numbers.versions == [0, 0]


def test_what_was_forgotten_is_given_back_bucket_by_bucket() -> None:
    numbers = made()
    numbers.begin(STAMP, "f32")
    payloads = [wired(np.ones(3)), wired(np.ones(2)), wired(np.ones(2))]
    gone = [weakref.ref(payload) for payload in payloads]
    numbers.keep(0, "b", payloads[0], 0.5)
    numbers.keep(1, "b", payloads.pop(), 0.5)
    numbers.keep_result(1, payloads.pop())
    payloads.clear()
    numbers.begin(NEXT, "f32")
    alive = []
    for _ in numbers.freeing():
        alive.append(sum(payload() is not None for payload in gone))
    assert alive == [2, 1, 0]


@pytest.mark.parametrize(
    "payload",
    [wired(np.zeros(2)), wired(np.zeros(4)), wired(np.array([0, np.nan, 0])), wired(np.zeros(3), "f16"), None],
)
def test_what_cannot_be_used_is_refused_and_not_kept(payload: object) -> None:
    numbers = made()
    numbers.begin(STAMP, "f32")
    with pytest.raises(ValueError, match="it "):
        numbers.keep(0, "b", payload, 1.0)
    with pytest.raises(ValueError, match="it "):
        numbers.keep_result(0, payload)
    with pytest.raises(ValueError, match="it "):
        numbers.restore(0, 1, payload)
    assert not numbers.has_all(0, (("b", 1.0),), "me")
    assert numbers.versions == [0, 0]


@pytest.mark.parametrize("precision", ["f32", "f16", "int8"])
def test_an_own_update_or_a_sum_that_is_not_finite_is_refused(precision: str) -> None:
    numbers = made(np.array([np.inf, 0, 0, 0, 0], np.float32))
    numbers.begin(STAMP, precision)
    with pytest.raises(ValueError, match="not finite"):
        reduce(numbers, 0, (("me", 1.0),))
    numbers.begin(NEXT, precision)
    numbers.keep(0, "b", wired(np.full(3, 3e38), precision), 2.0)
    with pytest.raises(ValueError, match="not finite"):
        reduce(numbers, 0, (("b", 2.0),))
    assert finish(numbers.digest_with_results()) == []


def test_what_is_too_large_for_float16_travels_in_f16_all_the_same() -> None:
    numbers = made(np.array([70_000.0, -1e6, 3.0, 0, 0], np.float32))
    numbers.begin(STAMP, "f16")
    numbers.keep(0, "b", wired(np.full(3, 60_000.0), "f16"), 1.0)
    result = read(reduce(numbers, 0, (("me", 1.0), ("b", 1.0))), 3, "f16")
    np.testing.assert_allclose(result, [130_000.0, -940_000.0, 60_003.0], atol=500)


# -- error feedback -----------------------------------------------------------------------------------


def one_round(numbers: Aggregation, round_: int, update: np.ndarray, precision: str = "int8",
              outer: Outer | None = None, attempts: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Alone in a room: (what I contributed, what came back), both over all weights."""
    numbers.current += torch.from_numpy(np.asarray(update, np.float32))
    sent = np.empty(0)
    for attempt in range(attempts):
        numbers.begin(Stamp(round_, 1, 1, attempt), precision, outer)
        sent = np.concatenate([read(wired(numbers.update(bucket).numpy(), precision), numbers.count(bucket), precision)
                               for bucket in range(len(numbers))])
        results = [reduce(numbers, bucket, (("me", 1.0),)) for bucket in range(len(numbers))]
    finish(numbers.apply(round_, tuple(range(len(numbers)))))
    return sent, np.concatenate([read(result, numbers.count(b), precision) for b, result in enumerate(results)])


def test_what_int8_rounds_away_is_sent_later() -> None:
    """Updates of which one number is too small to be seen beside the other: after many rounds the sum is there."""
    numbers = made(0.0, np.zeros(5, np.float32))
    update = np.array([1.0, 0.001, -0.0007, 0.0, 0.25], np.float32)
    total = np.zeros(5)
    for round_ in range(1, 201):
        _, result = one_round(numbers, round_, update)
        total += result
        # Never more than half a step of a contribution and of a result away: a step is a 127th of about 1, or 1/4.
        assert (np.abs(total - round_ * update) <= [0.009] * 3 + [0.003] * 2).all()
    assert total[1] == pytest.approx(0.2, abs=0.009)
    np.testing.assert_allclose(numbers.committed.numpy(), total, atol=1e-4)


def test_an_exchange_that_begins_anew_sends_the_same_again_and_leaves_the_same_rest() -> None:
    update = np.array([1.0, 0.001, -0.0007, 0.3, 0.25], np.float32)
    once, again = made(0.0, np.zeros(5, np.float32)), made(0.0, np.zeros(5, np.float32))
    for round_ in range(1, 6):
        expected = one_round(once, round_, update)
        found = one_round(again, round_, update, attempts=3)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
    assert once.committed.numpy().tobytes() == again.committed.numpy().tobytes()


def test_who_does_not_contribute_keeps_its_rest() -> None:
    numbers = made(0.0, np.zeros(5, np.float32))
    one_round(numbers, 1, np.array([1.0, 0.001, 0, 0, 0], np.float32))
    rest = numbers.update(0).clone()
    assert rest[1] != 0
    numbers.begin(Stamp(2, 1, 1), "int8", contributes=False)
    for bucket in range(2):
        numbers.keep_result(bucket, wired(np.ones(numbers.count(bucket)), "int8"))
    finish(numbers.apply(2, (0, 1)))
    assert torch.equal(numbers.update(0), rest)


def test_after_a_change_of_precision_the_rest_is_sent_and_forgotten() -> None:
    numbers = made(0.0, np.zeros(5, np.float32))
    update = np.array([1.0, 0.001, -0.0007, 0.3, 0.25], np.float32)
    total = sum(one_round(numbers, round_, update)[1] for round_ in range(1, 4))
    total = total + one_round(numbers, 4, update, "f32")[1]
    np.testing.assert_allclose(total, 4 * update, atol=3e-5)  # a 254th of the 254th that a rest is at most
    assert not numbers.update(0).any()
    assert not numbers._owed


def test_rests_take_a_quarter_of_the_weights_memory_each() -> None:
    numbers = made(0.0, np.zeros(5, np.float32))
    one_round(numbers, 1, np.array([1.0, 0.001, -0.0007, 0.3, 0.25], np.float32), outer=Outer("nesterov"))
    for rests in (numbers._rests, numbers._owed):
        assert sum(map(len, rests.values())) == 5 + 2 * 2
    assert [velocity.element_size() for velocity in numbers.outer.velocity.values()] == [2, 2]
    one_round(numbers, 2, np.zeros(5, np.float32), "f16")
    assert not numbers._rests
    assert not numbers._owed


def test_a_bucket_that_came_as_a_snapshot_begins_without_rest_and_velocity() -> None:
    numbers = made(0.0, np.zeros(5, np.float32))
    one_round(numbers, 1, np.array([1.0, 0.001, -0.0007, 0.3, 0.25], np.float32), outer=Outer("nesterov"))
    numbers.restore(0, 4, wired(np.ones(3)))
    assert not numbers.update(0).any()
    assert numbers.update(1).any()
    assert list(numbers._owed) == list(numbers.outer.velocity) == [1]


# -- late work that is carried ----------------------------------------------------------------------------


def missed(numbers: Aggregation, round_: int, update: np.ndarray, result: np.ndarray, work: str = "carried") -> None:
    """A round that goes on without me: I trained by `update`, and the others' result is `result`."""
    numbers.current += torch.from_numpy(np.asarray(update, np.float32))
    numbers.begin(Stamp(round_, 1, 1), "f32", contributes=False)
    for bucket in range(len(numbers)):
        numbers.keep_result(bucket, wired(np.asarray(result, np.float32)[numbers.slices[bucket]]))
    finish(numbers.apply(round_, (0, 1), work))


def whole_update(numbers: Aggregation) -> np.ndarray:
    return np.concatenate([numbers.update(bucket).numpy() for bucket in range(len(numbers))])


def test_late_work_is_added_to_my_next_contribution_once() -> None:
    """By hand, in numbers that float32 holds exactly: half of (1 + 4) of mine and half of 8 of another's."""
    numbers = made(0.0, np.zeros(5, np.float32))
    missed(numbers, 1, np.full(5, 1.0), np.full(5, 0.25))
    np.testing.assert_array_equal(numbers.committed.numpy(), np.full(5, 0.25))
    np.testing.assert_array_equal(numbers.current.numpy(), np.full(5, 0.25))  # I train on from what the room has
    numbers.current += 4.0
    for attempt in range(2):  # the exchange begins anew: nothing is added once more
        numbers.begin(Stamp(2, 1, 1, attempt), "f32")
        np.testing.assert_array_equal(whole_update(numbers), np.full(5, 5.0))
        for bucket in range(2):
            numbers.keep(bucket, "b", wired(np.full(numbers.count(bucket), 8.0)), 0.5)
            reduce(numbers, bucket, (("me", 0.5), ("b", 0.5)))
    finish(numbers.apply(2, (0, 1), "counted"))
    np.testing.assert_array_equal(numbers.committed.numpy(), np.full(5, 0.25 + 6.5))
    numbers.current += 2.0
    np.testing.assert_array_equal(whole_update(numbers), np.full(5, 2.0))


def test_what_is_late_again_is_added_to_what_is_carried() -> None:
    numbers = made(0.0, np.zeros(5, np.float32))
    for round_, late in ((1, 1.0), (2, 2.0), (3, 4.0)):
        missed(numbers, round_, np.full(5, late), np.zeros(5))
    np.testing.assert_array_equal(whole_update(numbers), np.full(5, 7.0))
    numbers.drop_carried()
    np.testing.assert_array_equal(whole_update(numbers), np.zeros(5))


def test_the_same_round_trained_anew_does_not_add_to_itself() -> None:
    """The leader died and the round was announced once more: until a commit nothing is carried."""
    numbers = made(1.0, np.zeros(5, np.float32))
    numbers.begin(STAMP, "f32", contributes=False)
    for bucket in range(2):
        numbers.rewind(bucket)
    missed(numbers, 1, np.full(5, 3.0), np.zeros(5))
    np.testing.assert_array_equal(whole_update(numbers), np.full(5, 3.0))


def test_without_that_choice_late_work_is_gone_with_the_commit() -> None:
    numbers = made(0.0, np.zeros(5, np.float32))
    missed(numbers, 1, np.full(5, 1.0), np.zeros(5), "")
    assert not whole_update(numbers).any()


def test_late_work_waits_for_results_that_come_as_a_snapshot() -> None:
    """I know that I had no part in it; the results themselves did not reach me in time."""
    numbers = made(1.0, np.zeros(5, np.float32))
    numbers.begin(STAMP, "f32", contributes=False)
    finish(numbers.apply(1, (0, 1), "carried"))
    for bucket in range(2):
        numbers.restore(bucket, 1, wired(np.full(numbers.count(bucket), 9.0)))
    np.testing.assert_array_equal(whole_update(numbers), np.ones(5))


def test_late_work_that_is_not_finite_is_not_carried() -> None:
    numbers = made(0.0, np.zeros(5, np.float32))
    missed(numbers, 1, np.array([np.nan, 1, 1, 2, 2]), np.zeros(5))
    np.testing.assert_array_equal(whole_update(numbers), [0, 0, 0, 2, 2])


def test_what_int8_rounds_away_and_what_is_late_do_not_mix() -> None:
    numbers = made(0.0, np.zeros(5, np.float32))
    update = np.array([1.0, 0.001, -0.0007, 0.3, 0.25], np.float32)
    one_round(numbers, 1, update)
    rest = whole_update(numbers)
    assert rest.any()
    missed(numbers, 2, np.full(5, 0.5), np.zeros(5))
    np.testing.assert_allclose(whole_update(numbers), rest + 0.5, rtol=1e-6)
    total = numbers.committed.numpy().copy()
    sent, _ = one_round(numbers, 3, update)
    numbers.drop_carried()  # what `ApplyResults` says with "counted"
    np.testing.assert_allclose(total + sent + whole_update(numbers), 2 * update + 0.5, atol=2e-3)


def test_carried_work_takes_a_float32_per_weight_and_only_while_there_is_any() -> None:
    numbers = made(0.0, np.zeros(5, np.float32))
    missed(numbers, 1, np.full(5, 1.0), np.zeros(5))
    carried = list(numbers._carried.values())
    assert sum(tensor.untyped_storage().nbytes() for tensor in carried) == 5 * 4
    numbers.free()
    assert sum(tensor.untyped_storage().nbytes() for tensor in carried) == 0


# -- the outer optimiser ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["momentum", "nesterov"])
@pytest.mark.parametrize("attempts", [1, 3])
def test_the_outer_steps_are_those_of_torchs_sgd(kind: str, attempts: int) -> None:
    """The velocity is had from the results alone, and a repeated attempt counts once."""
    numbers = made(0.0, np.zeros(5, np.float32))
    weights = torch.nn.Parameter(torch.zeros(5))
    sgd = torch.optim.SGD([weights], lr=0.7, momentum=0.9, nesterov=kind == "nesterov")
    rng = np.random.default_rng(3)
    for round_ in range(1, 31):
        update = rng.normal(size=5).astype(np.float32)
        weights.grad = -torch.from_numpy(update)
        sgd.step()
        one_round(numbers, round_, update, "f32", Outer(kind, 0.7, 0.9), attempts)
        np.testing.assert_allclose(numbers.committed.numpy(), weights.detach().numpy(), rtol=1e-4, atol=1e-4)


def test_none_takes_the_mean_as_it_is_and_remembers_nothing() -> None:
    numbers = made(0.0, np.zeros(5, np.float32))
    update = np.array([1, 2, 3, 4, 5], np.float32)
    one_round(numbers, 1, update, "f32", Outer("nesterov"))
    assert numbers.outer.velocity
    _, result = one_round(numbers, 2, update, "f32", Outer("none", 0.1, 0.5))
    np.testing.assert_allclose(result, update, rtol=1e-6)
    assert not numbers.outer.velocity


@pytest.mark.parametrize(("kind", "rounds"), [("momentum", 1), ("nesterov", 25)])
def test_who_comes_anew_has_the_velocity_after_some_results(kind: str, rounds: int) -> None:
    old, new, outer = made(0.0, np.zeros(5, np.float32)), made(0.0, np.zeros(5, np.float32)), Outer(kind)
    for round_ in range(1, 11):
        one_round(old, round_, np.full(5, 0.3), "f32", outer)
    for bucket in range(2):
        new.restore(bucket, 10, wired(old.committed[old.slices[bucket]].numpy()))
    for round_ in range(11, 11 + rounds):
        _, result = one_round(old, round_, np.full(5, 0.1 * round_), "f32", outer)
        new.begin(Stamp(round_, 1, 1), "f32", outer, contributes=False)
        for bucket in range(2):
            new.keep_result(bucket, wired(result[new.slices[bucket]]))
        finish(new.apply(round_, (0, 1)))
    for bucket in range(2):
        torch.testing.assert_close(new.outer.velocity[bucket], old.outer.velocity[bucket], rtol=1e-5, atol=1e-6)


def test_what_is_given_back_holds_no_memory() -> None:
    numbers = made(0.0, np.zeros(5, np.float32))
    one_round(numbers, 1, np.array([1.0, 0.001, 0, 0.3, 0.25], np.float32), outer=Outer("momentum"))
    held = [numbers.committed, *numbers.outer.velocity.values()]
    assert len(held) == 3
    numbers.free()
    assert not numbers._rests
    assert not numbers._owed
    assert sum(tensor.untyped_storage().nbytes() for tensor in held) == 0


# -- snapshots ----------------------------------------------------------------------------------------


def test_a_snapshot_and_its_restoring() -> None:
    giver, taker = made(), made(5.0, np.zeros(5, np.float32))
    out = bytearray(8)
    giver.snapshot(1, memoryview(out))
    assert bytes(out) == BASE[3:].astype("<f4").tobytes()
    taker.restore(1, 7, memoryview(out))
    np.testing.assert_array_equal(taker.committed.numpy(), np.concatenate([np.zeros(3, np.float32), BASE[3:]]))
    np.testing.assert_array_equal(taker.current[3:].numpy(), BASE[3:])
    assert taker.versions == [0, 7]


def test_rewinding_takes_the_model_back() -> None:
    numbers = made(3.0)
    numbers.rewind(1)
    np.testing.assert_array_equal(numbers.current.numpy(), np.concatenate([BASE[:3] + np.float32(3), BASE[3:]]))
    assert not numbers.update(1).any()
