"""Class pages without the members that come from other libraries."""

from types import BuiltinFunctionType, MethodDescriptorType

from sphinx.application import Sphinx


def skip_foreign(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Skip a member that is defined outside the package, such as those of torch's modules."""
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    module = getattr(function, "__module__", None)
    foreign = module is not None and not str(module).startswith("recuse")
    return True if foreign or isinstance(member, BuiltinFunctionType | MethodDescriptorType) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the event."""
    app.connect("autodoc-skip-member", skip_foreign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
