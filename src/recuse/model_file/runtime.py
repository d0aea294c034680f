"""ONNX Runtime, imported without its telemetry.

The official builds of ONNX Runtime for Linux and macOS open a database of events in the home folder when they are
imported, and send its content to their vendor. Only the environment of the process turns this off, and only before the
import. So this module sets the variable ORT_DISABLE_TELEMETRY of the process to 1, and it is the only one that imports
ONNX Runtime. Other values are replaced: the runtime takes an empty one, 0 and false for consent, and the promise that
no data leaves the process should not depend on an inherited variable.
"""

from __future__ import annotations

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime as onnxruntime
