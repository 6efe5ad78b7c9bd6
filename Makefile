# Everything a clone can do; CONTRIBUTING.md says when. Needs Python >= 3.11, git and make.
.PHONY: help demo test check bench calibrate-default soak

help:
	@echo "make demo    see it work: installs, starts its database, indexes these documents, asks"
	@echo "make test    every test, on a PostgreSQL that it starts itself"
	@echo "make check   lint, types, imports"
	@echo "make bench   figures of quality and speed (LASTRO_BENCH_DATA names the folder of sets)"
	@echo "make calibrate-default    choose the shipped numbers anew, on the same folder of sets"
	@echo "make soak    long runs: kills, load and filters"

demo:
	@sh scripts/environment.sh
	@sh scripts/demo.sh

test:
	@sh scripts/environment.sh dev
	@.venv/bin/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

check:
	@sh scripts/environment.sh dev
	@sh scripts/check.sh

bench:
	@sh scripts/environment.sh
	@.venv/bin/python -m benchmarks $(BENCH_ARGS)

calibrate-default:
	@sh scripts/environment.sh
	@.venv/bin/python -m benchmarks.default_profile $(CALIBRATE_ARGS)

soak:
	@sh scripts/environment.sh dev
	@.venv/bin/python -m pytest soak $(PYTEST_ARGS)
