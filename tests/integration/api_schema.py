# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether values are as an OpenAPI 3.0 schema says: the keywords that stakeoutd --api-schema uses, and no others."""

KNOWN = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "nullable", "minimum", "maximum",
    "exclusiveMinimum", "oneOf", "$ref", "description", "default", "format",
}  # fmt: skip

TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}


def resolve(document, schema):
    while "$ref" in schema:
        assert schema["$ref"].startswith("#/"), schema
        value = document
        for word in schema["$ref"][2:].split("/"):
            value = value[word]
        schema = value
    return schema


def _object_errors(document, schema, value, where):
    errors = [f"{where}: {name} is missing" for name in schema.get("required", ()) if name not in value]
    properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in properties:
            errors += errors_of(document, properties[name], item, f"{where}.{name}")
        elif more is False:
            errors.append(f"{where}: {name} is not in the schema")
        elif isinstance(more, dict):
            errors += errors_of(document, more, item, f"{where}.{name}")
    return errors


def _number_errors(schema, value, where):
    errors = []
    low = schema.get("minimum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        errors.append(f"{where}: {value} is below {low}")
    if "maximum" in schema and value > schema["maximum"]:
        errors.append(f"{where}: {value} is above {schema['maximum']}")
    return errors


def errors_of(document, schema, value, where="answer"):
    """What is wrong with a value, as lines."""
    schema = resolve(document, schema)
    assert set(schema) <= KNOWN, f"{where}: keywords that are not known here: {set(schema) - KNOWN}"
    if value is None:
        return [] if schema.get("nullable") or not schema else [f"{where} is null"]
    if "oneOf" in schema:
        n = sum(not errors_of(document, one, value, where) for one in schema["oneOf"])
        return [] if n == 1 else [f"{where} is as {n} of the alternatives say, not one: {value!r}"]
    if "type" in schema and not TYPES[schema["type"]](value):
        return [f"{where} is {value!r}, not of type {schema['type']}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{where} is {value!r}, not one of {schema['enum']}"]
    if isinstance(value, dict):
        return _object_errors(document, schema, value, where)
    if isinstance(value, list) and "items" in schema:
        return [line for i, item in enumerate(value) for line in errors_of(document, schema["items"], item, f"{where}[{i}]")]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number_errors(schema, value, where)
    return []
