import os
from typing import Any, Mapping, Sequence, Union

from .errors import CompileError as CompileError
from .errors import Error as Error
from .errors import InputError as InputError
from .errors import VerifyError as VerifyError

_Source = Union[str, "os.PathLike[str]", bytes]
_Sizes = Union[Mapping[str, int], Sequence[Mapping[str, int]]]
_Values = Mapping[str, Union[int, float, bool, str]]

class Tensor:
    position: int
    name: str
    operator_name: str
    dtype: str
    direction: str
    extents: list[str]
    strides: list[str] | None

class Launch:
    """A kernel bound to tensors. `launch()` runs it on them again."""

    outputs: list[Any]
    def __call__(self, stream: int | None = None) -> None: ...

class Kernel:
    """A compiled operator: called with its input tensors, returns its results (one alone, several as a tuple, none as None)."""

    name: str
    target: str
    arch: str
    device: int
    source: str | None
    artifact: bytes
    tensors: list[Tensor]
    inputs: list[Tensor]
    outputs: list[Tensor]
    symbols: dict[str, str]
    scalars: dict[str, float | None]
    def __init__(self, data: bytes, device: int = 0, strided: str = "error", source: str | None = None) -> None: ...
    def __call__(self, *tensors: Any, out: Any = None, stream: int | None = None, **named: Any) -> Any: ...
    def prepare(self, *tensors: Any, out: Any = None, **named: Any) -> Launch: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...

class Report(dict[str, Any]):
    @property
    def passed(self) -> bool: ...

def compile(
    text_or_path: _Source,
    *,
    target: str | None = None,
    arch: str | None = None,
    sizes: _Sizes | None = None,
    defines: _Values | None = None,
    sketch: str | None = None,
    design: str | None = None,
    deterministic: bool = False,
    check: bool = False,
    device: int = 0,
    strided: str = "error",
    cache: bool = True,
) -> Kernel: ...
def verify(
    subject: Kernel | _Source,
    *,
    sizes: _Sizes | None = None,
    case: str | None = None,
    seed: int = 0,
    ragged: bool = True,
    device: int = 0,
    values: _Values | None = None,
    **options: Any,
) -> Report: ...
def bench(
    subject: Kernel | _Source,
    *,
    sizes: _Sizes | None = None,
    case: str | None = None,
    samples: int = 0,
    device: int = 0,
    values: _Values | None = None,
    **options: Any,
) -> Report: ...
def explain(subject: Any, *arguments: Any, **options: Any) -> Any: ...
def version() -> str: ...
