"""Words without a topic that PostgreSQL's stop lists do not catch."""

from collections.abc import Mapping


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FOLDED: Mapping[str, frozenset[str]] = {
    "pt": _words(
        """ate e estao eramos estavamos estiveramos estivessemos foramos fossemos ha hao houveramos
        houverao houveriamos houvessemos ja nao sao sera serao seriamos so tambem tera terao
        teriamos tinhamos tiveramos tivessemos voce voces"""
    ),
    "es": _words(
        """eramos estabamos estais estan estara estaran estaras estare estareis estaria estariais
        estariamos estarian estarias esteis esten estes estuvieramos estuviesemos fueramos
        fuesemos habeis habia habiais habiamos habian habias habra habran habras habre habreis
        habria habriais habriamos habrian habrias hayais hubieramos hubiesemos mas mia mias mio
        mios seais sera seran seras sere sereis seria seriais seriamos serian serias si tambien
        tendra tendran tendras tendre tendreis tendria tendriais tendriamos tendrian tendrias
        teneis tengais tenia teniais teniamos tenian tenias tuvieramos tuviesemos"""
    ),
    "fr": _words(
        """a etaient etais etait etant etante etantes etants ete etee etees etes etiez etions
        eumes eutes fumes futes meme"""
    ),
    "it": _words("avra avro fara faro perche piu sara saro stara staro"),
    "de": _words("fur konnen konnte uber wahrend wurde wurden"),
}
"""By language, Snowball's accented stop words as typed without accents.

Source: the stop files of PostgreSQL 18, folded, less those that are stop words themselves; and
Portuguese `é`, which its file leaves out.
"""

CHINESE = _words(
    """的 了 是 在 有 和 与 或 及 吗 呢 吧 啊 嘛 么 什么 怎么 如何 为什么 怎样 怎么样 哪些
    哪个 哪里 哪 可以 能 能够 能否 是否 请问 我 你 他 她 它 我们 你们 他们 这 那 这个
    那个 这些 那些 会 要 对 被 把 从 到 将 不 没 没有 些 为何 多少 几 该 其 等 也 都 还
    就 而 且 但 但是 因为 所以 如果 则 之 于 以 为 所 很"""
)
"""Chinese particles, pronouns, auxiliaries and question words; PostgreSQL has no such list."""
