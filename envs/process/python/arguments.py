"""Arguments of environments: what a configuration says, and what it stands for.

Part of the program that `child.py` begins.
"""

import os

# The texts that came from environment variables, each with the name of its variable.
SECRETS = {}
# A shorter one keeps nothing secret, and messages would become unreadable without it.
SECRET_LETTERS = 4


def arguments(kwargs):
    """The keyword arguments that a configuration stands for."""
    return {name: argument(value) for name, value in kwargs.items()}


def argument(value):
    """What a value stands for: files hold no secrets, JSON no number that is not finite, and TOML no null."""
    if isinstance(value, list):
        return [argument(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, given),) = value.items()
        if key == "env" and isinstance(given, str):
            return variable(given)
        if key == "none" and given is True:
            return None
        if key == "float" and given in ("inf", "-inf", "nan"):
            return float(given)
        if key == "literal" and isinstance(given, dict):
            value = given
    return arguments(value)


def variable(name):
    value = os.environ.get(name)
    if value is None:
        raise Refusal(
            f'the environment variable {name} is not set, and an argument is {{"env": "{name}"}}: set it, or write '
            f'{{"literal": {{"env": "{name}"}}}} for an object with the key `env`'
        )
    SECRETS[value] = name
    return value


def without_secrets(text):
    """The text with the name of its variable for each secret: errors of `gymnasium.make` quote all arguments."""
    for secret in sorted(SECRETS, key=len, reverse=True):
        if len(secret) >= SECRET_LETTERS:
            for written in (secret, repr(secret)[1:-1]):
                text = text.replace(written, f"${SECRETS[secret]}")
    return text


