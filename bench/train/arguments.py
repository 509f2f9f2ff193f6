"""Numbers of the command line, refused before anything is measured with them."""

import argparse
import dataclasses
import math


def size(default, least):
    """A field of a dataclass of sizes: a number like `default`, not below `least`."""
    return dataclasses.field(default=default, metadata={"least": least})


def number(kind, least):
    """A type for argparse: an int or a float, finite and not below `least`."""

    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            numbers = "whole numbers" if kind is int else "numbers"
            raise argparse.ArgumentTypeError(f"takes {numbers} from {least} on, not '{text}'")
        return value

    return parse


def of_field(field):
    """What add_argument takes for a field made by `size`."""
    least = field.metadata["least"]
    return {"type": number(field.type, least), "help": f"at least {least} (default: {field.default})"}
