"""The numbers of an exchange, against numpy by hand."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from desktop.rounds.messages import Stamp
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
    kind = {"f32": "<f4", "f16": "<f2"}[precision]
    return memoryview(bytearray(np.asarray(numbers).astype(kind).tobytes()))


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


def test_a_bucket_is_reduced_to_the_sum_weighted_by_shares_in_their_order() -> None:
    numbers = made(np.array([1, 2, 3, 0, 0], np.float32))
    numbers.begin(STAMP, "f32")
    from_b, from_c = np.array([10, 20, 30], np.float32), np.array([100, 200, 300], np.float32)
    assert not numbers.has_all(0, SHARES, "me")
    numbers.keep(0, "b", wired(from_b))
    numbers.keep(0, "c", wired(from_c))
    assert numbers.has_all(0, SHARES, "me")
    result = np.frombuffer(reduce(numbers, 0), "<f4")
    np.testing.assert_allclose(result, 0.5 * np.array([1, 2, 3]) + 0.3 * from_b + 0.2 * from_c, rtol=1e-6)


@pytest.mark.parametrize("precision", ["f32", "f16"])
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
    by_hand = BASE[:3] + np.frombuffer(sent, {"f32": "<f4", "f16": "<f2"}[precision]).astype(np.float32)
    assert numbers.committed[:3].numpy().tobytes() == other.committed[:3].numpy().tobytes() == by_hand.tobytes()


def test_my_own_update_is_rounded_as_the_others_got_it() -> None:
    numbers = made(np.array([1 / 3, 0, 0, 0, 0], np.float32))
    numbers.begin(STAMP, "f16")
    update = numbers.update(0).numpy().astype("<f2").astype(np.float32)
    numbers.keep(0, "b", wired(np.zeros(3), "f16"))
    result = np.frombuffer(reduce(numbers, 0, (("me", 0.5), ("b", 0.5))), "<f2")
    np.testing.assert_array_equal(result, (update * np.float32(0.5)).astype("<f2"))


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
    numbers.keep(0, "b", wired(np.ones(3)))
    numbers.keep_result(1, wired(np.ones(2)))
    numbers.begin(NEXT, "f32")
    assert not numbers.has_all(0, (("b", 1.0),), "me")
    assert torch.equal(numbers.update(0), mine)
    finish(numbers.apply(1, (1,)))
    assert numbers.versions == [0, 0]


def test_what_was_forgotten_is_given_back_bucket_by_bucket() -> None:
    numbers = made()
    numbers.begin(STAMP, "f32")
    payloads = [wired(np.ones(3)), wired(np.ones(3)), wired(np.ones(2))]
    gone = [weakref.ref(payload) for payload in payloads]
    numbers.keep(0, "b", payloads[0])
    numbers.keep(0, "c", payloads[1])
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
        numbers.keep(0, "b", payload)
    with pytest.raises(ValueError, match="it "):
        numbers.keep_result(0, payload)
    with pytest.raises(ValueError, match="it "):
        numbers.restore(0, 1, payload)
    assert not numbers.has_all(0, (("b", 1.0),), "me")
    assert numbers.versions == [0, 0]


def test_an_own_update_or_a_sum_that_does_not_fit_is_refused() -> None:
    numbers = made(70_000.0)
    numbers.begin(STAMP, "f16")
    with pytest.raises(ValueError, match="not finite"):
        reduce(numbers, 0, (("me", 1.0),))
    numbers.begin(NEXT, "f16")
    numbers.keep(0, "b", wired(np.full(3, 60_000.0), "f16"))
    with pytest.raises(ValueError, match="not finite"):
        reduce(numbers, 0, (("b", 2.0),))
    assert finish(numbers.digest_with_results()) == []


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
