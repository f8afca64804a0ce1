"""Measuring engines side by side: latency, cold start, memory, numerical error and top-k accuracy.

The room sees the compiler only through its façade (`import tilewright as tw`); Tilewright is one engine among
others in `engines/`. `docs/bench.md` explains how and why it measures the way it does.
"""
