"""What calls of this package raise."""


class Error(Exception):
    """A call failed. `status` is libsketchc's (include/sketchc.h), the text says what and where."""

    def __init__(self, text, status=5):
        super().__init__(text)
        self.status = status


class CompileError(Error):
    """A sketch or an operator was refused. `str(error)` shows each diagnostic with its line and a caret; `diagnostics` lists
    them as dicts of docs/schemas/diagnostics.schema.json (code, severity, message, location, notes, fix)."""

    def __init__(self, text, status, diagnostics):
        super().__init__(text, status)
        self.diagnostics = diagnostics


class InputError(Error, ValueError):
    """An argument of a kernel does not fit: number, device, dtype, shape, strides, alignment, or tensors that overlap."""


class VerifyError(Error):
    """A kernel's results differ from its operator. `report` is the whole report (docs/schemas/verify_report.schema.json)."""

    def __init__(self, text, status, report):
        super().__init__(text, status)
        self.report = report
