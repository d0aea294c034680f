"""Conversion of PyTorch modules, from the layers and functions that torch.fx finds in them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._python_dispatch import TorchDispatchMode

from recuse.deep.two_heads import COST_FLOOR, TwoHeads
from recuse.engine.user_modules import LoopedModules
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value, concat
from recuse.model_file.graph.operators import DOUBLE
from recuse.model_file.graph.torch_modules import layers, tensor_functions

__all__ = ["convert_module", "convert_two_heads", "stacked_modules"]

# One module is traced at a time, since torch.fx replaces methods of all modules meanwhile.
_TRACING = threading.Lock()


def convert_module(module: nn.Module, x: Value) -> Value | tuple[Value, ...]:
    """Convert a module in evaluation mode, which must treat each row alone.

    Parameters
    ----------
    module : nn.Module
        It may use these layers: Linear, Conv2d, BatchNorm1d, BatchNorm2d, LayerNorm, GroupNorm, MaxPool2d, AvgPool2d,
        AdaptiveAvgPool2d, Flatten, Dropout, Identity, Sequential, ReLU, Tanh, Sigmoid, Softplus, SiLU, GELU, ELU,
        LeakyReLU and Softmax; and the functions and methods of tensors in `tensor_functions`. It is not changed.
    x : Value of shape (row, ...)
        Its type, double or float, is that of all numbers of the module. Convolutions need float.

    Returns
    -------
    Value, or tuple of Value if the module returns a tuple

    Raises
    ------
    ConversionError
        If the module has a part that cannot be converted.

    Examples
    --------
    >>> from recuse.model_file.graph.builder import GraphBuilder
    >>> x = GraphBuilder().input("x", "double", (-1, 3))
    >>> convert_module(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)), x).shape
    (-1, 1)
    """
    if type(module) is TwoHeads:
        return convert_two_heads(module, x)
    still = copy.deepcopy(module).eval()
    with torch.no_grad(), _NoRandomNumbers(type(module).__name__):
        root, graph = _trace(still)
        return _Conversion(root, graph, x, type(module).__name__).result()


def convert_two_heads(network: TwoHeads, x: Value, cost: Value | None = None) -> tuple[Value, Value]:
    """Convert a network with two heads.

    Parameters
    ----------
    network : TwoHeads
    x : Value of shape (row, ...)
        Input of the backbone.
    cost : Value of shape (row,), optional
        Costs of the rows in the type of `x`; required if the cost is an input of the network.

    Returns
    -------
    prediction, score : Value of shape (row,)
    """
    features = _features(network, network.backbone, x)
    own = features if network.rejector_backbone is None else _features(network, network.rejector_backbone, x)
    if network.cost_input:
        if cost is None:
            raise ConversionError("TwoHeads with cost_input=True needs the cost of each row as an input of the graph")
        own = concat([own, (cost.unsqueeze(1) + COST_FLOOR).unary("Log")], axis=1)
    prediction, score = _one(network.regressor_head, features), _one(network.rejector_head, own)
    return prediction.squeeze(1), score.squeeze(1)


def stacked_modules(stack: LoopedModules, x: Value) -> Value:
    """Convert a stack of user-defined modules.

    Parameters
    ----------
    stack : LoopedModules
    x : Value of shape (row, feature)

    Returns
    -------
    Value of shape (member, row, output)
    """
    members = [_one(module, x) for module in stack.modules]
    for module, member in zip(stack.modules, members, strict=True):
        if member.shape not in ((-1, stack.outputs), *([(-1,), (-1, 1, 1)] if stack.outputs == 1 else [])):
            raise ConversionError(
                f"{type(module).__name__} must give {stack.outputs} outputs per row, got shape {member.shape}"
            )
    return concat([member.reshape(-1, stack.outputs).unsqueeze(0) for member in members], axis=0)


def _features(network: TwoHeads, backbone: nn.Module, x: Value) -> Value:
    """Return the features (row, feature) of a backbone."""
    features = _one(backbone, x)
    flat = tensor_functions.flatten(features, 1) if len(features.shape) > 1 else features.unsqueeze(1)
    if flat.shape[1] != network.features:
        raise ConversionError(
            f"{type(backbone).__name__} must return {network.features} features for each row, got {flat.shape[1]}"
        )
    return flat


def _one(module: nn.Module, x: Value) -> Value:
    """Convert a module with one output."""
    result = convert_module(module, x)
    if not isinstance(result, Value):
        raise ConversionError(f"{type(module).__name__} must return one tensor, got a tuple of {len(result)}")
    return result


class _NoRandomNumbers(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses random numbers, which would become constants of the graph."""

    def __init__(self, name: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._name = name

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()):
            raise ConversionError(f"{self._name} cannot be saved in a model file: it draws random numbers with {func}")
        return func(*args, **(kwargs or {}))


class _Tracer(fx.Tracer):
    """A tracer that does not disturb the modules that other threads run at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Trace a call of this thread only."""
        if threading.get_ident() != self._thread:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)


def _trace(module: nn.Module) -> tuple[nn.Module, fx.Graph]:
    """Return a root module and the graph of its calls, which refers to the parts of the root."""
    name = type(module).__name__
    for part in module.modules():
        if part._forward_hooks or part._forward_pre_hooks:
            raise ConversionError(f"{name} cannot be saved in a model file: {type(part).__name__} has forward hooks")
    root = nn.Sequential(module)  # a module that is a layer itself becomes a node of the graph
    try:
        with _TRACING:
            return root, _Tracer().trace(root)
    except ConversionError:
        raise
    except Exception as error:  # the code of the module may raise anything
        raise ConversionError(
            f"{name} cannot be saved in a model file, since torch.fx cannot trace it ({error}). Build it from the "
            "layers listed in the documentation of recuse.save, without control flow that depends on the data"
        ) from error


class _Conversion:
    """Conversion of a traced graph, node by node."""

    def __init__(self, root: nn.Module, graph: fx.Graph, x: Value, name: str) -> None:
        self._root, self._nodes, self._x, self._name = root, list(graph.nodes), x, name
        self._known: dict[fx.Node, Any] = {}
        self._memory: dict[fx.Node, fx.Node] = {}  # the node that first had the memory of another node
        self._joined: set[fx.Node] = set()  # batch normalisations that are a part of their convolutions

    def result(self) -> Value | tuple[Value, ...]:
        """Return what the module returns."""
        for place, node in enumerate(self._nodes):
            try:
                self._known[node] = self._convert(node)
                self._note_memory(node, place)
            except ConversionError:
                raise
            except Exception as error:  # rules of operators, and torch on constants, raise several kinds
                raise ConversionError(
                    f"{self._describe(node)} in {self._name} cannot be saved in a model file: {error}"
                ) from error
        result = self._known[self._nodes[-1]]
        if isinstance(result, Value) or (isinstance(result, tuple) and all(isinstance(each, Value) for each in result)):
            return result
        raise ConversionError(f"{self._name} must return a tensor or a tuple of tensors that depend on its input")

    def _convert(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return self._x
        if node.op == "get_attr":
            return self._constant(str(node.target))
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._known.__getitem__)
        if node.op == "output":
            return args[0]
        if node.op == "call_module":
            return self._layer(node, *args, **kwargs)
        if not _has_value([*args, *kwargs.values()]):
            return _call(node, args, kwargs)
        return self._handler(node)(*args, **kwargs)

    def _constant(self, path: str) -> Any:
        value: Any = self._root
        for name in path.split("."):
            value = getattr(value, name)
        if not isinstance(value, Tensor):
            return value
        value = value.detach().cpu().clone()
        return (
            value.to(torch.float64 if self._x.dtype == DOUBLE else torch.float32)
            if value.is_floating_point()
            else value
        )

    def _layer(self, node: fx.Node, x: Any, *more: Any, **options: Any) -> Value:
        layer = self._root.get_submodule(str(node.target))
        if type(layer) not in layers.LAYERS or more or options:
            raise ValueError("there is no conversion of this layer")
        if not isinstance(x, Value):
            raise ValueError("its input does not depend on the rows")
        if node in self._joined:
            return x
        norm = self._norm_after(node, layer)
        if norm is not None:
            self._joined.add(norm)
            return layers.convolution(layer, x, self._root.get_submodule(str(norm.target)))  # type: ignore[arg-type]
        return layers.LAYERS[type(layer)](layer, x)

    def _norm_after(self, node: fx.Node, layer: nn.Module) -> fx.Node | None:
        """Return the batch normalisation that alone uses the result of a convolution."""
        users = list(node.users)
        if len(users) != 1 or users[0].op != "call_module":
            return None
        return users[0] if layers.can_join(layer, self._root.get_submodule(str(users[0].target))) else None

    def _handler(self, node: fx.Node) -> Callable[..., Any]:
        if node.op == "call_method":
            found = tensor_functions.METHODS.get(_method(node))
        else:
            found = tensor_functions.FUNCTIONS.get(node.target)
        if found is None:
            raise ValueError("there is no conversion of this function")
        return found

    def _note_memory(self, node: fx.Node, place: int) -> None:
        """Note which nodes share memory; fail if a tensor changes in place and its old value seems needed later."""
        source = node.args[0] if node.args and isinstance(node.args[0], fx.Node) else None
        in_place = self._works_in_place(node)
        if source is None or not (in_place or self._is_alias(node)):
            return
        first = self._memory.get(source, source)
        if in_place:
            later = set(self._nodes[place + 1 :])
            same = [each for each in self._nodes[:place] if self._memory.get(each, each) is first]
            if any(later & set(each.users) for each in same):
                raise ValueError("it changes a tensor in place that is used again; remove inplace=True")
        self._memory[node] = first

    def _works_in_place(self, node: fx.Node) -> bool:
        if node.op == "call_module":
            return bool(getattr(self._root.get_submodule(str(node.target)), "inplace", False))
        if node.op == "call_method":
            return str(node.target) != _method(node)
        is_operator = getattr(node.target, "__module__", None) == "_operator" and _target_name(node).startswith("i")
        return node.op == "call_function" and (is_operator or bool(node.kwargs.get("inplace", False)))

    def _is_alias(self, node: fx.Node) -> bool:
        if node.op == "call_module":
            return isinstance(self._root.get_submodule(str(node.target)), layers.ALIASES)
        return node.op.startswith("call") and _target_name(node) in tensor_functions.ALIASES

    def _describe(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return type(self._root.get_submodule(str(node.target))).__name__
        return f"Tensor.{node.target}" if node.op == "call_method" else _target_name(node)


def _call(node: fx.Node, args: Any, kwargs: Any) -> Any:
    """Call the function of a node on constants and sizes."""
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    function: Any = node.target
    return function(*args, **kwargs)


def _method(node: fx.Node) -> str:
    """Return the name of a method without the underscore of the variant that works in place."""
    name = str(node.target)
    return name.removesuffix("_") if not name.startswith("_") else name


def _target_name(node: fx.Node) -> str:
    return _method(node) if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def _has_value(args: Sequence[Any]) -> bool:
    return any(isinstance(each, Value) or (isinstance(each, tuple | list) and _has_value(each)) for each in args)
