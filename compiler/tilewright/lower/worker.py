"""The process at the other end of `parallel.py`: a target comes in, then nodes; kernels go out.

It answers None for a node that fails, and ends when its input does: when who started it has ended.
"""

from __future__ import annotations

import os
import pickle
import sys

import tilewright.ops.all  # noqa: F401  fills the registry
from tilewright.graph.ir import Node
from tilewright.lower.kernel import Lowered, lower_node
from tilewright.lower.target import Target


def serve() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    jobs = sys.stdin.buffer
    target = pickle.load(jobs)
    while True:
        try:
            node = pickle.load(jobs)
        except EOFError:
            return
        pickle.dump(_lowered(node, target), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _lowered(node: Node, target: Target) -> Lowered | None:
    try:
        return lower_node(node, target)
    except Exception:  # whatever it is: the process that asked lowers the node itself, and meets the same
        return None
