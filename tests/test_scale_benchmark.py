"""The benchmark of 100,000 rows: what it holds a search against."""

from benchmarks.scale import Recording, repeat


def test_what_a_search_executed_is_repeated_bare(owner_url: str) -> None:
    with Recording(owner_url) as database:

        def work() -> None:
            with database.session() as connection:
                connection.execute("SELECT 1")
            with database.transaction(projects=[7], snapshot=True) as connection:
                connection.execute("SELECT %s", [2], prepare=True)

        noted = database.recorded(work)
        assert noted[0][:2] == ("SELECT 1", None)
        assert noted[-1][:2] == ("SELECT %s", [2])
        assert noted[-1][2]["prepare"]
        with database.session() as connection:
            for _ in range(2):  # each begins its own transaction, which has ended then
                repeat(connection, noted)
            assert connection.info.transaction_status.name == "IDLE"
