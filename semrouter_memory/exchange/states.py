"""The state machine as one table: state -> event -> state. What is missing cannot happen in a healthy stream.

    IDLE --headers--> REQUEST --body, end--> RECALLING --recalled--> RESPONSE --headers--> ANSWER --end--> DONE
                         |                                              |                     |
                         +--------------------- not ours -------------->+------> BYPASS <-----+

A filter that only handles the request goes from RECALLING to DONE. BYPASS answers everything with "continue".
"""

from enum import StrEnum


class State(StrEnum):
    IDLE = "idle"
    REQUEST = "request"
    """Headers accepted, the body is expected or being collected."""
    RECALLING = "recalling"
    RESPONSE = "response"
    """The request is answered, response headers are expected."""
    ANSWER = "answer"
    """A successful answer is being read."""
    BYPASS = "bypass"
    DONE = "done"


class StateTrigger(StrEnum):
    """What moves the state: an event's kind or a decision taken on it."""

    ACCEPT = "accept"
    """Request headers that are ours."""
    CHUNK = "chunk"
    BODY_COMPLETE = "body_complete"
    RECALLED = "recalled"
    DETACHED = "detached"
    """Recalled, and this filter does not handle the response."""
    ANSWERED = "answered"
    """Response headers of a successful answer in a form we read."""
    END = "end"
    REFUSE = "refuse"
    """The exchange passes without memory; the exchange holds the reason."""


TRANSITIONS: dict[State, dict[StateTrigger, State]] = {
    State.IDLE: {StateTrigger.ACCEPT: State.REQUEST, StateTrigger.REFUSE: State.BYPASS},
    State.REQUEST: {
        StateTrigger.CHUNK: State.REQUEST,
        StateTrigger.BODY_COMPLETE: State.RECALLING,
        StateTrigger.REFUSE: State.BYPASS,
    },
    State.RECALLING: {
        StateTrigger.RECALLED: State.RESPONSE,
        StateTrigger.DETACHED: State.DONE,
        StateTrigger.REFUSE: State.BYPASS,
    },
    State.RESPONSE: {StateTrigger.ANSWERED: State.ANSWER, StateTrigger.REFUSE: State.BYPASS},
    State.ANSWER: {StateTrigger.CHUNK: State.ANSWER, StateTrigger.END: State.DONE, StateTrigger.REFUSE: State.BYPASS},
    State.BYPASS: {StateTrigger.REFUSE: State.BYPASS},
    State.DONE: {StateTrigger.REFUSE: State.DONE},
}


def follow(state: State, trigger: StateTrigger) -> State:
    """The next state.

    Raises:
        RuntimeError: the table has no such arrow: Envoy's messages came in an impossible order.
    """
    try:
        return TRANSITIONS[state][trigger]
    except KeyError:
        raise RuntimeError(f"{trigger} is not possible in state {state}") from None
