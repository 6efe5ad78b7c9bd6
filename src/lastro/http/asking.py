"""Who asks: what the gate found out about the key of a request."""

from starlette.requests import Request

from lastro.keys import Principal
from lastro.roles import Action, permits

# In place of words that may name folders and addresses.
UNTOLD = "a maintainer is told more"
# In place of the words of an error.
UNTOLD_FAULT = {
    "message": "the service cannot answer this now",
    "remedy": "send the request again later; its log says more, under the id of the request",
}


def principal_of(request: Request) -> Principal | None:
    """Who a request's key speaks for; None where everyone is let in."""
    return getattr(request.state, "principal", None)


def showed_key(request: Request) -> bool:
    """Whether the request showed a key that holds, or everyone is let in."""
    return principal_of(request) is not None or getattr(request.state, "is_open", False)


def may(request: Request, action: Action) -> bool:
    """Whether the request's key may do ``action`` too, or everyone may."""
    principal = principal_of(request)
    return request.state.is_open if principal is None else permits(principal.role, action)
