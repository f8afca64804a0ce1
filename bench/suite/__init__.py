"""The asv suite: thin classes around what `tilewright_bench` measures. See docs/reports.md."""
