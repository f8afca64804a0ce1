"""Templates of the CPU target, tried in order: the first that applies schedules the group."""
