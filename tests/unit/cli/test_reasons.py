"""Why nodes run as they do, as rows of a table."""

from tilewright.cli.reasons import HEAD, reason_rows

STORAGE = {"reads": ["acdb", "Acdb32a"], "writes": "acdb", "granted": True, "packs_plain": 500}
SEGMENT = {
    "kernels": [
        {"name": "k", "template": "winograd", "knobs": "rows=1x14 vectors=2"},
        {"name": "l", "template": "elementwise"},
    ],
    "reasons": [
        {
            "nodes": ["conv1", "bn1"],
            "op": "WinogradConv",
            "kernel": "k",
            "algorithm": {"chosen": "winograd", "cycles": {"direct": 56448, "winograd": 39808}},
            "storage": STORAGE | {"gain": None, "packs_wished": 0},
        },
        {"nodes": ["a"], "op": "Conv", "kernel": "k", "storage": STORAGE | {"gain": 3200, "packs_wished": 7}},
        {
            "nodes": ["b"],
            "op": "MaxPool",
            "kernel": "l",
            "storage": STORAGE | {"granted": False, "gain": 10, "packs_wished": 1600},
        },
        {"nodes": ["c"], "op": "Gemm", "kernel": "l", "algorithm": {"chosen": "x", "cycles": {"x": 1}}},
        {
            "nodes": ["d"],
            "op": "Conv",
            "kernel": "l",
            "algorithm": {"chosen": "direct", "cycles": {"int8": 1, "direct": 8}, "reason": "odd weights"},
        },
    ],
}


def test_rows_say_what_was_weighed():
    first, granted, refused, bare, kept = (dict(zip(HEAD, row, strict=True)) for row in reason_rows(SEGMENT))
    assert first["node"] == "conv1 bn1"
    assert first["algorithm: cycles"] == "winograd 39,808, direct 56,448"
    assert (first["granted"], first["saves"], first["Packs"]) == ("always", "", "")
    assert first["template and knobs"] == "winograd rows=1x14 vectors=2"
    assert granted["storage"] == "acdb, Acdb32a -> acdb"
    assert (granted["granted"], granted["saves"], granted["Packs"]) == ("yes", "3,200", "-493")
    assert (refused["granted"], refused["saves"], refused["Packs"]) == ("no", "10", "+1,100")
    assert refused["template and knobs"] == "elementwise"
    assert (bare["storage"], bare["granted"]) == ("", "")
    assert kept["algorithm: cycles"] == "direct 8, int8 1; odd weights"
