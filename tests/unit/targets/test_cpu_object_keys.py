"""Names of objects on disk: what they depend on, and what not."""

from __future__ import annotations

from tilewright.loops.parse import parse_kernel
from tilewright.program.callee import Callee
from tilewright.targets.cpu.detect import from_features
from tilewright.targets.cpu.object_cache import kernel_key, object_key

PLAIN = from_features("m", frozenset({"sse2"}))
WIDE = from_features("m", frozenset({"sse2", "avx"}))


def callee(name: str, value: int) -> Callee:
    return Callee.of(
        parse_kernel(f"kernel {name}(@out y: i64[4]) {{ serial for i in 0 .. +4 {{ y[i] = {value} }} }}")
    )


def test_object_key_depends_on_text_and_machine() -> None:
    assert len({object_key("a", PLAIN), object_key("b", PLAIN), object_key("a", WIDE)}) == 3
    assert object_key("a", PLAIN) == object_key("a", from_features("other name", frozenset({"sse2"})))


def test_kernel_key_depends_on_loops_and_machine_but_not_on_the_name() -> None:
    keys = {
        kernel_key(callee("f", 1), PLAIN),
        kernel_key(callee("f", 2), PLAIN),
        kernel_key(callee("f", 1), WIDE),
    }
    assert len(keys) == 3
    assert kernel_key(callee("f", 1), PLAIN) == kernel_key(callee("g", 1), PLAIN)


def test_names_follow_from_loops() -> None:
    first, other = (Callee.named_by_loops(callee("e", value).kernel) for value in (1, 2))
    assert first == Callee.named_by_loops(callee("e", 1).kernel)
    assert first.name != other.name
    assert first.name.startswith("e_")
    assert parse_kernel(first.text) == first.kernel
    assert first.kernel.name == first.name
    assert first.digest == Callee.from_text(first.text, first.work).digest == callee("f", 1).digest
