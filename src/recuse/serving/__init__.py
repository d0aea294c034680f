"""A service over HTTP that decides with model files: FastAPI on uvicorn."""

from typing import TYPE_CHECKING

from recuse.lazy_names import lazy_names

if TYPE_CHECKING:
    from recuse.serving.app import create_app
    from recuse.serving.model_store import LoadedModel, ModelStore
    from recuse.serving.settings import Settings
else:  # FastAPI is an extra
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "LoadedModel": "recuse.serving.model_store",
            "ModelStore": "recuse.serving.model_store",
            "Settings": "recuse.serving.settings",
            "create_app": "recuse.serving.app",
        },
    )

__all__ = ["LoadedModel", "ModelStore", "Settings", "create_app"]
