import os
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, TypedDict, Union, final
from pathlib import Path

from faultless.search import Match

_Path = Union[str, "os.PathLike[str]"]
_Progress = Callable[[int, int], object]

THRESHOLD_BYTES: int

def exchange_handler(capsule: Any) -> Any: ...
def pool_handler() -> Any: ...
def prewarm(bytes: int) -> int: ...
def replace_default_handler() -> None: ...
def stats() -> Dict[str, int]: ...
def stats_text(format: str = "text") -> str: ...

class _Update(TypedDict):
    files: int
    read: int
    removed: int
    text_bytes: int
    written_bytes: int
    trouble: "list[str]"

@final
class Matches(Iterator[Match]):
    def __iter__(self) -> "Matches": ...
    def __next__(self) -> Match: ...
    def cancel(self) -> None: ...

@final
class Index:
    def __new__(cls, path: _Path) -> "Index": ...
    @staticmethod
    def build(
        root: _Path,
        *,
        hidden: bool = False,
        no_ignore: bool = False,
        globs: Sequence[str] = (),
        progress: Optional[_Progress] = None,
    ) -> "Index": ...
    def update(self, progress: Optional[_Progress] = None) -> _Update: ...
    @property
    def root(self) -> Path: ...
    def search(
        self,
        pattern: str,
        *,
        ignore_case: bool = False,
        smart_case: bool = False,
        fixed_strings: bool = False,
        word: bool = False,
        multi_line: bool = False,
        globs: Sequence[str] = (),
        limit: Optional[int] = None,
        threads: Optional[int] = None,
        fresh: bool = False,
        sorted: bool = False,
    ) -> Matches: ...
