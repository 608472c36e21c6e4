# SPDX-License-Identifier: Apache-2.0
"""What bench_gpu has measured (tools/gpu/bench_record.h): its points, and what they come to."""
import json
import math

LOSS = 0.97   # below this many times as fast a point counts as lost
NOISY = 1.5   # rounds that differ by more than this factor say little
OURS, PEER = 0, 1
MARK, REVISION = "starling_gpu_bench", 1


class Failure(Exception):
    """A file that cannot be reported on, in words."""


class Rounds:
    """Times of one measurement in µs, a list of the rounds of each library; no rounds: it does not serve this."""

    def __init__(self, us):
        self.us = us

    def serves(self, library):
        return library < len(self.us) and bool(self.us[library])

    def median(self, library):
        ordered = sorted(self.us[library])
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    @property
    def ratio(self):
        """How many times faster ours is than the peer; None where one of them is missing."""
        return self.median(PEER) / self.median(OURS) if self.serves(OURS) and self.serves(PEER) else None

    @property
    def is_lost(self):
        return self.ratio is not None and self.ratio < LOSS

    @property
    def is_noisy(self):
        return any(max(rounds) > NOISY * min(rounds) for rounds in self.us if rounds)


class Point(Rounds):
    """One point of the grid."""

    def __init__(self, fields):
        super().__init__(fields["us"])
        self.collective, self.issue, self.memory = fields["collective"], fields["issue"], fields["memory"]
        self.bytes, self.right = fields["bytes"], fields["right"]
        self.ctas = fields.get("ctas")  # how many blocks at most; None: the library's own choice

    @property
    def key(self):
        return (self.collective, self.issue, self.memory, self.bytes, self.ctas)

    def __str__(self):
        bound = "" if self.ctas is None else f", {self.ctas} blocks"
        return f"{self.collective} of {size_text(self.bytes)}, {self.issue}, {self.memory} buffers{bound}"


class Record:
    """Points measured under the same conditions, from one file or from several slices."""

    def __init__(self, paths, conditions, points):
        self.paths, self.conditions, self.points = paths, conditions, points

    @property
    def gpus(self):
        return self.conditions["gpus"]

    def names(self):
        """What the libraries are called in tables."""
        count = len(self.conditions["libraries"])
        return ["ours", "peer"][:count] + [f"library {i + 1}" for i in range(2, count)]

    def free(self):
        """The points at which libraries choose their numbers of blocks."""
        return [point for point in self.points if point.ctas is None]


def read(path):
    """The record in one file. Raises Failure."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        if not isinstance(document, dict) or document.get(MARK) != REVISION:
            raise Failure(f"{path}: no record of gpu-bench: {MARK} is not {REVISION}")
        conditions = {"op": "sum", "more_elements": 0} | document["conditions"]  # the only ones when they were not told
        return Record(document["paths"], conditions, [Point(fields) for fields in document["points"]])
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"{path}: no whole record of gpu-bench: {error!r}") from error


def merge(files):
    """One record of several files, which must have been measured alike and share no point. Raises Failure."""
    whole, origin = None, {}
    for path in files:
        record = read(path)
        whole = whole or Record(record.paths, record.conditions, [])
        if record.conditions != whole.conditions:
            raise Failure(f"{path} was measured under other conditions than {files[0]}: "
                          f"{difference(whole.conditions, record.conditions)}")
        for point in record.points:
            if point.key in origin:
                raise Failure(f"{point} is in {origin[point.key]} and in {path}")
            origin[point.key] = path
            whole.points.append(point)
    return whole


def difference(left, right):
    """The names of the conditions that differ, and how."""
    return "; ".join(f"{name} is {left.get(name)} and {right.get(name)}"
                     for name in sorted({*left, *right}) if left.get(name) != right.get(name))


def groups(points):
    """Lists of points of one collective, issue and memory, by size, in the order in which they were measured."""
    found = {}
    for point in points:
        found.setdefault((point.memory, point.issue, point.collective), []).append(point)
    return [sorted(group, key=lambda point: point.bytes) for group in found.values()]


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def size_text(size):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:g} {unit}"
        size /= 1024
    raise AssertionError


def number_text(value):
    """Three digits that count."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
