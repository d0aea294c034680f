"""The decision as one safe file: an ONNX graph, its header and tables."""

from typing import TYPE_CHECKING

from recuse.lazy_names import lazy_names
from recuse.model_file.errors import ConversionError, ModelFileError

if TYPE_CHECKING:
    from recuse.model_file.graph.conversion import converts
    from recuse.model_file.saving import add_certificate, save
    from recuse.model_file.served import ServedModel, load
else:  # saving needs torch and scikit-learn, loading does not
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "add_certificate": "recuse.model_file.saving",
            "ServedModel": "recuse.model_file.served",
            "converts": "recuse.model_file.graph.conversion",
            "load": "recuse.model_file.served",
            "save": "recuse.model_file.saving",
        },
    )

__all__ = ["ConversionError", "ModelFileError", "ServedModel", "add_certificate", "converts", "load", "save"]
