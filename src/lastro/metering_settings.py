"""What embedding costs, and how much of it a project may have in a month. Pure."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from lastro.errors import InvalidInput

MILLION = 1_000_000
# Marks of the beginning and end that a model adds to each text.
_MARKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteringSettings:
    """Prices of the embedder that is set, where it is behind a server, and budgets by month.

    All in one currency, whichever that is. ``monthly_budgets`` are those of single projects, by
    name; ``monthly_budget`` is that of every other one.
    """

    price_per_million_tokens: float = 0.0
    price_per_million_characters: float = 0.0
    monthly_budget: float = math.inf
    monthly_budgets: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        for name in ("price_per_million_tokens", "price_per_million_characters"):
            price = getattr(self, name)
            if not (math.isfinite(price) and price >= 0):
                raise InvalidInput(f"{name} must be a number from 0, not {price!r}")
        if not isinstance(getattr(self, "monthly_budgets"), Mapping):  # noqa: B009 - untyped input
            raise InvalidInput("monthly_budgets must be a table of projects and numbers")
        budgets = {"monthly_budget": self.monthly_budget, **self.monthly_budgets}
        for name, budget in budgets.items():
            if type(budget) not in {int, float} or not budget >= 0:
                raise InvalidInput(f"the budget {name} must be a number from 0, not {budget!r}")

    @property
    def has_price(self) -> bool:
        """Whether a call costs anything."""
        return self.price_per_million_tokens > 0 or self.price_per_million_characters > 0

    def budget_of(self, project: str) -> Decimal:
        """What a project may spend in a month; infinite where nothing was set."""
        return Decimal(str(self.monthly_budgets.get(project, self.monthly_budget)))

    def cost(self, *, characters: int, tokens: int) -> Decimal:
        """What a call cost."""
        by_tokens = Decimal(str(self.price_per_million_tokens)) * tokens
        by_characters = Decimal(str(self.price_per_million_characters)) * characters
        return (by_tokens + by_characters) / MILLION

    def most(self, texts: Sequence[str]) -> Decimal:
        """What a call with ``texts`` costs at most."""
        characters = sum(map(len, texts))
        return self.cost(characters=characters, tokens=sum(map(most_tokens, texts)))


def most_tokens(text: str) -> int:
    """More tokens than any model makes of a text: each is a byte at least, as it stands or in the
    longest form that models normalise to.
    """
    forms = (text, unicodedata.normalize("NFKD", text))
    return _MARKS + max(len(form.encode("utf-8", "surrogatepass")) for form in forms)
