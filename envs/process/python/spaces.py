"""Spaces: how values of theirs are stored in the shared memory.

Part of the program that `child.py` begins.
"""

import collections.abc
import functools
import math
import operator

# How values of a space are stored: what the hello says of it, how many numbers a value has, their dtype, and what turns
# a row of the memory into a function that writes an observation there, or reads an action from there.
Stored = collections.namedtuple("Stored", "described length dtype bind")

# A space without others in it: how messages name it, the way to its value in a whole one, and itself.
Leaf = collections.namedtuple("Leaf", "where keys space")


class Agent:
    """What the hello says of an agent. Its sections of the memory become further attributes."""

    def __init__(self, name, observation_space, action_space, has_mask, channels_first=False):
        self.name = name
        self.observation = stored_observation(observation_space, channels_first)
        self.action = stored_action(action_space)
        if has_mask and self.action.dtype != "u4":
            raise Refusal("actions are numbers, but only choices have an action mask: switch `action_mask` off")
        leaves = leaves_of(action_space, "action")
        self.choices = sum(observed_len(leaf.space) for leaf in leaves) if has_mask else None

    def described(self):
        spaces_of_it = {"observation": self.observation.described, "action": self.action.described}
        return {"name": self.name, **spaces_of_it, "action_mask": self.choices is not None}


def leaves_of(space, where, keys=()):
    """The spaces that a space consists of, in the order of `gymnasium.spaces.utils.flatten`."""
    if not isinstance(space, (spaces.Tuple, spaces.Dict)):
        return [checked(Leaf(where, keys, space))]
    named = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    leaves = [leaf for key, part in named for leaf in leaves_of(part, f"{where}[{key!r}]", (*keys, key))]
    if not leaves:
        raise Refusal(f"{where} is {shortened(space)}, which holds nothing: leave it out with a wrapper")
    return leaves


def checked(leaf):
    where, _, space = leaf
    is_box = isinstance(space, spaces.Box)
    is_choice = isinstance(space, (spaces.Discrete, spaces.MultiDiscrete))
    if not (is_choice or is_box and space.dtype in ("u1", "f4", "f8")):
        wrappers = "TransformAction" if where.startswith("action") else "DtypeObservation or TransformObservation"
        raise Refusal(
            f"{where} is {shortened(space)}, but it has to be Discrete, MultiDiscrete, a Box of uint8, float32 or "
            f"float64, or a Tuple or Dict of these: turn it into one with a wrapper, such as {wrappers} of "
            "gymnasium.wrappers"
        )
    if 0 in space.shape:
        raise Refusal(f"{where} is {shortened(space)}, which holds no number: leave it out with a wrapper")
    if is_box and (np.isnan(space.low).any() or np.isnan(space.high).any()):
        raise Refusal(f"{where} is {shortened(space)}, which has NaN as a bound: put a number or an infinity there")
    return leaf


def shortened(space):
    text = " ".join(str(space).split())
    return text if len(text) <= 100 else f"{text[:100]}…"


def choices_of(space):
    """How many things each choice is among, and the number of the first of them."""
    if isinstance(space, spaces.Discrete):
        return np.array([space.n], "i8"), np.array([space.start], "i8")
    return space.nvec.ravel().astype("i8"), space.start.ravel().astype("i8")


def observed_len(space):
    """One number for each thing that can be chosen."""
    return math.prod(space.shape) if isinstance(space, spaces.Box) else int(choices_of(space)[0].sum())


def acted_len(space):
    """One number for each choice."""
    if isinstance(space, (spaces.Tuple, spaces.Dict)):
        return sum(map(acted_len, parts_of(space)))
    return math.prod(space.shape)


def parts_of(space):
    return list(space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)


def split(row, sizes):
    return np.split(row, np.cumsum(sizes)[:-1])


def described_choices(leaves):
    nvec = [int(n) for leaf in leaves for n in choices_of(leaf.space)[0]]
    is_one = len(leaves) == 1 and isinstance(leaves[0].space, spaces.Discrete)
    return {"discrete": {"n": nvec[0]}} if is_one else {"multi_discrete": {"nvec": nvec}}


def described_box(shape, dtype, bounds):
    def as_json(side):
        return [number if math.isfinite(number) else str(number) for number in np.concatenate(side).tolist()]

    low, high = map(as_json, zip(*bounds))
    return {"box": {"low": low, "high": high, "shape": list(shape), "dtype": dtype}}


def is_channels_last(space):
    """Whether it has images of bytes with their channels last: then the two axes before are too long to be channels."""
    is_image = isinstance(space, spaces.Box) and space.dtype == "u1" and len(space.shape) == 3
    return is_image and space.shape[2] in (1, 3, 4) and min(space.shape[:2]) > 4


def stored_observation(space, channels_first):
    leaves = leaves_of(space, "observation")
    sizes = [observed_len(leaf.space) for leaf in leaves]
    is_alone, is_box = not leaves[0].keys, isinstance(space, spaces.Box)
    is_moved = is_alone and channels_first and is_channels_last(space)
    is_bytes = all(isinstance(leaf.space, spaces.Box) and leaf.space.dtype == "u1" for leaf in leaves)
    if is_alone and not is_box:
        described = described_choices(leaves)
    else:
        shape = space.shape if is_alone else [sum(sizes)]
        bounds = [observed_bounds(leaf.space) for leaf in leaves]
        if is_moved:
            bounds = [[np.moveaxis(side.reshape(shape), 2, 0).ravel() for side in bounds[0]]]
            shape = [shape[2], *shape[:2]]
        described = described_box(shape, "u8" if is_bytes else "f32", bounds)

    def bind(row):
        if is_moved:
            # The memory has channels first; the environment's values are written through this view of it.
            row = np.moveaxis(row.reshape(shape), 0, 2)
        writers = [(leaf, writer(leaf, part)) for leaf, part in zip(leaves, split(row, sizes))]
        return writers[0][1] if is_alone else nested_writer(writers)

    return Stored(described, sum(sizes), "u1" if is_bytes else "f4", bind)


def observed_bounds(space):
    if not isinstance(space, spaces.Box):
        return np.zeros(observed_len(space), "f4"), np.ones(observed_len(space), "f4")
    with np.errstate(over="ignore"):
        return space.low.ravel().astype("f4"), space.high.ravel().astype("f4")


def writer(leaf, row):
    """A function that writes a value of the space into its part of a row."""
    if isinstance(leaf.space, spaces.Box):
        return bytes_writer(leaf, row) if row.dtype == "u1" else numbers_writer(leaf, row)
    return (choice_writer if isinstance(leaf.space, spaces.Discrete) else choices_writer)(leaf, row)


def numbers_writer(leaf, row):
    shape, cells = leaf.space.shape, memoryview(row)
    row = row.reshape(shape)

    def write(value):
        # numpy would repeat what is too small until it fills the row.
        if getattr(value, "shape", None) != shape:
            value = shaped(value, leaf)
        row[...] = value

    def write_short(value):
        try:
            cells[:] = value
        except (TypeError, ValueError):  # it is of another type or shape
            write(value)

    # Twice as fast, but for one axis and the same type only.
    return write_short if len(shape) == 1 and leaf.space.dtype == row.dtype else write


def bytes_writer(leaf, row):
    shape, byte = leaf.space.shape, np.dtype("u1")
    row = row.reshape(shape)

    def write(value):
        if getattr(value, "shape", None) != shape or value.dtype != byte:
            value = shaped(value, leaf)
            if value.dtype.kind not in "biu":
                raise Refusal(f"{leaf.where} is {value.dtype}, expected whole numbers as in {shortened(leaf.space)}")
            if value.min() < 0 or value.max() > 255:
                raise Refusal(f"{leaf.where} is {value.dtype} from {value.min()} to {value.max()}, expected bytes")
        row[...] = value

    return write


def choice_writer(leaf, row):
    n, start = int(leaf.space.n), int(leaf.space.start)

    def write(value):
        # A bool of numpy is no index.
        index = operator.index(int(value) if getattr(value, "dtype", None) == bool else value) - start
        if not 0 <= index < n:
            raise Refusal(f"{leaf.where} is {value}, expected {start} to {start + n - 1}")
        row[:] = 0
        row[index] = 1

    return write


def choices_writer(leaf, row):
    nvec, start = choices_of(leaf.space)
    offsets = nvec.cumsum() - nvec

    def write(value):
        value = shaped(value, leaf)
        indices = value.ravel() - start
        if value.dtype.kind not in "biu" or (indices < 0).any() or (indices >= nvec).any():
            raise Refusal(f"{leaf.where} is {value}, expected a value of {shortened(leaf.space)}")
        row[:] = 0
        row[offsets + indices] = 1

    return write


def nested_writer(writers):
    def write(value):
        for leaf, write_part in writers:
            part = value
            try:
                for key in leaf.keys:
                    part = part[key]
            except (KeyError, IndexError, TypeError):
                raise Refusal(f"there is no {leaf.where} in what is observed: {str(value)[:200]}") from None
            write_part(part)

    return write


def shaped(value, leaf):
    """The value as an array of the shape that its space says."""
    array = np.asarray(value)
    if array.shape != leaf.space.shape:
        what = "is None" if value is None else f"has shape {array.shape}"
        raise Refusal(f"{leaf.where} {what}, expected {leaf.space.shape}")
    return array


def stored_action(space):
    leaves = leaves_of(space, "action")
    length, bind = acted_len(space), functools.partial(reader, space)
    numbers = [leaf for leaf in leaves if isinstance(leaf.space, spaces.Box)]
    choices = [leaf for leaf in leaves if leaf not in numbers]
    if not numbers:
        return Stored(described_choices(leaves), length, "u4", bind)
    if choices:
        unlike = " and ".join(f"{leaf.where} is {shortened(leaf.space)}" for leaf in (numbers[0], choices[0]))
        raise Refusal(
            f"{unlike}, but actions are either all choices or all numbers: turn one into the other with a wrapper, "
            "such as TransformAction of gymnasium.wrappers"
        )
    shape = [length] if leaves[0].keys else space.shape
    return Stored(described_box(shape, "f32", [acted_bounds(leaf.space) for leaf in leaves]), length, "f4", bind)


def acted_bounds(space):
    """Bounds that f32 does not have move inwards, so that whatever is between them is an action of the space."""
    low, high = observed_bounds(space)
    low = np.where((low < space.low.ravel()) & np.isfinite(low), np.nextafter(low, np.float32("inf")), low)
    high = np.where((high > space.high.ravel()) & np.isfinite(high), np.nextafter(high, np.float32("-inf")), high)
    return np.minimum(low, high), high


def reader(space, row):
    """A function that makes an action out of a row: a new one each time, since environments may keep it."""
    if isinstance(space, spaces.Discrete):
        cell, first = memoryview(row), int(space.start)
        return lambda: cell[0] + first
    if isinstance(space, (spaces.Tuple, spaces.Dict)):
        parts = parts_of(space)
        readers = [reader(part, piece) for part, piece in zip(parts, split(row, [acted_len(part) for part in parts]))]
        if isinstance(space, spaces.Tuple):
            return lambda: tuple(read() for read in readers)
        return lambda: {key: read() for key, read in zip(space.spaces, readers)}
    row, dtype = row.reshape(space.shape), space.dtype
    if isinstance(space, spaces.MultiDiscrete):
        return lambda: row.astype(dtype) + space.start
    if dtype == "u1":
        return lambda: np.clip(np.rint(row), space.low, space.high).astype(dtype)
    return lambda: row.astype(dtype)


def mask_writer(row, advice):
    """A function that writes the mask which an info holds, or an observation; `advice` says which."""

    def write(holder):
        if not isinstance(holder, collections.abc.Mapping) or "action_mask" not in holder:
            raise Refusal(f"there is no `action_mask`: {advice}, or switch `action_mask` off")
        mask = holder["action_mask"]
        # For several choices, Gymnasium has one array for each.
        parts = mask if isinstance(mask, tuple) else [mask]
        possible = np.concatenate([np.ravel(part) for part in parts])
        if possible.shape != row.shape:
            raise Refusal(f"action_mask has {possible.size} elements, expected {row.size}")
        row[:] = possible != 0

    return write
