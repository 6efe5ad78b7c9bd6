"""Anchors of headings, as GitHub makes them."""

import regex

# What GitHub drops from a heading: other numbers, punctuation, symbols, separators, control,
# format, private and unassigned characters; letters, marks, digits, `_`, `-` and the plain space
# stay. Source: github-slugger, script/generate-regex.
_DROPPED = regex.compile(
    r"(?V1)[[\p{No}\p{P}\p{S}\p{Z}\p{Cc}\p{Cf}\p{Co}\p{Cn}]--[\p{Pc}\p{Alphabetic}\- ]]"
)


def github_slug(text: str) -> str:
    """Anchor of a heading with this rendered text, before repetitions are told apart."""
    return _DROPPED.sub("", text.lower()).replace(" ", "-")


class AnchorCounter:
    """Anchors of one file's headings, taken in order, so that a repeated one gets its number."""

    def __init__(self) -> None:
        self._repeats: dict[str, int] = {}

    def take(self, heading_text: str) -> str:
        """Anchor of the next heading; never the same twice.

        Source: github-slugger: the number counts up per original slug and skips what is taken.
        """
        slug = anchor = github_slug(heading_text)
        while anchor in self._repeats:
            self._repeats[slug] += 1
            anchor = f"{slug}-{self._repeats[slug]}"
        self._repeats[anchor] = 0
        return anchor
