"""Result files as the commands write them, with numbers that a test may change."""

from collections.abc import Sequence
from typing import Any

import numpy as np

Json = dict[str, Any]

CALLS_PER_BLOCK = 3
ROUNDS = 10


def environment(**changes: Any) -> Json:
    facts = {
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "dirty": False,
        "time_utc": "2026-01-02T03:04:05+00:00",
        "affinity": [1],
        "host_cpus": 2,
        "threads": 1,
        "cpu": "Test CPU",
        "flags": ["avx2", "fma"],
        "packages": {"numpy": "2.1.0", "onnxruntime": "1.23.0"},
    }
    return facts | changes


def bench_row(model: str, engine: str, centre_ms: float, **changes: Any) -> Json:
    samples = np.random.default_rng(len(model + engine)).normal(
        centre_ms, centre_ms / 50, ROUNDS * CALLS_PER_BLOCK
    )
    p10, median, p90 = np.percentile(samples, (10, 50, 90))
    row = {
        "model": model,
        "engine": engine,
        "precision": "fp32",
        "threads": 1,
        "target": "cpu",
        "median_ms": float(median),
        "p10_ms": float(p10),
        "p90_ms": float(p90),
        "samples_ms": [round(float(sample), 6) for sample in samples],
        "calls_per_block": CALLS_PER_BLOCK,
        "load_s": 0.125,
        "first_ms": 3 * centre_ms,
        "peak_rss_mb": 170.0,
        "compile_s": 1.5 if engine.startswith("tilewright") else None,
        "l2_rel_err": 3.1e-7,
        "max_abs_err": 2e-6,
        "provenance": {
            "model_sha256": "ab" * 32,
            "engine_version": "1.0",
            "records_sha256": None,
            "ftz": False,
        },
    }
    return row | changes


def bench_pair(a: Json, b: Json) -> Json:
    blocks = [np.reshape(row["samples_ms"], (-1, CALLS_PER_BLOCK)) for row in (a, b)]
    ratio = float(np.median(np.median(blocks[1], axis=1) / np.median(blocks[0], axis=1)))
    same = {name: a[name] for name in ("model", "precision", "threads")}
    verdict = {"ratio": ratio, "ci_low": ratio - 0.01, "ci_high": ratio + 0.01, "verdict": "faster"}
    return same | {"a": a["engine"], "b": b["engine"], "capped": False} | verdict


def bench_result(models: Sequence[str] = ("resnet18", "mobilenet_v2"), **facts: Any) -> Json:
    rows = [
        bench_row(model, engine, centre, threads=facts.get("threads", 1))
        for model in models
        for engine, centre in (("tilewright:cpu", 20.0), ("ort", 24.0))
    ]
    pairs = [bench_pair(a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    return {"environment": environment(**facts), "rows": rows, "pairs": pairs}


def accuracy_result() -> Json:
    flip = {"image": "07.jpg", "label": 7, "a_class": 7, "b_class": 9, "a_margin": 1e-5, "b_margin": 2e-5}
    rows = [
        {
            "model": "efficientnet_lite0",
            "engine": engine,
            "precision": "fp32",
            "threads": 1,
            "dataset": "foolbox",
            "n": 20,
            "top1": top1,
            "top5": 1.0,
            "top1_ci": [0.70, 0.99],
            "provenance": {"model_sha256": "cd" * 32, "engine_version": "1.0"},
        }
        for engine, top1 in (("tilewright:cpu", 0.95), ("ort", 0.90))
    ]
    pair = {
        "model": "efficientnet_lite0",
        "a": "tilewright:cpu",
        "b": "ort",
        "agree_top1": 0.95,
        "flips": [flip],
        "max_margin_of_flip": 2e-5,
    }
    return {"environment": environment(), "rows": rows, "pairs": [pair]}
