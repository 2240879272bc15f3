# Every target works without a GPU. Only the first build needs the network, for Go modules.
GO      ?= go
PYTHON  ?= python3
export CGO_ENABLED ?= 0
TAGS    := invariants
PKGS    := ./...
CRASH   := ./hub ./store ./kvstore ./feedback ./calls ./objects ./trajectory/archive ./usage ./cmd/weir
HOT     := ./api ./backend/sim ./chat/reasoning ./device/cpu ./engine ./grammar ./model ./sampler ./server/openai ./server/transport ./tokenizer
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COUNT   ?= 6
LOAD    ?= --num-prompts 200 --request-rate 10 --random-input-len 128 --random-output-len 64 --num-warmups 8
LDFLAGS := -s -w -X main.version=$(VERSION)
CUDA    := CGO_ENABLED=1 CGO_CFLAGS="-O2 -I$(CURDIR)/internal/cudashim/include"

.PHONY: help build browsers weave-routes weave-difference demo-agent clients-hub clients-weave clients-art clients-load bench-agree clients-agents chaos complexity release release-check container cuda cuda-check run test test-cuda-emu race lint purego arm64 crash chaos-store fuzz bench bench-grammar bench-families gen gen-check golden golden-quantized parquet-check formats-check vectors clients check clean test-cuda-kernels kernels kernels-check kernels-ptxas test-cuda-mutants bench-store maskbench typemodels storm soak sinks test-all ui-test routers pd-test deploy-check

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-13s %s\n", $$1, $$2}'

build: ## build the binary ./weir
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o weir ./cmd/weir

run: build ## build and serve the bundled model on http://127.0.0.1:8000
	./weir serve

# Tests that count allocations need a build without invariants, because checks allocate.
test: ## all tests, with invariants on; then the allocation tests without
	$(GO) test -tags $(TAGS) -timeout 540s $(PKGS)
	$(GO) test -run Alloc -timeout 120s $(HOT)

# Some tests take a part of what they could: of random sets of tools, of a suite of schemas, of tiers of instructions.
test-all: ## the tests that make test runs in part, whole
	WEIR_TEST_ALL=1 $(GO) test -tags $(TAGS) -timeout 3600s ./chat/toolcall ./grammar ./model

race: ## all tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -timeout 1800s $(PKGS)

purego: ## the tests of the CPU device and the model without assembly
	$(GO) test -tags '$(TAGS) purego' -timeout 540s ./device/cpu ./model ./sampler

# The tests that an emulator runs within minutes: all kernels, whole decoders, batch invariance.
ARM64_RUN := Impls|Products|Dots|AtPageEnd|Elementwise|Exp|Softmax|Quantize|Exact|Reference|Workers|Nodes|Bind|Pointwise|Recurren|States
arm64: ## vet and build for other systems; with binutils and qemu for arm64, the encodings and tests of its kernels
	@set -e; for t in linux/arm64 darwin/arm64 windows/amd64; do echo "== $$t"; \
	  GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) vet ./device/cpu ./cmd/weir; GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) build -o /dev/null ./cmd/weir; done
	@if command -v aarch64-linux-gnu-as >/dev/null; then device/cpu/_gen/encodings.sh device/cpu/neon_arm64.s; else echo "no aarch64-linux-gnu-as: encodings not compared"; fi
	@if command -v qemu-aarch64-static >/dev/null; then mkdir -p build && GOARCH=arm64 $(GO) test -c -o build/cpu-arm64.test ./device/cpu && \
	  cd device/cpu && qemu-aarch64-static -cpu max ../../build/cpu-arm64.test -test.timeout 1200s -test.run '$(ARM64_RUN)'; else echo "no qemu-aarch64-static: not tested"; fi

lint: ## gofmt, go vet, the rules of internal/arch, staticcheck, complexity
	@out=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); if [ -n "$$out" ]; then echo "gofmt -w $$out"; exit 1; fi
	$(GO) vet $(PKGS)
	$(GO) vet -tags invariants $(PKGS)
	$(GO) test ./internal/arch
	$(GO) tool staticcheck $(PKGS)
	@$(MAKE) --no-print-directory complexity

# Generated code is left out. internal/arch lists the functions that are exempt, with reasons.
complexity: ## no function has a cognitive complexity above 25
	@$(GO) tool gocognit -over 25 -ignore "$$(grep -rlE --include='*.go' '^// Code generated .* DO NOT EDIT' . | sed 's|^\./||' | paste -sd'|')" . || { echo "these functions are more complex than 25: take them apart by meaning"; exit 1; }
	@echo "$$(grep -rh --include='*.go' '^//gocognit:ignore' . | wc -l) functions are exempt"

vectors: ## the large test vectors: DIR=.. (TOKENIZERS=.. adds published tokenizers)
	@test -n "$(DIR)" || { echo "usage: make vectors DIR=.. [TOKENIZERS=..]"; exit 1; }
	WEIR_VECTORS=$(abspath $(DIR)) WEIR_TOKENIZERS=$(abspath $(TOKENIZERS)) $(GO) test ./tokenizer ./chat/... ./grammar -run Vectors -v

clients: build clients-hub clients-weave clients-art clients-load ## SDKs of OpenAI, Anthropic and Ollama, Vercel AI SDK, LangChain, pydantic-ai and OpenAI's Agents SDK, in JavaScript and Python, with loops of tools; the examples; Weave and ART; load generators; against a running weir, and huggingface_hub on the same cache (needs Python, which installs Node)
	$(PYTHON) -m venv build/examples && build/examples/bin/pip install -q --disable-pip-version-check -r examples/python/requirements.txt
	$(PYTHON) -m venv build/sdks && build/sdks/bin/pip install -q --disable-pip-version-check -r tools/clients/requirements.txt
	cd examples/javascript && PATH="$(CURDIR)/build/sdks/bin:$$PATH" npm ci --no-audit --no-fund --ignore-scripts
	cd tools/clients && export PATH="$(CURDIR)/build/sdks/bin:$$PATH" && npm ci --no-audit --no-fund --ignore-scripts && PYTHON=$(CURDIR)/build/examples/bin/python SDK_PYTHON=$(CURDIR)/build/sdks/bin/python npm test

demo-agent: build ## the bundled model uses a calculator and a table in a loop until it has the answer (needs Python; DEMO='a question')
	$(PYTHON) -m venv build/demo-agent && build/demo-agent/bin/pip install -q --disable-pip-version-check -r tools/demo/requirements.txt
	build/demo-agent/bin/python tools/demo/agent.py $(if $(DEMO),'$(DEMO)')

weave-routes: build ## the functions that the newest weave and openpipe-art call are all served or 501 (needs Python; VERSIONS='weave==0.54.0 openpipe-art==0.5.18')
	$(PYTHON) -m venv build/weave-routes && build/weave-routes/bin/pip install -q --disable-pip-version-check --no-deps $(or $(VERSIONS),weave openpipe-art)
	@set -e; site=$$(build/weave-routes/bin/python -c 'import site; print(site.getsitepackages()[0])'); d=$$(mktemp -d); \
	  ./weir serve --device sim --port 0 --data-dir $$d --api-key key 2>$$d/log & pid=$$!; trap "kill $$pid; wait $$pid; rm -rf $$d" EXIT; \
	  for i in 1 2 3 4 5 6 7 8 9 10; do url=$$(sed -n 's/.*msg=listening url=\([^ ]*\).*/\1/p' $$d/log 2>/dev/null); [ -n "$$url" ] && break; sleep 0.5; done; \
	  $(PYTHON) tools/weaveroutes/routes.py $$site | $(PYTHON) tools/weaveroutes/routes.py --check $$url key

clients-weave: build ## versions of W&B Weave's client against a running weir (needs Python; CLIENTS='--version 0.54.0')
	$(PYTHON) tools/weaveclients/run.py --only weave $(CLIENTS)

clients-hub: ## the newest huggingface_hub reads the cache that weir writes, and weir its cache (needs Python)
	$(PYTHON) -m venv build/clients-hub && build/clients-hub/bin/pip install -q --disable-pip-version-check -U $(or $(VERSIONS),huggingface_hub)
	build/clients-hub/bin/python tools/hubclients/client.py version
	WEIR_HUB_PYTHON=$(CURDIR)/build/clients-hub/bin/python $(GO) test -count 1 -run TestPython ./hub

weave-difference: build ## generated requests to weir and to the server in Weave's last package that had one: each difference has a name (needs Python; DIFFERENCE='--seed 2')
	$(PYTHON) tools/weaveclients/differential.py $(DIFFERENCE)

clients-art: build ## versions of OpenPipe ART's client against a running weir (needs Python; CLIENTS='--version 0.5.18')
	$(PYTHON) tools/weaveclients/run.py --only openpipe-art $(CLIENTS)

# The packages are several GiB, most of them vLLM's.
clients-load: build ## vLLM's benchmark, guidellm, AIPerf and inference-perf each put a load on a running weir (needs Python 3.12 or 3.13; LOADS='--only guidellm')
	$(PYTHON) tools/loadclients/run.py $(LOADS)

pd-test: build ## vLLM's toy proxy, unmodified, in front of two weirs, of which one computes prompts and the other answers (needs Python and PROXY=toy_proxy_server.py from vLLM's tests)
	@$(PYTHON) -m venv build/pdsplit && build/pdsplit/bin/pip install -q --disable-pip-version-check -r tools/pdsplit/requirements.txt
	build/pdsplit/bin/python tools/pdsplit/run.py --proxy $(PROXY)

bench-agree: build ## weir bench serve and vLLM's benchmark measure the same load and agree within 3 % (needs Python 3.12 or 3.13; AGREE='--streams 1,8 --rounds 3'; minutes)
	$(PYTHON) tools/loadclients/agree.py $(AGREE)

# npm ci refuses a lock file without the programs for systems that the registry it was made with lacks, so npm install.
clients-agents: build ## Codex CLI, Claude Code, opencode, Qwen Code, Copilot CLI, pi, Cline, Mistral Vibe, mini-swe-agent and aider each hold loops of calls against a running weir, without a network (needs Linux, Node 20, npm, Python, and for Vibe 3.12 or 3.13 of it; AGENTS='--only claude')
	@for a in aider mini; do $(PYTHON) -m venv build/agents-$$a && build/agents-$$a/bin/pip install -q --disable-pip-version-check -r tools/agents/requirements-$$a.txt || exit 1; done
	$$($(PYTHON) tools/newpython.py) -m venv build/agents-vibe && build/agents-vibe/bin/pip install -q --disable-pip-version-check -r tools/agents/requirements-vibe.txt
	cd tools/agents && npm install --no-save --no-audit --no-fund --ignore-scripts && npm rebuild @anthropic-ai/claude-code opencode-ai
	$(PYTHON) tools/agents/run.py --weir ./weir --programs tools/agents/node_modules/.bin,build/agents-aider/bin,build/agents-mini/bin,build/agents-vibe/bin $(AGENTS)

browsers: build ## a Chromium calls a running weir from local, foreign and rebound pages, and looks at /docs (needs chromium; BROWSERS='flags of tools/browsers')
	$(GO) run ./tools/browsers --weir ./weir $(BROWSERS)

# axe looks whether everybody can use the page. It is part of the test only.
ui-test: build ## a Chromium is led through the page of a running weir as a user would, and axe looks at it (needs chromium and npm; UI='flags of tools/_ui'); pictures in build/ui
	mkdir -p build/ui && cd build/ui && { test -f package/axe.min.js || { npm pack --silent axe-core@4.14.1 && tar xzf axe-core-4.14.1.tgz; }; }
	cd tools/_ui && $(GO) build -o ../../build/ui/ui-test .
	build/ui/ui-test -weir ./weir -axe build/ui/package/axe.min.js -pictures build/ui $(UI)

bench-grammar: ## tables of what a token mask costs, and how the cost of compiling grows with a constraint (a minute)
	$(GO) test -run '^$$' -bench '^Benchmark(Masks|Growth)$$' -benchtime 1x ./grammar

# Files that are missing are written to MODELS first, which needs up to 30 GiB of disk there, and 23 GiB of
# memory to measure. What was measured is not measured again: results are kept in build/families.jsonl.
FAMILY_SHAPES := qwen3-30b-a3b:q4_0 gpt-oss-20b:mxfp4 qwen3.5-0.8b:q4_0
bench-families: build ## experts and hybrids beside llama.cpp and ik_llama.cpp: MODELS=folder LLAMA=folder of llama-bench IK=the same (needs Python; FAMILIES='flags of tools/peers'; hours)
	@test -n "$(MODELS)" || { echo "usage: make bench-families MODELS=folder [LLAMA=folder] [IK=folder] [FAMILIES=flags]"; exit 1; }
	@mkdir -p build "$(MODELS)"
	@for s in $(FAMILY_SHAPES); do f="$(MODELS)/$${s%:*}-$${s#*:}.gguf"; test -f "$$f" && continue; \
	  test -d build/families-python || { $(PYTHON) -m venv build/families-python && build/families-python/bin/pip install -q --disable-pip-version-check -r tools/peers/requirements.txt; } || exit 1; \
	  build/families-python/bin/python tools/peers/models.py "$(MODELS)" $$s || exit 1; done
	$(GO) run ./tools/peers --weir ./weir --llama "$(LLAMA)" --ik "$(IK)" --models "$(MODELS)" --shapes $$(echo $(FAMILY_SHAPES) | tr ' ' ,) \
	  --threads $$(nproc) --prefill 512 --streams 8,32 --only '/(single|streams)$$' --rounds 3 --results build/families.jsonl $(FAMILIES)

# Python's packages, the cases and the results are kept in build/maskbench. The programs run on one processor.
maskbench: ## masks beside llguidance on MaskBench's schemas: DATA=../maskbench/data TOKENIZER=../tokenizer.json (MASKBENCH='flags of tools/maskbench'; minutes)
	@test -n "$(DATA)" -a -n "$(TOKENIZER)" || { echo "usage: make maskbench DATA=../maskbench/data TOKENIZER=../tokenizer.json [MASKBENCH=flags]"; exit 1; }
	$(PYTHON) -m venv build/maskbench/venv && build/maskbench/venv/bin/pip install -q --disable-pip-version-check -r tools/maskbench/requirements.txt
	build/maskbench/venv/bin/python tools/maskbench/prepare.py $(DATA) $(TOKENIZER) > build/maskbench/cases.jsonl
	$(GO) build -o build/maskbench/maskbench ./tools/maskbench
	$$(command -v taskset >/dev/null && echo taskset -c $$(($$(nproc) - 1))) build/maskbench/maskbench -python build/maskbench/venv/bin/python \
	  -cases build/maskbench/cases.jsonl -tokenizer $(TOKENIZER) -out build/maskbench/table.md -lines build/maskbench/schemas.jsonl $(MASKBENCH)

bench-store: build ## feedback and trajectories against SQLite (needs a C compiler; STORE='flags of weir bench store')
	mkdir -p build
	cd tools/_sqlite && CGO_ENABLED=1 $(GO) build -o ../../build/sqlite .
	./weir bench store --binary self --binary 'build/sqlite --store weir' --binary 'build/sqlite --store sqlite' --binary 'build/sqlite --store grouped' $(STORE) --rows 0 --ingest 0
	./weir bench store $(STORE) --time 0

sinks: ## kill -9 of weir and of the systems that it tells of what is stored, ROUNDS times (default 100), with the systems themselves: NATS as a Go module
	cd tools/_sinks && ROUNDS=$(or $(ROUNDS),100) $(GO) test -count 1 -timeout 60m -v ./...

crash: ## kill -9 under load, ROUNDS times (default 200) in each test that does so
	WEIR_CRASH_ROUNDS=$(or $(ROUNDS),200) $(GO) test -run Kill -count 1 -timeout 3600s $(CRASH)

chaos-store: ## FOLDERS damaged folders of a database (default 500), and ROUNDS of kill -9 (default 1000)
	WEIR_DAMAGED_FOLDERS=$(or $(FOLDERS),500) $(GO) test -tags $(TAGS) -run TestDamagedFolders -v -count 1 -timeout 3600s ./store
	WEIR_CRASH_ROUNDS=$(or $(ROUNDS),1000) $(GO) test -run TestKill -v -count 1 -timeout 3600s ./store
# The short form, without times, is a part of make test.
chaos: build ## attack a server in every known way beside well-behaved streams, and measure what they notice (CHAOS='flags of tools/chaos')
	$(GO) run ./tools/chaos --weir ./weir $(CHAOS)

storm: ## CLIENTS clients (default 5000) that leave at random moments, in every stage of a request, and leave nothing behind
	WEIR_STORM=$(or $(CLIENTS),5000) $(GO) test -tags $(TAGS) -run TestAbortStorm -v -count 1 -timeout 1200s ./server

# -count=1, because the files that it reads are outside of its module and do not count for the cache of tests.
deploy-check: ## what is in deploy, by the libraries of Helm, Kubernetes, Prometheus and Compose (they are downloaded), and by systemd-analyze where it is there
	cd deploy/_check && $(GO) test -count=1 .
	if command -v systemd-analyze >/dev/null; then for u in deploy/systemd/*.service; do systemd-analyze security --offline=true --threshold=30 --no-pager $$u >/dev/null || exit 1; done; fi

routers: build ## vllm-router, smg and LiteLLM's proxy in front of 2 and of 4 processes of weir, of which one is killed and one drained (needs Python; ROUTERS='--only smg --workers 2'; minutes)
	$(GO) run ./tools/routers --weir ./weir --python $(PYTHON) $(ROUTERS)

soak: build ## mixed load over the simulated device for DURATION (default 1h): memory stays flat, and nothing is held at the end (needs Linux)
	$(GO) run ./tools/soak --weir ./weir --time $(or $(DURATION),1h) $(SOAK)

fuzz: ## every fuzz test, FUZZ inputs each (default 200000x, or a time such as 1m)
	@set -e; for f in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for name in $$($(GO) test -list '^Fuzz' $$f | grep '^Fuzz'); do echo "== $$f $$name"; \
	    $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(or $(FUZZ),200000x) $$f; done; done

golden: ## write the golden data again (needs Python with tools/golden/requirements.txt)
	$(PYTHON) tools/golden/models.py model/testdata models/weir-tiny
	@echo "model/testdata/gguf and gguf-families need the source of llama.cpp: see tools/golden/gguf_models.py and gguf_families.py"
	@echo "tokenizer/testdata needs other libraries: see tools/tokenizer-goldens/requirements.txt"
	$(PYTHON) tools/golden/templates.py
	$(PYTHON) tools/golden/xgrammar_tags.py grammar/testdata/xgrammar_tags.json
	$(PYTHON) tools/golden/llguidance_lark.py grammar/testdata/llguidance_lark.json
	$(PYTHON) tools/golden/ggml_grids.py weights/blocks_grids.bin
	$(PYTHON) tools/golden/ggml_blocks.py weights/testdata/blocks models/weir-tiny
	$(PYTHON) tools/golden/ggml_rows.py model/testdata/quantised models/weir-tiny
	$(PYTHON) tools/golden/recurrences.py device/cpu/testdata/recurrences.txt

golden-quantized: ## write the quantized checkpoints of tests again (needs Python with tools/golden/quantized-requirements.txt)
	$(PYTHON) tools/golden/quantized.py model/testdata/quantized quantconfig/testdata/lists.json

parquet-check: ## read a Parquet export with pyarrow and DuckDB (needs Python with tools/parquet/requirements.txt)
	mkdir -p build/parquet
	WEIR_PARQUET_OUT=$(abspath build/parquet) $(GO) test -count 1 -run TestFilesForOtherReaders ./trajectory/export
	$(PYTHON) tools/parquet/check.py build/parquet

typemodels: ## TEXTS (default 8) of random tokens for each of 1,040 random Pydantic and zod models are read back by these libraries (needs Node 20, npm and Python)
	@mkdir -p build/typemodels
	$(PYTHON) -m venv build/typemodels/python && build/typemodels/python/bin/pip install -q --disable-pip-version-check -r tools/typemodels/requirements.txt
	cd tools/typemodels && npm ci --no-audit --no-fund --ignore-scripts
	build/typemodels/python/bin/python tools/typemodels/pydantic_models.py schemas >build/typemodels/schemas.jsonl
	node tools/typemodels/zod_models.mjs schemas >>build/typemodels/schemas.jsonl
	@gzip -dc grammar/testdata/typemodels.jsonl.gz | cmp - build/typemodels/schemas.jsonl || { echo "the schemas have changed: gzip -9n <build/typemodels/schemas.jsonl >grammar/testdata/typemodels.jsonl.gz"; exit 1; }
	WEIR_TYPEMODELS_OUT=$(abspath build/typemodels) WEIR_TYPEMODELS_TEXTS=$(TEXTS) $(GO) test -count 1 -run TestTypeModelTexts -v ./grammar
	@bad=0; build/typemodels/python/bin/python tools/typemodels/pydantic_models.py read build/typemodels/texts.jsonl || bad=1; \
	  node tools/typemodels/zod_models.mjs read build/typemodels/texts.jsonl || bad=1; exit $$bad

formats-check: ## read random strings of each format with jsonschema, Pydantic and Python (needs Python with tools/formats/requirements.txt)
	mkdir -p build/formats
	WEIR_FORMATS_OUT=$(abspath build/formats) $(GO) test -count 1 -run TestTextsOfFormats ./grammar
	$(PYTHON) tools/formats/check.py build/formats

bench: build ## start-up and idling, micro-benchmarks of the control plane (COUNT=6 each), a load (LOAD='flags of weir bench serve')
	./weir bench start
	$(GO) test -run '^$$' -count $(COUNT) -bench '^Benchmark(Scan|DecodeChat|Chunk|Step|StreamToken|Event)$$' ./api ./engine ./server/openai ./bench
	$(GO) test -run '^$$' -count $(COUNT) -bench '^BenchmarkEncode$$/^150k$$' ./tokenizer
	./weir bench serve --binary self $(LOAD)

cuda: ## build ./weir with the CUDA backend (needs a C compiler, but no CUDA toolkit and no driver)
	$(CUDA) $(GO) build -trimpath -tags cuda -ldflags '$(LDFLAGS) -buildid=' -o weir ./cmd/weir

# A build that uses cached objects of an earlier one may differ from it in the build ID that
# the linker is given, so both begin with an empty cache.
cuda-check: ## two builds of make cuda from empty caches are byte-equal (minutes: before a release)
	@set -e; mkdir -p build; d=$$(mktemp -d build/cuda-check.XXXXXX); trap 'rm -rf '$$d EXIT; \
	  for i in 1 2; do GOCACHE=$(CURDIR)/$$d/cache $(CUDA) $(GO) build -trimpath -tags cuda -ldflags '$(LDFLAGS) -buildid=' -o $$d/weir$$i ./cmd/weir; rm -rf $$d/cache; done; \
	  cmp $$d/weir1 $$d/weir2; sha256sum $$d/weir1 | cut -c1-64

# A driver library that emulates a GPU on the CPU, for tests.
EMU_DRIVER := build/cuda-emu/libcuda.so.1
$(EMU_DRIVER): $(wildcard device/cuda/fake/*.cc device/cuda/kernels/emu/* device/cuda/kernels/src/*) internal/cudashim/include/cuda.h
	mkdir -p $(dir $@)
	$(CXX) -std=c++17 -O2 -Wno-psabi -ffp-contract=off -fPIC -shared -Wl,-soname,libcuda.so.1 -Iinternal/cudashim/include \
	  device/cuda/fake/driver.cc device/cuda/kernels/emu/emu.cc -o $@

test-cuda-emu: $(EMU_DRIVER) ## the CUDA backend's tests on an emulated GPU (needs a C and a C++ compiler)
	$(CUDA) $(GO) vet -tags cuda ./internal/cudashim ./internal/cudrv ./device/cuda/... ./cmd/weir
	$(CUDA) $(GO) tool staticcheck -tags cuda ./internal/cudashim ./internal/cudrv ./device/cuda/... ./cmd/weir
	$(CUDA) $(GO) test -tags cuda -timeout 120s ./internal/cudrv
	$(CUDA) WEIR_CUDA_DRIVER=$(abspath $(EMU_DRIVER)) $(GO) test -tags 'cuda invariants' -timeout 900s ./device/cuda
	$(CUDA) WEIR_CUDA_DRIVER=$(abspath $(EMU_DRIVER)) $(GO) test -tags cuda -run 'Alloc|GPU|Device|Deadlines' -timeout 540s ./device/cuda ./device/cuda/check ./cmd/weir

# The kernels run in an emulator on the CPU, which needs a C++ compiler only: in two random
# orders of threads and blocks, one of them under sanitizers.
EMU      := device/cuda/kernels/emu
EMUTESTS := rows elements gemm attn attnx pick hopper experts recurrent
EMUFLAGS := -std=c++17 -Wall -Werror -Wno-psabi -Wno-unused-function -ffp-contract=off

test-cuda-kernels: $(EMUTESTS:%=build/emu/%) $(EMUTESTS:%=build/emu/%.san) ## the CUDA kernels in the emulator: odd shapes, tails, guards, sanitizers
	@set -e; for t in $(EMUTESTS); do GK_EMU_SEED=1 build/emu/$$t device/cuda/kernels/testdata/pick.bin; \
	  GK_EMU_SEED=2 WEIR_QUICK=1 build/emu/$$t.san device/cuda/kernels/testdata/pick.bin; done

build/emu/%: $(EMU)/test_%.cc $(wildcard $(EMU)/*.h $(EMU)/emu.cc device/cuda/kernels/src/*)
	@mkdir -p build/emu
	$(CXX) $(EMUFLAGS) -O2 $< $(EMU)/emu.cc -o $@

build/emu/%.san: $(EMU)/test_%.cc $(wildcard $(EMU)/*.h $(EMU)/emu.cc device/cuda/kernels/src/*)
	@mkdir -p build/emu
	$(CXX) $(EMUFLAGS) -O1 -fsanitize=address,alignment,shift,signed-integer-overflow,float-cast-overflow -fno-sanitize-recover=all $< $(EMU)/emu.cc -o $@

kernels: ## compile the CUDA kernels to PTX (needs clang-22)
	cd device/cuda/kernels/_gen && $(GO) run .

kernels-check: ## the committed PTX is what clang-22 compiles from the sources
	cd device/cuda/kernels/_gen && $(GO) vet . && $(GO) run . -check

test-cuda-mutants: ## plant bugs in the kernels one by one; the tests above must catch each (minutes)
	cd device/cuda/kernels/_mutants && $(GO) run .

kernels-ptxas: ## registers and spills of every kernel: PTXAS=path of a ptxas
	PTXAS=$(PTXAS) device/cuda/kernels/check_ptxas.sh

gen: ## write the generated assembly again
	cd device/cpu/_gen && $(GO) run . -out ..
	cd device/cpu/limits/_gen && $(GO) run . -out ..
	cd internal/cudashim/_gen && $(GO) run . -out ..

gen-check: ## the generated assembly is what its generator writes
	cd device/cpu/_gen && $(GO) vet . && $(GO) run . -check -out ..
	cd device/cpu/limits/_gen && $(GO) vet . && $(GO) run . -check -out ..
	cd internal/cudashim/_gen && $(GO) vet . && $(GO) run . -check -out ..

check: lint gen-check test ## what must pass before a commit lands

release: ## archives, SBOMs and checksums for linux and darwin in build/release (VERSION=..)
	$(GO) run ./tools/release -version $(VERSION) -out build/release

release-check: ## two runs of make release from different folders and empty build caches are byte-equal (many minutes)
	@set -e; mkdir -p build; d=$$(mktemp -d $(CURDIR)/build/release-check.XXXXXX); trap 'rm -rf '$$d EXIT; \
	  for i in 1 2; do git clone -q . $$d/src$$i; (cd $$d/src$$i && GOCACHE=$$d/cache $(GO) run ./tools/release -version $(VERSION) -out $$d/out$$i); rm -rf $$d/cache; done; \
	  diff -r $$d/out1 $$d/out2 && cat $$d/out1/SHA256SUMS

container: ## a container image with podman or docker (ENGINE=..)
	$(or $(ENGINE),podman) build -f Containerfile --build-arg VERSION=$(VERSION) -t weir:$(VERSION) .

clean: ## remove what was built
	rm -rf weir build
