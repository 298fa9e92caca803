"""Limits: an interval wholly within one holds, one wholly beyond fails, and any other cannot say; nor can few values."""
HOLDS, FAILS, CANNOT_SAY = "holds", "fails", "cannot say"
# From least to most, five values hold their median in 94 % of all cases, four in 88 %.
FEWEST = 5


def judge(low, high, least=float("-inf"), most=float("inf")):
    """The answer for an interval and the range it must lie in."""
    if least <= low and high <= most:
        return HOLDS
    if high < least or low > most:
        return FAILS
    return CANNOT_SAY


class Limits:
    """Limits of one record: judged one by one, printed together."""

    def __init__(self):
        self.lines, self.answers = [], []

    def at_most(self, what, figure, limit):
        """`figure` is what figures.interval returns, or None if it was not measured."""
        self.add(what, figure, f"at most {limit:.3g}", most=limit)

    def at_least(self, what, figure, limit):
        self.add(what, figure, f"at least {limit:.3g}", least=limit)

    def add(self, what, figure, wanted, **ends):
        if figure is None:
            return
        value, low, high = figure
        self.answers.append(judge(low, high, **ends) if figure.count >= FEWEST else CANNOT_SAY)
        self.lines.append(f"  {self.answers[-1]:10}  {what}: {value:.3f} [{low:.3f} {high:.3f}], limit: {wanted}")

    def print(self):
        print("\nlimits")
        for line in sorted(self.lines):
            print(line)
        counts = [f"{self.answers.count(answer)} {answer}" for answer in (HOLDS, FAILS, CANNOT_SAY)]
        print(f"{', '.join(counts)}, of {len(self.answers)}")
