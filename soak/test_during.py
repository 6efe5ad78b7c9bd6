"""Searches while their project is indexed again and its embedder is switched: none mixed."""

from benchmarks.during import measure_during

CHUNKS = 1_000


def test_no_answer_is_an_error_or_mixed_while_the_index_changes() -> None:
    windows = measure_during(chunks=CHUNKS, say=print, idle_s=5.0)
    assert [fault for window in windows for fault in window.judged.faults] == []
    swapped = [window for window in windows if window.judged.refused]
    # Both switches swapped while the client asked, and it was answered before and after.
    assert len(swapped) == 2
    assert all(all(window.judged.by_embedder.values()) for window in swapped)
