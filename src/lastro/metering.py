"""Each call of an embedder, counted where it is made, and refused where its budget would be passed.

What was counted is written with the vectors that the calls made, in one transaction, and counted
until that is committed. A question that costs no money waits for nothing: it is written within a
second, or when the program ends.
"""

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from lastro import store
from lastro.db.pool import Database
from lastro.embedders import Call, Embedder, Meter, Role, Served
from lastro.errors import BudgetExceeded, LastroError, NotFound, ProviderError
from lastro.later import Later
from lastro.metering_settings import MeteringSettings
from lastro.store import AppConnection, UsedCall

FREE = MeteringSettings()
# A connection that was lost takes the server less to undo; its transaction writes some rows.
ENDS_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Account:
    """Whose calls they are, of what, and for what."""

    project_id: int | None
    embedder: str
    version: str
    role: Role


class UsageLater:
    """Calls that are written soon, by a thread of their own; ``flush`` writes what is left.

    A search would wait a third of a millisecond for it. A process that is killed loses those of
    its last second. May be used by several threads.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._calls: dict[Account, list[UsedCall]] = {}
        self._later = Later(self._write_all)

    def add(self, account: Account, calls: Sequence[UsedCall]) -> None:
        """Take over calls that were made."""
        with self._lock:
            self._calls.setdefault(account, []).extend(calls)
        self._later.ask()

    def flush(self) -> None:
        """Write what was taken over. No answer fails for want of it."""
        self._later.now()

    def _write_all(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, {}
        for account, made in calls.items():
            # A project that was erased, or a server that went away, takes its calls with it.
            with contextlib.suppress(LastroError):
                self._write(account, made)

    def _write(self, account: Account, calls: Sequence[UsedCall]) -> None:
        projects = [] if account.project_id is None else [account.project_id]
        with self._database.transaction(projects=projects) as connection:
            _record(connection, account, calls)


def _record(connection: AppConnection, account: Account, calls: Sequence[UsedCall]) -> None:
    store.record_usage(
        connection,
        calls,
        project_id=account.project_id,
        embedder=account.embedder,
        version=account.version,
        role=account.role,
    )


class _Written(NamedTuple):
    """What a transaction wrote: so many of the first calls, and these differences."""

    transaction: str | None
    calls: int
    differences: Mapping[date, Decimal]


def _was_kept(database: Database, transaction: str | None) -> bool:
    """Whether a transaction was committed, so far as the server knows; waits a moment for its end.

    What nobody can know counts as kept: a budget is not charged less than was spent.
    """
    if transaction is None:  # it wrote nothing
        return True
    deadline = time.monotonic() + ENDS_WITHIN_S
    while True:
        with database.transaction() as connection:
            fate = store.transaction_fate(connection, transaction)
        if fate != "in progress" or time.monotonic() >= deadline:
            return fate != "aborted"
        time.sleep(ENDS_WITHIN_S / 100)


@dataclass(slots=True, kw_only=True)
class ProjectMeter:
    """Counts what is asked for ``project_id``, None for texts of no project, which have no budget.

    ``kept`` is how its writes are kept, ``later`` who writes what costs no money. Not for several
    threads.
    """

    database: Database
    embedder: Embedder
    role: Role
    project_id: int | None
    kept: Mapping[str, str] | None = None
    later: UsageLater | None = None
    version: str = ""
    _calls: list[UsedCall] = field(default_factory=list[UsedCall], init=False)
    _differences: dict[date, Decimal] = field(
        default_factory=lambda: defaultdict[date, Decimal](Decimal), init=False
    )
    _written: _Written | None = field(default=None, init=False)

    @contextmanager
    def __call__(self, texts: Sequence[str]) -> Generator[Call]:
        """One call with ``texts``. Errors: BudgetExceeded, before it is made."""
        prices = self._prices
        most = prices.most(texts) if prices.has_price else None
        month = None if most is None else self._reserve(most, prices)
        call = Call()
        started = time.perf_counter()
        try:
            yield call
        except ProviderError as error:
            call.was_made = error.reason != "embedder_unreachable"
            raise
        finally:
            duration_ms = (time.perf_counter() - started) * 1000
            cost = _cost(call, texts, prices=prices, most=most)
            if most is not None and cost is not None and month is not None:
                self._differences[month] += cost - most
            if call.was_made:
                self._calls.append(
                    UsedCall(
                        texts=len(texts),
                        characters=sum(map(len, texts)),
                        tokens=call.tokens,
                        duration_ms=duration_ms,
                        cost=cost,
                    )
                )

    @property
    def _prices(self) -> MeteringSettings:
        return self.embedder.metering if isinstance(self.embedder, Served) else FREE

    def _reserve(self, most: Decimal, prices: MeteringSettings) -> date | None:
        if self.project_id is None:
            return None
        projects = [self.project_id]
        with self.database.transaction(projects=projects, settings=self.kept) as connection:
            spent = store.spent_now(connection, self.project_id)
            if spent is None:
                raise NotFound("the project was erased meanwhile", remedy="see `lastro projects`")
            budget = prices.budget_of(spent.project)
            month = store.reserve_spend(connection, self.project_id, most=most, budget=budget)
        if month is None:
            raise BudgetExceeded(
                f"the budget of the project {spent.project!r} for {spent.month} is {budget:f}; "
                f"{spent.spent:f} are spent, and the next call could cost {most:f}",
                remedy="set monthly_budget in [metering] higher, or wait for the next month; "
                "see `lastro usage`",
            )
        return month

    @contextmanager
    def transaction(self) -> Generator[AppConnection]:
        """A transaction that sees the project, in whose end what was counted is written.

        Where it is undone, all of that is still counted, and comes with the next one.
        """
        self._settle_doubt()
        with self.database.transaction(projects=self.projects, settings=self.kept) as connection:
            yield connection
            self._written = self._write(connection)
        self._forget()

    def _write(self, connection: AppConnection) -> _Written:
        has_written = bool(self._calls) and not self._is_left
        if has_written:
            _record(connection, self._account, self._calls)
        if self.project_id is not None:
            for month, difference in sorted(self._differences.items()):
                has_written = True
                store.settle_spend(connection, self.project_id, month=month, difference=difference)
        transaction = store.this_transaction(connection) if has_written else None
        return _Written(transaction, len(self._calls), dict(self._differences))

    def _forget(self) -> None:
        """Count what was written no more."""
        written, self._written = self._written, None
        if written is None:
            return
        calls, self._calls = self._calls[: written.calls], self._calls[written.calls :]
        if self._is_left and calls and self.later is not None:
            self.later.add(self._account, calls)
        for month, difference in written.differences.items():
            if self._differences[month] == difference:
                del self._differences[month]
            else:
                self._differences[month] -= difference

    def _settle_doubt(self) -> None:
        """Find out what became of a commit whose answer never came: nothing is written twice."""
        if self._written is not None and _was_kept(self.database, self._written.transaction):
            self._forget()
        self._written = None

    @property
    def _is_left(self) -> bool:
        """Whether calls are written by another, later."""
        return self.later is not None and not self._prices.has_price

    @property
    def _account(self) -> Account:
        return Account(self.project_id, self.embedder.id, self.version, self.role)

    def finish(self) -> None:
        """Record what nothing else was written with: calls that made no vector."""
        if self._calls or self._differences:
            with self.transaction():
                pass

    @property
    def projects(self) -> list[int]:
        """What a transaction must see."""
        return [] if self.project_id is None else [self.project_id]


def _cost(
    call: Call, texts: Sequence[str], *, prices: MeteringSettings, most: Decimal | None
) -> Decimal | None:
    """What a call cost: the most that it could where nobody counted, nothing where it was refused.

    None without a price.
    """
    if most is None:
        return None
    if call.is_free or not call.was_made:
        return Decimal(0)
    if call.tokens is None and prices.price_per_million_tokens:
        return most
    return prices.cost(characters=sum(map(len, texts)), tokens=call.tokens or 0)


@contextmanager
def identifying(embedder: Embedder, meter: ProjectMeter) -> Generator[None]:
    """Within it a server may be asked for its weights, for which some need a text."""
    if isinstance(embedder, Served):
        try:
            with embedder.metered(meter):
                yield
        finally:
            meter.finish()
    else:
        yield


@contextmanager
def metered(embedder: Embedder, texts: Sequence[str], meter: Meter) -> Generator[None]:
    """Within it ``embedder`` embeds ``texts``: a server's requests are counted one by one."""
    if isinstance(embedder, Served):
        with embedder.metered(meter):
            yield
    else:
        with meter(texts):
            yield
