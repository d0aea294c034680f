"""Answers of the service compared with its OpenAPI description."""

import re
from types import NoneType

from service_runs import TestClient

__all__ = ["DescribedClient", "described_path", "misfits", "resolved"]

_KINDS = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": NoneType, "integer": int,
    "number": (int, float),
}  # fmt: skip
_NOT_CHECKED = {"title", "description", "type", "oneOf", "maxItems", "minLength", "maxLength", "pattern"}
_KEYWORDS = {"properties", "required", "additionalProperties", "items", "enum", "const", "minimum", "minItems"}


class DescribedClient(TestClient):
    """A client that checks each answer of a described route against the description."""

    def send(self, request, **options):
        """Send a request, and raise an AssertionError if its answer is not as described."""
        answer = super().send(request, **options)
        described = self.app.openapi()
        path = described_path(described, request.url.path)
        operation = described["paths"].get(path, {}).get(request.method.lower())
        if operation is not None:
            _check(answer, operation, described)
        return answer


def described_path(described, path):
    """Return the path of the description that a request has, or None."""
    patterns = {each: re.sub(r"\{\w+\}", "[^/]+", each) for each in described["paths"]}
    return next((each for each, pattern in patterns.items() if re.fullmatch(pattern, path)), None)


def _check(answer, operation, described):
    """Raise an AssertionError if the status, type or content of an answer is not described."""
    place = f"{operation['operationId']} with {answer.status_code}"
    if answer.status_code == 500:
        return  # a failure of a test's own making
    assert str(answer.status_code) in operation["responses"], f"{place} is not described: {answer.text[:200]}"
    content = operation["responses"][str(answer.status_code)].get("content", {})
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if not content:
        assert answer.content == b"", f"{place} has content that is not described"
        return
    assert kind in content, f"{place} is {kind}, not {', '.join(content)}"
    if kind == "application/json":
        found = list(misfits(answer.json(), content[kind]["schema"], described))
        assert not found, f"{place}: {found[0]}"


def resolved(schema, described):
    """Return a schema, or the one that it refers to."""
    if "$ref" not in schema:
        return schema
    return described["components"]["schemas"][schema["$ref"].removeprefix("#/components/schemas/")]


def misfits(value, schema, described, place="$"):
    """Yield where a value is not as a schema says; fields that an object's schema does not name are misfits, too."""
    schema = resolved(schema, described)
    if "anyOf" in schema:
        found = [list(misfits(value, each, described, place)) for each in schema["anyOf"]]
        yield from min(found, key=len)
        return
    unknown = schema.keys() - _NOT_CHECKED - _KEYWORDS
    assert not unknown, f"the checks know no {unknown} in {schema}"
    if "type" in schema and (
        not isinstance(value, _KINDS[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean")
    ):
        yield f"{place} must be of type {schema['type']}, got {value!r:.80}"
    elif isinstance(value, dict):
        yield from _misfits_of_object(value, schema, described, place)
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{place} must have {schema['minItems']} items"
        for number, each in enumerate(value):
            yield from misfits(each, schema.get("items", {}), described, f"{place}[{number}]")
    elif value not in schema.get("enum", [value]) or value != schema.get("const", value):
        yield f"{place} must be one of {schema}, got {value!r:.80}"
    elif "minimum" in schema and value < schema["minimum"]:
        yield f"{place} must be at least {schema['minimum']}, got {value}"


def _misfits_of_object(value, schema, described, place):
    named, others = schema.get("properties", {}), schema.get("additionalProperties", not schema.get("properties"))
    for name in schema.get("required", []):
        if name not in value:
            yield f"{place} must have {name}"
    for name, each in value.items():
        if name in named or isinstance(others, dict):
            yield from misfits(each, named.get(name, others), described, f"{place}.{name}")
        elif others is False:
            yield f"{place} must not have {name}"
