# Pergola's tasks. `make` lists them. Tools are built at their pinned versions into bin/tools when they are first needed.

SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --warn-undefined-variables --no-print-directory

export CGO_ENABLED ?= 0
# The version of Go that is installed is the one that builds.
export GOTOOLCHAIN := local

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo 0.0.0-dev)
PLUGINS := mock manifest
TOOLS   := bin/tools
GO_FILES = $(shell git ls-files -co --exclude-standard -- '*.go' go.mod go.sum)

LDFLAGS = -s -w -X main.version=$(VERSION)
CLUSTER = go run -C test/cluster .
NODE ?=
CLUSTER_DIR := $(CURDIR)/.cluster
FUZZTIME ?= 5m
BENCH ?=

##@ Use

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: $(PLUGINS:%=bin/plugins/%) bin/pergola ## Build bin/pergola and bin/plugins/*

bin/pergola: $(GO_FILES)
	go build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./host/cmd/pergola

# The host runs no plugin that others than its owner may write, whatever the umask is.
bin/plugins/%: $(GO_FILES)
	umask 022; go build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./plugins/$*

.PHONY: demo
demo: build ## See Pergola work: control plane, host, plugins and examples; leaves nothing running
	@go run ./test/demo

##@ Develop

.PHONY: test
test: race-binaries python-grpc cluster-binaries $(TOOLS)/gotestsum ## Run all tests, with the race detector
	KUBEBUILDER_ASSETS=$$($(CLUSTER) path) CGO_ENABLED=1 $(TOOLS)/gotestsum --format pkgname-and-test-fails -- -race -timeout 40m ./...
	cd test/cluster && go vet . ./internal/... && CGO_ENABLED=1 go test -race . ./internal/...
	$(MAKE) fuzz FUZZTIME=2s

.PHONY: c-compiler
c-compiler:
	@command -v gcc >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get update -qq && apt-get install -y -qq gcc libc6-dev; } || \
		{ echo "Go's race detector needs a C compiler: install gcc (apt-get install gcc libc6-dev) and try again"; exit 1; }

.PHONY: python-grpc
python-grpc:
	@/usr/bin/python3 -I -c 'import grpc, google.protobuf' 2>/dev/null && command -v openssl >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get update -qq && apt-get install -y -qq python3-grpcio openssl; } || \
		echo "The tests of the plugin in Python are skipped: they need python3-grpcio and openssl (apt-get install python3-grpcio openssl)"

.PHONY: race-binaries
race-binaries: c-compiler ## Build what the end-to-end tests start, with the race detector
	CGO_ENABLED=1 go build -race -o bin/race/pergola ./host/cmd/pergola
	umask 022; CGO_ENABLED=1 go build -race -o bin/race/plugins/ $(PLUGINS:%=./plugins/%)
	umask 022; CGO_ENABLED=1 go build -race -o bin/race/test/ ./test/plugins/... ./test/demo ./sdk/examples/...

.PHONY: fuzz
fuzz: ## Fuzz each fuzz target for FUZZTIME (5m)
	@set -e; grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
		grep -oE '^func Fuzz[A-Za-z0-9]+' $$file | cut -c6- | while read -r target; do \
			echo "== $$target in $$(dirname $$file)"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); done; done

.PHONY: bench
bench: bin/pergola cluster-binaries ## Measure plugins' calls and starts, what more replicas bring, and the start with many items
	go test -run '^$$' -bench 'Call|Hooks|Start' -benchtime 500x ./host/internal/plugin
	umask 022; go build -trimpath -ldflags '$(LDFLAGS)' -o bin/bench/plugins/ ./test/plugins/counter
	KUBEBUILDER_ASSETS=$$($(CLUSTER) path) go run ./test/bench -plugins bin/bench/plugins $(BENCH)

.PHONY: generate
generate: $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc $(TOOLS)/controller-gen ## Write all generated files anew
	$(TOOLS)/buf format -w
	$(TOOLS)/buf generate --template proto/buf.gen.yaml
	$(TOOLS)/controller-gen object paths=./sdk/api/landscaper/v1alpha1
	$(TOOLS)/controller-gen crd paths=./sdk/api/landscaper/v1alpha1 output:crd:dir=sdk/api/landscaper/crds

.PHONY: verify
verify: verify-generated $(TOOLS)/golangci-lint ## Check generated files, protocol, modules, format and lint
	$(TOOLS)/buf lint
	$(TOOLS)/buf breaking --against proto/released.binpb
	go vet ./...
	go mod tidy -diff
	go mod verify >/dev/null
	$(TOOLS)/golangci-lint run ./...

# Compares with the files as they are, not as they were committed, so that it says the same before and after a commit.
GENERATED_SUM = git ls-files -z proto/pergola sdk/api/landscaper | xargs -0 sha256sum
.PHONY: verify-generated
verify-generated:
	@before=$$($(GENERATED_SUM)); $(MAKE) generate; \
		diff <(echo "$$before") <($(GENERATED_SUM)) || { echo "generated files were out of date; commit what make generate has written"; exit 1; }

.PHONY: release-protocol
release-protocol: $(TOOLS)/buf ## Make the protocol as it is the one that later versions must not break
	$(TOOLS)/buf build -o proto/released.binpb

##@ Real cluster

.PHONY: cluster-binaries
cluster-binaries: ## Build etcd, kube-apiserver and so on into the user's cache directory, once
	@$(CLUSTER) build >/dev/null

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
tools: $(addprefix $(TOOLS)/,buf protoc-gen-go protoc-gen-go-grpc controller-gen gotestsum golangci-lint) ## Build all tools

$(TOOLS)/golangci-lint: golangci.mod
	go build -modfile=golangci.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(TOOLS)/buf: tools.mod
	go build -modfile=tools.mod -o $@ github.com/bufbuild/buf/cmd/buf
$(TOOLS)/protoc-gen-go: tools.mod
	go build -modfile=tools.mod -o $@ google.golang.org/protobuf/cmd/protoc-gen-go
$(TOOLS)/protoc-gen-go-grpc: tools.mod
	go build -modfile=tools.mod -o $@ google.golang.org/grpc/cmd/protoc-gen-go-grpc
$(TOOLS)/controller-gen: tools.mod
	go build -modfile=tools.mod -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen
$(TOOLS)/gotestsum: tools.mod
	go build -modfile=tools.mod -o $@ gotest.tools/gotestsum

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin
