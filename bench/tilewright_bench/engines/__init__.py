"""One file per engine; each holds one `ENGINE` object, which `registry` finds by itself."""
