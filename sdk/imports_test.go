package sdk_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A deployer must not have to bring along what the host is made of.
func TestDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dependency := range strings.Lines(string(out)) {
		for _, unwanted := range []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go", "helm.sh/helm", "github.com/pergola-deploy/pergola/host"} {
			if strings.HasPrefix(dependency, unwanted) {
				t.Errorf("the sdk depends on %s", strings.TrimSpace(dependency))
			}
		}
	}
}

// A program that checks plugins is no test.
func TestConformanceNeedsNoTest(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Imports " "}}`, "./conformance").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if slices.Contains(strings.Fields(string(out)), "testing") {
		t.Error("package conformance imports package testing")
	}
}

// The protocol can change without the code of a plugin author when none of its types is in a signature.
func TestNoProtocolInExportedSignatures(t *testing.T) {
	t.Parallel()
	const sdk = "github.com/pergola-deploy/pergola/sdk"
	packages := []string{sdk, sdk + "/hook", sdk + "/hook/continuousreconcile", sdk + "/sdktest", sdk + "/conformance"}
	load := importer.ForCompiler(token.NewFileSet(), "gc", exportData(t, packages))
	for _, path := range packages {
		pkg, err := load.Import(path)
		if err != nil {
			t.Fatalf("load %s: %v", path, err)
		}
		walk := &signatureWalk{pkg: pkg, seen: map[types.Type]bool{}}
		for _, name := range pkg.Scope().Names() {
			if object := pkg.Scope().Lookup(name); object.Exported() {
				walk.visit(name, object.Type())
			}
		}
		for _, found := range walk.found {
			t.Errorf("%s: %s", path, found)
		}
	}
}

// The check itself must see what it looks for.
func TestSignatureWalkFindsProtocolTypes(t *testing.T) {
	t.Parallel()
	const proto = "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	pkg, err := importer.ForCompiler(token.NewFileSet(), "gc", exportData(t, []string{proto})).Import(proto)
	if err != nil {
		t.Fatal(err)
	}
	walk := &signatureWalk{pkg: pkg, seen: map[types.Type]bool{}}
	walk.visit("NewDeployerServiceClient", pkg.Scope().Lookup("NewDeployerServiceClient").Type())
	if len(walk.found) == 0 {
		t.Error("a gRPC type in a signature was not found")
	}
}

// exportData returns where the compiler's description of each package is.
func exportData(t *testing.T, packages []string) importer.Lookup {
	t.Helper()
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Export"}, packages...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := map[string]string{}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var listed struct{ ImportPath, Export string }
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		files[listed.ImportPath] = listed.Export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// signatureWalk visits every type that a user of a package can reach through exported names.
type signatureWalk struct {
	pkg   *types.Package
	seen  map[types.Type]bool
	found []string
}

func (w *signatureWalk) visit(where string, t types.Type) {
	t = types.Unalias(t)
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	switch t := t.(type) {
	case *types.Named:
		w.named(where, t)
	case *types.Pointer:
		w.visit(where, t.Elem())
	case *types.Slice:
		w.visit(where, t.Elem())
	case *types.Array:
		w.visit(where, t.Elem())
	case *types.Chan:
		w.visit(where, t.Elem())
	case *types.Map:
		w.visit(where, t.Key())
		w.visit(where, t.Elem())
	case *types.Signature:
		w.tuple(where, t.Params())
		w.tuple(where, t.Results())
	case *types.Struct:
		for field := range t.Fields() {
			if field.Exported() {
				w.visit(where+"."+field.Name(), field.Type())
			}
		}
	case *types.Interface:
		for method := range t.Methods() {
			if method.Exported() {
				w.visit(where+"."+method.Name(), method.Type())
			}
		}
	}
}

func (w *signatureWalk) tuple(where string, tuple *types.Tuple) {
	for v := range tuple.Variables() {
		w.visit(where, v.Type())
	}
}

// named reports a type of the protocol, and looks into one of the package itself.
func (w *signatureWalk) named(where string, t *types.Named) {
	for argument := range t.TypeArgs().Types() {
		w.visit(where, argument)
	}
	pkg := t.Obj().Pkg()
	if pkg == nil {
		return
	}
	for _, unwanted := range []string{
		"google.golang.org/grpc", "google.golang.org/protobuf", "github.com/pergola-deploy/pergola/proto", "github.com/hashicorp/go-plugin",
	} {
		if strings.HasPrefix(pkg.Path(), unwanted) {
			w.found = append(w.found, fmt.Sprintf("%s mentions %s", where, t))
			return
		}
	}
	if pkg.Path() != w.pkg.Path() {
		return
	}
	w.visit(where, t.Underlying())
	for method := range t.Methods() {
		if method.Exported() {
			w.visit(where+"."+method.Name(), method.Type())
		}
	}
}
