# Pergola's tasks. `make` lists them. Tools are built at their pinned versions into bin/tools when they are first needed.

SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --warn-undefined-variables --no-print-directory

export CGO_ENABLED ?= 0
# The version of Go that is installed is the one that builds.
export GOTOOLCHAIN := local
# All builds have the same flags, so that none of them compiles again what another has compiled.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo 0.0.0-dev)
PLUGINS := mock manifest helm container
TOOLS   := bin/tools
GO_FILES = $(shell git ls-files -co --exclude-standard -- '*.go' go.mod go.sum)

LDFLAGS = -s -w -X main.version=$(VERSION)
CLUSTER = go run -C test/cluster .
NODE ?=
CLUSTER_DIR := $(CURDIR)/.cluster
FUZZTIME ?= 5m
# Property tests draw the same few cases each time, so that whether a commit passes does not depend on luck. `make properties` draws others.
RAPID_SEED ?= 1
RAPID_CHECKS ?= 20
BENCH ?=
SOAK ?= 10m
SOAK_FLAGS ?=
# $(call APT,PACKAGES) installs packages where this user may. What apt prints matters only if it fails.
APT = [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { said=$$({ apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1); } 2>&1) || { echo "$$said" >&2; false; }; }

##@ Use

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: $(PLUGINS:%=bin/plugins/%) bin/pergola ## Build bin/pergola and bin/plugins/*

# It changes with VERSION, for what has the version in it.
bin/version: FORCE
	@mkdir -p bin; echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' > $@
.PHONY: FORCE

bin/pergola: $(GO_FILES) bin/version
	go build -ldflags '$(LDFLAGS)' -o $@ ./host/cmd/pergola

# The host runs no plugin that others than its owner may write, whatever the umask is.
bin/plugins/%: $(GO_FILES) bin/version
	umask 022; go build -ldflags '$(LDFLAGS)' -o $@ ./plugins/$*

# One comma-separated list, as container builders take it.
PLATFORMS ?= linux/amd64,linux/arm64
IMAGES ?= bin/image
PUSH ?=
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
# The same bytes in each clone: Go would note Git's tags in programs, and not all clones have the same ones.
BUILD_IMAGE = -buildvcs=false -ldflags '$(LDFLAGS)'

.PHONY: image
image: ## Assemble images for PLATFORMS into bin/image; PUSH=registry.example.org/team pushes them there, as VERSION
	@set -e; for platform in $$(echo $(PLATFORMS) | tr , ' '); do echo "Building programs for $$platform"; \
		umask 022; export CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		go build $(BUILD_IMAGE) -o $(IMAGES)/programs/$$platform/ ./host/cmd/pergola ./plugins/container/helper; \
		go build $(BUILD_IMAGE) -o $(IMAGES)/programs/$$platform/plugins/ $(PLUGINS:%=./plugins/%); done
	@go run ./charts/internal/image --programs $(IMAGES)/programs --platforms $(PLATFORMS) --out $(IMAGES) --push '$(PUSH)' \
		--version $(VERSION) --revision "$$(git rev-parse HEAD 2>/dev/null)" --created $(SOURCE_DATE_EPOCH)
	@cd $(IMAGES) && for image in pergola container-helper; do tar --sort=name --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner \
		--mode=a=rX -cf $$image.tar -C $$image blobs index.json oci-layout; done
	@echo "Images are in $(IMAGES): $$(cd $(IMAGES) && echo *.tar)"

.PHONY: release
release: $(TOOLS)/helm ## Make all files of a release in bin/release, for VERSION and PLATFORMS; PUSH pushes its images and its chart there
	@lack=$$(git status --porcelain) && [ -z "$$lack" ] || { \
		echo "A release is of a commit; commit or remove what git status --short shows: $$lack" >&2; exit 1; }
	@$(MAKE) image chart
	@go run ./charts/internal/release --images $(IMAGES) --chart bin/chart/pergola-$(CHART_VERSION).tgz --helm $(TOOLS)/helm --push '$(PUSH)' \
		--version $(VERSION) --revision "$$(git rev-parse HEAD)" --created $(SOURCE_DATE_EPOCH)
	@echo "The release is in bin/release; RELEASE.md there says how it is checked"

# Versions of charts are semantic ones without a v; that of a commit without a tag comes before all of them.
CHART_VERSION ?= $(if $(filter v%,$(VERSION)),$(VERSION:v%=%),0.0.0-g$(VERSION))
.PHONY: chart
chart: $(TOOLS)/helm ## Pack the chart into bin/chart, for the images of VERSION
	$(TOOLS)/helm package charts/pergola --version $(CHART_VERSION) --app-version $(VERSION) --destination bin/chart

# With DEMO_CLUSTER=current the demo uses the cluster of $KUBECONFIG, and needs none of its own.
DEMO_CLUSTER ?=
DEMO_NEEDS = $(if $(filter current,$(DEMO_CLUSTER)),,control-plane-binaries)
.PHONY: demo
demo: export DEMO_BEGAN := $(shell date +%s%3N)
demo: export DEMO_NODE_PACKAGES = $(MAKE) node-packages
demo: build $(DEMO_NEEDS) ## See Pergola work: control plane, host, plugins and examples; leaves nothing running
	@go run ./test/demo

##@ Develop

# These take longest, and are begun first.
LONG_TESTS = ./test/e2e/... ./plugins/helm/internal/deployer ./charts ./test/chaos
# The tests of one run share a control plane where one is enough for them. `make verify` vets.
GOTESTSUM = KUBEBUILDER_ASSETS=$$($(CLUSTER) path) CGO_ENABLED=1 RAPID_SEED=$(RAPID_SEED) RAPID_CHECKS=$(RAPID_CHECKS) \
	go run ./test/testenv/run $(TOOLS)/gotestsum --format pkgname-and-test-fails --jsonfile bin/test.json -- -race -count 1 -timeout 40m -vet off

.PHONY: test
test: build test-plugins test-needs ## Run all tests, with the race detector
	@$(RUN_TESTS)

.PHONY: test-unit
test-unit: ## Run the tests that need no cluster, without the race detector
	go test -short $$(go list ./... | grep -v /test/e2e)

# It takes several times as long as `make test`, which starts programs as users get them.
.PHONY: test-race
test-race: race-binaries test-needs ## Run all tests, and have all programs that they start built with the race detector
	@export PERGOLA_TEST_BINARIES=$(CURDIR)/bin/race; $(RUN_TESTS)

.PHONY: test-needs
test-needs: c-compiler test-image python-grpc node-packages browser cluster-binaries $(TOOLS)/gotestsum $(TOOLS)/helm

RUN_TESTS = status=0; \
	(cd test/cluster && go vet . ./internal/... && go test ./internal/...) || status=$$?; \
	$(GOTESTSUM) $(LONG_TESTS) $$(go list ./... | grep -vxF "$$(go list $(LONG_TESTS))") || status=$$?; \
	go run ./test/rules -ran bin/test.json || status=$$?; \
	echo; echo "The slowest tests:"; $(TOOLS)/gotestsum tool slowest --num 10 --jsonfile bin/test.json; \
	echo "What every test has printed is in bin/test.json."; exit $$status

# testplugin is each of these plugins, by the name of its file.
TEST_PLUGINS := hooksonly keeper probe rogue tracer
LINK_TEST_PLUGINS = cd $(1); for plugin in $(TEST_PLUGINS); do ln -f testplugin $$plugin; done

.PHONY: test-plugins
test-plugins:
	umask 022; go build -o bin/test/ ./test/plugins/... ./test/demo ./sdk/examples/...
	$(call LINK_TEST_PLUGINS,bin/test)

.PHONY: c-compiler
c-compiler:
	@command -v gcc >/dev/null || { $(call APT,gcc libc6-dev); } || \
		{ echo "Go's race detector needs a C compiler: install gcc (apt-get install gcc libc6-dev) and try again"; exit 1; }

.PHONY: python-grpc
python-grpc:
	@/usr/bin/python3 -I -c 'import grpc, google.protobuf' 2>/dev/null && command -v openssl >/dev/null || \
		{ $(call APT,python3-grpcio openssl); } || \
		echo "The tests of the plugin in Python are skipped: they need python3-grpcio and openssl (apt-get install python3-grpcio openssl)"

.PHONY: race-binaries
race-binaries: c-compiler
	CGO_ENABLED=1 go build -race -o bin/race/pergola ./host/cmd/pergola
	umask 022; CGO_ENABLED=1 go build -race -o bin/race/plugins/ $(PLUGINS:%=./plugins/%)
	umask 022; CGO_ENABLED=1 go build -race -o bin/race/test/ ./test/plugins/... ./test/demo ./sdk/examples/...
	$(call LINK_TEST_PLUGINS,bin/race/test)

# The images are those that users get, but for one platform, and for a version that lets programs stay that have not changed.
.PHONY: test-image
test-image: $(TOOLS)/containerd/containerd $(TOOLS)/helm ## Build the images that are tested on a node, a container runtime that has volumes made of images, and Helm
	@$(MAKE) image PLATFORMS=linux/$$(go env GOARCH) IMAGES=bin/test-image VERSION=0.0.0-test SOURCE_DATE_EPOCH=0

.PHONY: node-packages
node-packages:
	@lack=$$($(CLUSTER) requirements) || exit 1; [ -z "$$lack" ] || { [[ "$$lack" = *apt-get* ]] && \
		$(call APT,containerd runc containernetworking-plugins nftables iproute2); } || \
		echo "What needs a node is skipped: $$lack"

# Pages are looked at with a real browser.
.PHONY: browser
browser:
	@command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null || \
		{ $(call APT,chromium-headless-shell fonts-dejavu-core); } || \
		echo "The tests with a browser are skipped: they need chromium-headless-shell or chromium"

.PHONY: pictures
pictures: build test-plugins cluster-binaries browser ## Take the pictures in the docs anew
	dot -Tsvg docs/images/way-of-an-item.dot -o docs/images/way-of-an-item.svg # of the package graphviz
	KUBEBUILDER_ASSETS=$$($(CLUSTER) path) go test -count 1 ./test/e2e -run TestStatusPage -pictures

.PHONY: properties
properties: RAPID_SEED = 0
properties: RAPID_CHECKS = 500
properties: c-compiler cluster-binaries $(TOOLS)/gotestsum ## Run the property tests with 500 new cases each
	@$(GOTESTSUM) $$(grep -rl pgregory.net/rapid --include='*_test.go' . | xargs -n1 dirname | sort -u)

.PHONY: fuzz
fuzz: ## Fuzz each fuzz target for FUZZTIME (5m); `make test` runs what they begin with
	@set -e; grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
		grep -oE '^func Fuzz[A-Za-z0-9]+' $$file | cut -c6- | while read -r target; do \
			echo "== $$target in $$(dirname $$file)"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); done; done

# The packages that decide. Each change that a mutation makes there should make one of the package's tests fail.
MUTATE ?= host/internal/contract host/internal/lock sdk/hook host/internal/target \
	plugins/internal/apply plugins/internal/desired plugins/internal/managedfields plugins/internal/objects \
	plugins/internal/prune plugins/helm/internal/release plugins/internal/readiness plugins/internal/completion
.PHONY: mutate
mutate: cluster-binaries $(TOOLS)/gremlins ## Change the code of the packages MUTATE that decide, and show which changes no test notices; takes hours
	@export KUBEBUILDER_ASSETS=$$($(CLUSTER) path); for package in $(MUTATE); do echo "== $$package"; \
		go run ./test/testenv/run $(TOOLS)/gremlins unleash --timeout-coefficient 10 --output-statuses lct ./$$package || exit 1; done

.PHONY: bench
bench: build cluster-binaries ## Measure plugins' calls and starts, more replicas, many items, many objects
	go test -run '^$$' -bench 'Call|Hooks|Start' -benchtime 500x ./host/internal/plugin
	umask 022; go build -ldflags '$(LDFLAGS)' -o bin/bench/plugins/ ./test/plugins/counter
	KUBEBUILDER_ASSETS=$$($(CLUSTER) path) go run ./test/bench -plugins bin/bench/plugins $(BENCH)

.PHONY: soak
soak: build test-plugins cluster-binaries ## Let hosts, plugins, API server and target fail at random for SOAK (10m), and see that nothing is lost and nothing grows
	KUBEBUILDER_ASSETS=$$($(CLUSTER) path) go test ./test/chaos -v -count 1 -timeout 0 -run TestReplicasUnderFire \
		-chaos.for $(SOAK) -chaos.items 1000 -chaos.seed 0 $(SOAK_FLAGS)

.PHONY: generate
generate: $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc $(TOOLS)/controller-gen ## Write all generated files anew
	$(TOOLS)/buf format -w
	$(TOOLS)/buf generate --template proto/buf.gen.yaml
	$(TOOLS)/controller-gen object paths=./sdk/api/landscaper/v1alpha1
	$(TOOLS)/controller-gen crd paths=./sdk/api/landscaper/v1alpha1 output:crd:dir=sdk/api/landscaper/crds
	go run ./test/schemagen
	go run ./charts/internal/chartgen
	go run ./test/rules

.PHONY: verify
verify: verify-generated $(TOOLS)/golangci-lint ## Check generated files, protocol, modules, format, lint, packages and English
	$(TOOLS)/buf lint
	$(TOOLS)/buf breaking --against proto/released.binpb
	go vet ./...
	go mod tidy -diff
	go mod verify >/dev/null
	go run ./test/house
	$(TOOLS)/golangci-lint run ./...

# Compares with the files as they are, not as they were committed, so that it says the same before and after a commit.
GENERATED_SUM = git ls-files -z proto/pergola sdk/api/landscaper '*.schema.json' charts/pergola test/rules.md | xargs -0 sha256sum
.PHONY: verify-generated
verify-generated:
	@before=$$($(GENERATED_SUM)); $(MAKE) generate; \
		diff <(echo "$$before") <($(GENERATED_SUM)) || { echo "generated files were out of date; commit what make generate has written"; exit 1; }

.PHONY: release-protocol
release-protocol: $(TOOLS)/buf ## Make the protocol as it is the one that later versions must not break
	$(TOOLS)/buf build -o proto/released.binpb

##@ Real cluster

# With KUBEBUILDER_ASSETS set nothing is built, and what needs a node is skipped unless its programs are there too.
.PHONY: cluster-binaries
cluster-binaries: ## Build etcd, kube-apiserver and so on into the user's cache directory, once; KUBEBUILDER_ASSETS names others
	@$(CLUSTER) build >/dev/null

.PHONY: control-plane-binaries
control-plane-binaries:
	@$(CLUSTER) build --control-plane >/dev/null

.PHONY: cluster
cluster: ## Start a real control plane, kubeconfig at .cluster/kubeconfig; NODE=1 adds a node that runs pods
	@$(CLUSTER) up --dir $(CLUSTER_DIR) $(if $(NODE),--node)
	@mkdir -p bin && ln -sfn "$$($(CLUSTER) path)/kubectl" bin/kubectl
	@echo "Use it: export KUBECONFIG=$(CLUSTER_DIR)/kubeconfig; bin/kubectl get namespaces"

.PHONY: cluster-down
cluster-down: ## Stop it
	@$(CLUSTER) down --dir $(CLUSTER_DIR)

##@ Tools

.PHONY: tools
tools: $(addprefix $(TOOLS)/,buf protoc-gen-go protoc-gen-go-grpc controller-gen gotestsum golangci-lint helm) ## Build all tools

# The Helm that users have, for the tests. It is a tool of the main module, so that most of it is what the helm plugin is built of.
$(TOOLS)/helm: go.mod
	go build -o $@ helm.sh/helm/v3/cmd/helm
$(TOOLS)/golangci-lint: golangci.mod
	go build -modfile=golangci.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
# Debian's has no volumes that are made of images.
$(TOOLS)/containerd/containerd: test/cluster/containerd.mod
	go build -C test/cluster -modfile=containerd.mod -ldflags '-s -w' -tags 'no_btrfs no_devmapper no_zfs' -o $(CURDIR)/$(@D)/ tool
$(TOOLS)/buf: tools.mod
	go build -modfile=tools.mod -o $@ github.com/bufbuild/buf/cmd/buf
$(TOOLS)/protoc-gen-go: tools.mod
	go build -modfile=tools.mod -o $@ google.golang.org/protobuf/cmd/protoc-gen-go
$(TOOLS)/protoc-gen-go-grpc: tools.mod
	go build -modfile=tools.mod -o $@ google.golang.org/grpc/cmd/protoc-gen-go-grpc
$(TOOLS)/controller-gen: tools.mod
	go build -modfile=tools.mod -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen
$(TOOLS)/gremlins: tools.mod
	go build -modfile=tools.mod -o $@ github.com/go-gremlins/gremlins/cmd/gremlins
$(TOOLS)/gotestsum: tools.mod
	go build -modfile=tools.mod -o $@ gotest.tools/gotestsum

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin
