"""What a long command does, on standard error: a line that renews itself on a terminal, else a line every ten seconds."""

import sys
import threading
import time

EVERY_S = 10


class Progress:
    """`with Progress() as progress: progress.now("reading footers")`."""

    def __init__(self, out=sys.stderr):
        self.out, self.is_terminal = out, out.isatty()
        self.text, self.begin, self.ended = "", time.monotonic(), threading.Event()
        self.thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        if self.is_terminal:
            self.out.write("\r\x1b[K")
            self.out.flush()

    def now(self, text):
        """Says what is done from now on."""
        self.text = text
        if self.is_terminal:
            self._write()

    def _tell(self):
        while not self.ended.wait(1 if self.is_terminal else EVERY_S):
            self._write()

    def _write(self):
        line = f"faultless-fleet: {self.text}, {time.monotonic() - self.begin:.0f} s"
        self.out.write(f"\r{line}\x1b[K" if self.is_terminal else f"{line}\n")
        self.out.flush()
