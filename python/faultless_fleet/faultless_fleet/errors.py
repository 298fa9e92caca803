"""What goes wrong. `Problem` ends the program; `Unanswered` is one question that an engine could not answer."""


class Problem(Exception):
    """One line for the user: what is wrong, where, and the remedy."""


class Unanswered(Exception):
    """An engine failed while it read or computed. The text is the engine's first line."""


def first_line(error):
    """The first line of an exception's text, or the exception's name if there is none."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
