#!/usr/bin/env python3
"""Runs a command and checks that its standard output is JSON that follows a schema.

    schema_check.py SCHEMA [--status N] COMMAND...

Knows the part of JSON Schema that docs/schemas uses and refuses a schema that uses more, so that
nothing is believed to be checked that is not."""
import json
import re
import subprocess
import sys

NOTED = {"$schema", "$id", "title", "description", "$defs"}
CHECKED = {"type", "const", "enum", "properties", "required", "additionalProperties", "items",
           "minimum", "maximum", "pattern", "$ref", "oneOf", "minItems", "maxItems", "maxLength"}
TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int,
         "boolean": bool, "null": type(None)}


def is_type(value, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def check_object(value: dict, schema: dict, root: dict, path: str) -> list[str]:
    problems = [f"{path}: no {key}" for key in schema.get("required", []) if key not in value]
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key, member in value.items():
        if key in properties:
            problems += check(member, properties[key], root, f"{path}.{key}")
        elif others is False:
            problems.append(f"{path}: {key} is not in the schema")
        elif isinstance(others, dict):
            problems += check(member, others, root, f"{path}.{key}")
    return problems


def check_plain(value, schema: dict, path: str) -> list[str]:
    problems = []
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, t) for t in types):
        problems.append(f"{path}: {json.dumps(value)[:60]} is no {' or '.join(types)}")
    if "const" in schema and value != schema["const"]:
        problems.append(f"{path}: {value!r} is not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        problems.append(f"{path}: {value!r} is none of {schema['enum']}")
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        problems.append(f"{path}: {value!r} does not match {schema['pattern']}")
    if "maxLength" in schema and isinstance(value, str) and len(value) > schema["maxLength"]:
        problems.append(f"{path}: longer than {schema['maxLength']}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            problems.append(f"{path}: {value} is out of range")
    return problems


def check(value, schema: dict, root: dict, path: str = "$") -> list[str]:
    unknown = schema.keys() - NOTED - CHECKED
    if unknown:
        raise SystemExit(f"{path}: the schema uses {unknown}, which is not checked")
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return check(value, target, root, path)
    if "oneOf" in schema:
        fits = [not check(value, one, root, path) for one in schema["oneOf"]]
        return [] if sum(fits) == 1 else [f"{path}: fits {sum(fits)} of the alternatives"]
    problems = check_plain(value, schema, path)
    if isinstance(value, dict):
        problems += check_object(value, schema, root, path)
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            problems.append(f"{path}: too few")
        if len(value) > schema.get("maxItems", len(value)):
            problems.append(f"{path}: too many")
        for i, item in enumerate(value):
            problems += check(item, schema.get("items", {}), root, f"{path}[{i}]")
    return problems


def self_test() -> None:
    schema = {"type": "object", "additionalProperties": False, "required": ["a"],
              "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"$ref": "#/$defs/b"}},
              "$defs": {"b": {"type": ["array", "null"], "items": {"enum": ["x"]}}}}
    assert not check({"a": 1, "b": ["x"]}, schema, schema)
    for bad in ({}, {"a": 0}, {"a": True}, {"a": 1.5}, {"a": 1, "b": ["y"]}, {"a": 1, "c": 1}, []):
        assert check(bad, schema, schema), bad


def main() -> int:
    self_test()
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    command = sys.argv[2:]
    status = 0
    if command[0] == "--status":
        status, command = int(command[1]), command[2:]
    run = subprocess.run(command, capture_output=True, check=False)
    problems = [] if run.returncode == status else [
        f"exit status {run.returncode}, not {status}: {run.stderr.decode(errors='replace')[:400]}"]
    problems += check(json.loads(run.stdout.decode("utf-8")), schema, schema)
    print("\n".join(problems) if problems else f"{len(run.stdout)} bytes follow {sys.argv[1]}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
