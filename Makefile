# Entry points for people and for CI. Each target prints what it runs.

CARGO ?= cargo
SHELL_SCRIPTS = .ci/run $(wildcard examples/*.sh examples/*/*.sh) scripts/install-deps.sh scripts/check-features scripts/split-debug scripts/openapi-tools scripts/dist/chroot.sh scripts/dist/check-clone scripts/dist/check-deb scripts/dist/check-hour scripts/dist/check-image scripts/dist/twice packaging/install.sh packaging/deb/postinst packaging/deb/prerm packaging/deb/postrm perf/autobahn.sh perf/gateway.sh perf/h2spec.sh
FUZZ_SECONDS ?= 60

UI_BIN ?= $(abspath $(or $(CARGO_TARGET_DIR),target))/debug/tidegate

.PHONY: help ui ui-types ui-check ui-smoke ui-test build dist dist-twice check-hour check-clone chart run test test-all upgrade-test lint perf soak attack suites fuzz deps

help:
	@echo 'make build   build the release binary; needs Rust, a C compiler and make'
	@echo 'make dist    archive, .deb, .rpm, OCI image, bill of materials and sums in ./dist; no root, no docker'
	@echo 'make dist-twice  the same in two other folders, to compare each byte'
	@echo 'make check-hour   the size of those files, and the time from each to the first answer; needs root'
	@echo 'make check-clone  clone, `make run` and a first answer in a fresh Debian 12 and 13; needs root'
	@echo 'make chart   render the Helm chart in many ways and check each object; needs Go and Python'
	@echo 'make run     build with less optimization, then serve in the foreground from ./run/'
	@echo 'make deps    install the Debian packages that tests and perf need'
	@echo 'make test    run all tests, black-box tests included, after make deps'
	@echo 'make test-all  the tests that take minutes as well, such as the whole nginx corpus beside nginx'
	@echo 'make upgrade-test  ten upgrades and a hundred reloads under load, with the release binary'
	@echo 'make lint    formatting, clippy, shellcheck, python syntax, licences and sources of libraries'
	@echo 'make perf    measure against nginx; PERF_ARGS="--quick --only plain" narrows it'
	@echo 'make soak    load with changes, scrapes and reloads; SOAK_ARGS="--time 2h" (10m), prints the slope of memory'
	@echo 'make attack  floods, bombs, full disks, kills and lies against the release binary; ATTACK_ARGS="--quick --only lua"'
	@echo 'make suites  run perf/suites with short measurements; SUITE_ARGS replaces --quick'
	@echo 'make ui      build the console into web/dist; needs Node 20'
	@echo 'make ui-test   its checks, and its tests in Debian'\''s chromium against target/debug/tidegate (UI_BIN)'
	@echo 'make fuzz    fuzz each target for FUZZ_SECONDS (60)'

deps:
	scripts/install-deps.sh

TARGET = $(or $(CARGO_TARGET_DIR),target)
BINARY = $(TARGET)/release/tidegate
QUICK = $(TARGET)/quick/tidegate

build:
	$(CARGO) build --release -p tidegate --features wasm
	scripts/split-debug $(BINARY)

dist:
	scripts/dist/make $(DIST_ARGS)

# From two checkouts in folders with other names.
dist-twice:
	scripts/dist/twice

# Sizes, and the time until the first answer, of what `make dist` makes; needs root, debootstrap and umoci.
check-hour: dist
	scripts/dist/check-hour dist

# A build from source in a fresh Debian 12 and 13; needs root and debootstrap, and takes the minutes of two builds.
check-clone:
	scripts/dist/check-clone $(CLONE_SUITES)

CHART_TOOLS = $(TARGET)/chart-tools
# helm is a module of Go, Kubernetes' schemas are a package of PyPI: nothing is installed outside of the target folder.
chart:
	@test -x $(CHART_TOOLS)/helm || GOBIN=$(abspath $(CHART_TOOLS)) go install helm.sh/helm/v3/cmd/helm@v3.18.4
	@test -x $(CHART_TOOLS)/bin/kubernetes-validate || { python3 -m venv $(CHART_TOOLS) && \
	$(CHART_TOOLS)/bin/pip install --quiet --disable-pip-version-check kubernetes-validate==1.37.0 PyYAML; }
	HELM=$(CHART_TOOLS)/helm $(CHART_TOOLS)/bin/python deploy/helm/check $(CHART_ARGS)

# Everything it writes is in run/, which git ignores. Remove the folder to begin again.
run:
	$(CARGO) build --profile quick -p tidegate
	@test -e run/conf/config.yaml || $(QUICK) init --prefix run
	$(QUICK) run --prefix run $(RUN_ARGS)

# The binary is built first so that the black-box tests do not wait for it one by one; with their features, or libraries are
# built twice.
test: deps
	$(CARGO) build --workspace --bin tidegate --test e2e
	$(CARGO) test --workspace

# What takes too long for every change: tests that are marked `ignore`, with the reason beside it.
test-all: test chart check-hour
	scripts/openapi-tools
	$(CARGO) test --workspace --test e2e -- --ignored --nocapture

upgrade-test: build
	TIDEGATE_BIN=$(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/release/tidegate TIDEGATE_UPGRADES=10 TIDEGATE_RELOADS=100 \
	$(CARGO) test --workspace --test e2e upgrades_and_reloads -- --nocapture

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@if command -v shellcheck >/dev/null; then shellcheck $(SHELL_SCRIPTS); \
	else echo 'shellcheck is not installed; shell scripts are only parsed'; \
	for script in $(SHELL_SCRIPTS); do bash -n $$script || exit 1; done; fi
	@PYTHONDONTWRITEBYTECODE=1 python3 -c 'import ast, glob; [ast.parse(open(f).read(), f) for f in glob.glob("perf/**/*.py", recursive=True) + glob.glob("scripts/dist/*.py") + ["scripts/dependencies.py", "scripts/apisix-docs", "scripts/deny", "scripts/new-plugin", "scripts/schema-fields", "scripts/pictures", "scripts/dist/make", "deploy/helm/check", "deploy/kubernetes/make"]]'
	scripts/deny
	scripts/pictures --check
	@if command -v node >/dev/null; then node web/scripts/plugin-texts.mjs --check; else echo 'node is not installed; what the console says of plugins is not compared with docs/plugins'; fi

perf: build
	python3 perf/run.py $(PERF_ARGS)

soak: build
	python3 perf/soak.py $(SOAK_ARGS)

# About 15 minutes; needs root for cgroups and mounts, and etcd, redis-server and nginx.
attack: build
	python3 perf/attack.py $(ATTACK_ARGS)

suites: build
	$(BINARY) bench suite perf/suites/*.yaml $(or $(SUITE_ARGS),--quick)

# Needs a nightly toolchain and `cargo install cargo-fuzz`. What it finds goes to fuzz/corpus, which the tests replay.
fuzz:
	cd fuzz && for target in $$($(CARGO) +nightly fuzz list); do \
	$(CARGO) +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=65536 || exit 1; done

web/node_modules: web/package-lock.json
	cd web && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

ui: web/node_modules
	cd web && rm -rf dist && npm run --silent build

# After a change of the Admin API's schemas.
ui-types: web/node_modules
	cd web && node scripts/api-types.mjs $(UI_BIN)

# Types and built files are those that the sources make.
ui-check: web/node_modules
	cd web && node scripts/api-types.mjs $(UI_BIN) --check && npm run --silent unit
	$(MAKE) --no-print-directory ui
	git diff --exit-code --stat -- web/dist
	@test -z "$$(git status --porcelain -- web/dist)" || { echo 'web/dist has files that are not committed'; exit 1; }

# Signing in, and what a browser blocks: a minute.
ui-smoke: web/node_modules
	cd web && TIDEGATE_BIN=$(UI_BIN) npm run --silent e2e -- tests/login.spec.ts

ui-test: ui-check
	cd web && TIDEGATE_BIN=$(UI_BIN) npm run --silent e2e -- $(UI_ARGS)
