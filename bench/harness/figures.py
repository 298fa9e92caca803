"""Medians, bootstrap intervals, and ratios paired by round. Rows of a record in, figures out.

The bootstrap draws with a fixed generator, so the same rows give the same interval everywhere.
"""
DRAWS = 2000
# Both ends of 95 % and of 99 % among the sorted medians of the draws.
PERCENT_95, PERCENT_99 = (50, 1949), (10, 1989)
# Knuth's linear congruential generator modulo 2^64; its upper bits choose.
FACTOR, STEP, WORD = 6364136223846793005, 1442695040888963407, (1 << 64) - 1


def median(values):
    values, half = sorted(values), len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


class Figure(tuple):
    """Value, low, high; and of how many values."""
    count = 0


def interval(values, of=median, ends=PERCENT_95):
    """The figure of these values with its bootstrap interval, 95 % by default."""
    values, state, drawn = list(values), 1, []
    for _ in range(DRAWS):
        sample = []
        for _ in values:
            state = (state * FACTOR + STEP) & WORD
            sample.append(values[(state >> 33) % len(values)])
        drawn.append(of(sample))
    drawn.sort()
    found = Figure((of(values), drawn[ends[0]], drawn[ends[1]]))
    found.count = len(values)
    return found


def text(figure, digits=3):
    """A figure with its interval; "-" if there is none."""
    return "{0:.{3}f} [{1:.{3}f} {2:.{3}f}]".format(*figure, digits) if figure else "-"


class Arms:
    """The rows of one measurement, by arm and round."""

    def __init__(self, rows):
        self.rows = rows
        self.names = list(dict.fromkeys(row["arm"] for row in rows))

    def __contains__(self, arm):
        return arm in self.names

    def rounds(self, arm, get):
        """Round -> value."""
        return {int(row["round"]): get(row) for row in self.rows if row["arm"] == arm}

    def values(self, arm, get):
        return list(self.rounds(arm, get).values())

    def median(self, arm, get):
        return median(self.values(arm, get))

    def ratio(self, top, bottom, get, ends=PERCENT_95):
        """Median over rounds of top / bottom with its interval; None without a round that has both."""
        above, below = self.rounds(top, get), self.rounds(bottom, get)
        ratios = [above[number] / below[number] for number in sorted(above.keys() & below.keys()) if below[number]]
        return interval(ratios, ends=ends) if ratios else None


def wall_s(row):
    return float(row["wall_s"])


def cpu_s(row):
    return float(row["user_s"]) + float(row["sys_s"])


def faults(row):
    return int(row["minflt"])


def peak_mib(row):
    return int(row["maxrss_kib"]) / 1024
