# Two commands for a fresh machine with Python 3.11 or later, make and pip: `make report` and `make test`.
# Each creates .venv on its first run and installs into it; later runs start at once.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
MEASURED := build/report

# The main job: what `make report` measures.
MODELS := resnet18 mobilenet_v2 efficientnet_lite0
CLASSIFIER := efficientnet_lite0
ENGINES := --engine tilewright:cpu --engine ort
THREADS := 1

# The speed of the CPU target with vector code alone, on every machine: networks, single layers, and layers of some networks, at one and two threads.
SPEED := build/speed
SPEED_ENGINES := --engine tilewright:cpu,without=matrix --engine ort --engine openvino,precision=fp32
SPEED_LAYERS := resnet18 mobilenet_v1 squeezenet1_1
# Seconds that a pair of engines may take at most.
DURATION := 20

# The modes beside fp32, each against who computes in it; float32, ours included, keeps the contract of fp32-fast too.
MODES := build/modes
MODE_ENGINES_fp32-fast := --engine tilewright:cpu --engine tilewright:cpu,precision=fp32 --engine ort --engine openvino,precision=fp32
MODE_ENGINES_bf16 := --engine tilewright:cpu --engine openvino

# Quantised layers: products of bytes, exact on both sides.
BYTES := build/bytes

# What single parts of the CPU target bring. Leaving out `direct` or `packing` takes Winograd along, so both are
# also compared with the compiler that lacks Winograd alone.
ABLATIONS := build/ablations
ABLATED_MODELS := resnet18 mobilenet_v1
ABLATED := fusion storage winograd direct packing
ABLATED_BESIDES := direct packing
without := --engine tilewright:cpu,without=

# What is measured must be committed; the argument says why.
committed = @test -z "$$(git status --porcelain --untracked-files=no)" || { echo "commit first: $(1)" >&2; exit 2; }

.PHONY: report publish speed modes bytes ablations check-report test slow fuzz lint asv clean
.DELETE_ON_ERROR:

report: $(INSTALLED)
	mkdir -p $(MEASURED)
	$(BIN)/tilewright bench $(MODELS) $(ENGINES) --threads $(THREADS) --json $(MEASURED)/bench.json
	$(BIN)/tilewright accuracy $(CLASSIFIER) --dataset foolbox $(ENGINES) --threads $(THREADS) --json $(MEASURED)/accuracy.json
	$(BIN)/tilewright report --bench $(MEASURED)/bench.json --accuracy $(MEASURED)/accuracy.json -o reports/out

# The snapshot in the repository: the same job, of committed code only, with its raw data.
publish: $(INSTALLED)
	$(call committed,a snapshot must name its code)
	$(MAKE) report
	$(BIN)/tilewright report --bench $(MEASURED)/bench.json --accuracy $(MEASURED)/accuracy.json -o reports/published/main-job
	$(BIN)/tilewright report --check -o reports/published/main-job

# Some forty minutes on a quiet machine.
speed: $(INSTALLED)
	$(call committed,a snapshot must name its code)
	$(BIN)/python -m pip install --quiet --editable '.[peers]'
	mkdir -p $(SPEED)
	for threads in 1 2; do \
		$(BIN)/tilewright bench --suite zoo $(SPEED_ENGINES) --threads $$threads --duration $(DURATION) --json $(SPEED)/zoo-$$threads.json && \
		$(BIN)/tilewright bench --suite tvm-table2 $(SPEED_ENGINES) --threads $$threads --duration $(DURATION) --json $(SPEED)/table2-$$threads.json || exit 1; \
	done
	for model in $(SPEED_LAYERS); do \
		$(BIN)/tilewright layers $$model $(SPEED_ENGINES) --threads 1 --json $(SPEED)/$$model.json || exit 1; \
	done
	$(BIN)/tilewright report $(foreach name,zoo-1 zoo-2 table2-1 table2-2,--bench $(SPEED)/$(name).json) \
		$(foreach name,$(SPEED_LAYERS),--layers $(SPEED)/$(name).json) -o reports/published/cpu-speed
	$(BIN)/tilewright report --check -o reports/published/cpu-speed

# Some thirty minutes on a quiet machine.
modes: $(INSTALLED)
	$(call committed,a snapshot must name its code)
	$(BIN)/python -m pip install --quiet --editable '.[peers]'
	mkdir -p $(MODES)
	for threads in 1 2; do \
		$(BIN)/tilewright bench --suite zoo --precision fp32-fast $(MODE_ENGINES_fp32-fast) --threads $$threads \
			--duration $(DURATION) --json $(MODES)/fp32-fast-$$threads.json && \
		$(BIN)/tilewright bench --suite zoo --precision bf16 $(MODE_ENGINES_bf16) --threads $$threads \
			--duration $(DURATION) --json $(MODES)/bf16-$$threads.json || exit 1; \
	done
	$(BIN)/tilewright report $(foreach name,fp32-fast-1 fp32-fast-2 bf16-1 bf16-2,--bench $(MODES)/$(name).json) \
		-o reports/published/cpu-modes
	$(BIN)/tilewright report --check -o reports/published/cpu-modes

# Some ten minutes on a quiet machine.
bytes: $(INSTALLED)
	$(call committed,a snapshot must name its code)
	mkdir -p $(BYTES)
	for threads in 1 2; do \
		$(BIN)/tilewright bench --suite tvm-table2-int8 $(ENGINES) --threads $$threads --duration $(DURATION) \
			--json $(BYTES)/table2-$$threads.json || exit 1; \
	done
	$(BIN)/tilewright report --bench $(BYTES)/table2-1.json --bench $(BYTES)/table2-2.json -o reports/published/cpu-bytes
	$(BIN)/tilewright report --check -o reports/published/cpu-bytes

# Some ten minutes on a quiet machine.
ablations: $(INSTALLED)
	$(call committed,a snapshot must name its code)
	mkdir -p $(ABLATIONS)
	for threads in 1 2; do \
		$(BIN)/tilewright bench $(ABLATED_MODELS) --engine tilewright:cpu $(addprefix $(without),$(ABLATED)) \
			--threads $$threads --duration $(DURATION) --json $(ABLATIONS)/all-$$threads.json && \
		$(BIN)/tilewright bench $(ABLATED_MODELS) $(without)winograd $(addprefix $(without)winograd+,$(ABLATED_BESIDES)) \
			--threads $$threads --duration $(DURATION) --json $(ABLATIONS)/winograd-$$threads.json || exit 1; \
	done
	$(BIN)/tilewright report $(foreach name,all-1 all-2 winograd-1 winograd-2,--bench $(ABLATIONS)/$(name).json) \
		-o reports/published/ablations
	$(BIN)/tilewright report --check -o reports/published/ablations

check-report: $(INSTALLED)
	$(BIN)/tilewright report --check -o reports/published

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 tests
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/lit tests/text

slow: $(INSTALLED)
	$(BIN)/python -m pytest -o addopts="-ra --strict-markers --strict-config" tests/slow

# Random graphs on all engines (docs/fuzzing.md); what fails is kept in build/fuzz. N: graphs, SEED: of the first.
N := 10000
SEED := 0
JOBS := 2
fuzz: $(INSTALLED)
	PYTHONPATH=tests/slow $(BIN)/python -m fuzz --count $(N) --seed $(SEED) --jobs $(JOBS)

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# asv trusts the commit that it is told, so only a clean checkout may be measured.
asv: $(INSTALLED)
	$(call committed,asv stores results under a commit)
	$(BIN)/asv run --config bench/asv.conf.json -E existing:same --set-commit-hash "$$(git rev-parse HEAD)" --show-stderr
	$(BIN)/tilewright report --asv bench/results -o reports/out/asv

$(INSTALLED): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed: make PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@# Without a terminal asv stops where it would ask for the machine's facts.
	test -e "$$HOME/.asv-machine.json" || $(BIN)/asv machine --yes --config bench/asv.conf.json > /dev/null
	touch $@

clean:
	rm -rf $(VENV) build reports/out bench/.asv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
