package e2e

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/conformance"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	pythonType = "test.pergola.dev/python"
	python     = "/usr/bin/python3"
)

// greeting is the provider configuration of the Python plugin.
type greeting struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	File       string `json:"file"`
	Greeting   string `json:"greeting"`
}

func newGreeting(file, text string) greeting {
	return greeting{APIVersion: "test.pergola.dev/v1", Kind: "Greeting", File: file, Greeting: text}
}

// TestPythonPlugin: a plugin in another language, built from the protocol's descriptors alone, keeps the rules of
// the protocol, and a host configures and calls it beside one that is built with the sdk.
func TestPythonPlugin(t *testing.T) {
	plugins, dir := pluginDir(t, "mock"), t.TempDir()
	program, first, second := pythonPlugin(t, plugins), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	report, err := conformance.Binary(t.Context(), program, conformance.Options{
		Cases: []conformance.Case{{Name: "greets", Call: conformance.Call{
			DeployItem: sdktest.DeployItem(pythonType, newGreeting(first, "good morning")),
		}}},
		Output: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range report.Broken() {
		t.Errorf("rule %s is broken: %q", broken.Rule, broken.Messages)
	}

	config := anyConfig + fmt.Sprintf(`plugins:
  python:
    confinement: {write: [%s]}
    config: {apiVersion: test.pergola.dev/v1, kind: Signature, signature: "!"}
`, dir)
	startReadyHost(t, testenv.HostOptions{PluginDir: plugins, Config: writeConfig(t, config)})
	namespace := newNamespace(t)
	item := newItem(namespace, "python", pythonType, string(marshal(t, newGreeting(first, "good morning"))))
	item = carryOut(t, item, succeeded)
	expectFile(t, first, "good morning!")
	if found := exports(t, item)["greeting"]; found != "good morning" {
		t.Errorf("expected the greeting to be exported, but found %v", found)
	}
	carryOut(t, newItem(namespace, "mock", mockType, mockSucceeds), succeeded)
	edit(t, item, func() { item.Spec.Config.Raw = marshal(t, newGreeting(second, "good evening")) })
	item = carryOutAgain(t, item, succeeded)
	expectFile(t, second, "good evening!")
	expectNoFile(t, first)
	deleteItem(t, item)
	expectNoFile(t, second)
}

func expectFile(t *testing.T, file, want string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil || string(content) != want {
		t.Errorf("expected the file %s to hold %q, but found %q and error %v", filepath.Base(file), want, content, err)
	}
}

func expectNoFile(t *testing.T, file string) {
	t.Helper()
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("expected no file %s, but found one, or error %v", filepath.Base(file), err)
	}
}

// pythonPlugin puts the plugin into a directory as one executable file, and returns its path: a zip archive of its
// sources and the descriptors of the messages, which Python runs as it is. Isolated (-I), it takes its libraries
// from the distribution and nowhere else. The test is skipped where they are missing.
func pythonPlugin(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), python, "-I", "-c", "import grpc, google.protobuf").CombinedOutput()
	if err != nil {
		t.Skipf("%s cannot run the plugin; apt-get install python3-grpcio openssl provides what it needs: %v\n%s",
			python, err, out)
	}
	content := bytes.NewBufferString("#!" + python + " -I\n")
	archive := zip.NewWriter(content)
	archive.SetOffset(int64(content.Len()))
	if err := archive.AddFS(os.DirFS(filepath.Join(testenv.Root(), "test", "plugins", "python"))); err != nil {
		t.Fatal(err)
	}
	descriptors, err := archive.Create("descriptors.binpb")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := descriptors.Write(protocolDescriptors(t)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "python")
	if err := os.WriteFile(path, content.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// protocolDescriptors are the descriptors of the protocol, of what it imports and of gRPC's health service.
func protocolDescriptors(t *testing.T) []byte {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	for _, file := range []protoreflect.FileDescriptor{
		durationpb.File_google_protobuf_duration_proto,
		deployerv1.File_pergola_deployer_v1_deployer_proto,
		grpc_health_v1.File_grpc_health_v1_health_proto,
	} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	out, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
