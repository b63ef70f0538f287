"""One is one, and the others are several."""

import pytest

from scaletest.model.counting import counted, noun


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 shards"), (1, "1 shard"), (2, "2 shards"), (5_000_000, "5,000,000 shards")]
)
def test_a_number_has_the_noun_that_goes_with_it(count: int, words: str) -> None:
    assert counted(count, "shard") == words


def test_a_noun_may_have_a_plural_of_its_own_and_a_figure_of_another_kind() -> None:
    assert counted(1, "process", "processes") == "1 process"
    assert counted(3, "process", "processes") == "3 processes"
    assert (noun(1.0, "is", "are"), noun(0.5, "is", "are")) == ("is", "are")
