# What people and CI run. Everything sets itself up in .venv.
.PHONY: demo demo-open demo-stop viewer test lint fmt docs bench soak clean
RUN := .venv/bin
# Tests that must be alone with the machine are none; many wait for another process, so four fit two cores.
WORKERS ?= 4

demo: .venv/.demo
	@$(RUN)/python hatch_build.py build || echo "The page could not be built; the demo goes on." >&2
	@$(RUN)/python demo/run.py

demo-open demo-stop: .venv/.demo
	@$(RUN)/python demo/run.py $(@:demo-%=%)

# The page, if its sources changed.
viewer: .venv/.demo
	@$(RUN)/python hatch_build.py build

test: lint viewer
	$(RUN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not soak"

lint: .venv/.dev
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/python hatch_build.py check

fmt: .venv/.dev
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

docs: .venv/.dev
	$(RUN)/python scripts/docs.py

bench: .venv/.dev viewer
	$(RUN)/python bench/all.py

soak: .venv/.dev viewer
	$(RUN)/python -m pytest -m soak
	$(RUN)/python -m pytest -n $(WORKERS) --hypothesis-profile=deep --timeout=3600 tests/test_privacy.py tests/agents tests/observe tests/capture/test_rounds.py

clean:
	@[ ! -x $(RUN)/python ] || $(RUN)/python demo/run.py stop
	rm -rf .venv .demo .mypy_cache .ruff_cache .hypothesis dist viewer/node_modules src/backstory/worker/viewer/assets

# PYTHON names the interpreter; an environment made with another one is made anew.
ifdef PYTHON
ifneq ($(shell [ ! -x .venv/bin/python ] || .venv/bin/python -V 2>&1),$(shell $(PYTHON) -V 2>&1))
.PHONY: .venv/.demo .venv/.dev
endif
endif

.venv/.demo: pyproject.toml scripts/setup hatch_build.py
	@scripts/setup demo

.venv/.dev: pyproject.toml scripts/setup hatch_build.py
	@scripts/setup dev
