package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
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
	WaitFor    string `json:"waitFor,omitempty"`
}

func newGreeting(file, text string) greeting {
	return greeting{APIVersion: "test.pergola.dev/v1", Kind: "Greeting", File: file, Greeting: text}
}

// A plugin in another language, built from the protocol's descriptors alone, keeps the rules of the protocol.
func TestPythonPluginConforms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "greeting")
	item := sdktest.DeployItem(pythonType, newGreeting(file, "good morning"))

	report, err := conformance.Binary(t.Context(), pythonPlugin(t, t.TempDir()), conformance.Options{
		Cases: []conformance.Case{{Name: "greets", Call: conformance.Call{DeployItem: item}}}, Output: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range report.Broken() {
		t.Errorf("rule %s is broken: %q", broken.Rule, broken.Messages)
	}
	expectNoFile(t, file)
}

// A call that has nothing to say sends heartbeats, and ends in order when it is asked to.
func TestPythonPluginWaits(t *testing.T) {
	dir := t.TempDir()
	config := newGreeting(filepath.Join(dir, "greeting"), "good morning")
	config.WaitFor = filepath.Join(dir, "never")
	heard, stop := context.WithCancel(t.Context())
	defer stop()
	call := sdktest.Call{DeployItem: sdktest.DeployItem(pythonType, config), Stop: heard.Done(), OnMessage: func(m sdktest.Message) {
		if m.Heartbeat {
			stop()
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	result := sdktest.Start(t, pythonPlugin(t, t.TempDir())).Reconcile(ctx, call)

	if result.InProgress == nil {
		t.Errorf("expected the job to be in progress, but found %s", result)
	}
	expectNoFile(t, config.File)
}

// What is to be written must be noted before; what could not be noted is not written.
func TestPythonPluginSavesBeforeItActs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "greeting")
	call := sdktest.Call{
		DeployItem: sdktest.DeployItem(pythonType, newGreeting(file, "good morning")),
		OnSave:     func(json.RawMessage) error { return errors.New("the API server is away") },
	}

	result := sdktest.Start(t, pythonPlugin(t, t.TempDir())).Reconcile(t.Context(), call)

	if result.Failed == nil || len(result.Failed.Codes()) != 0 {
		t.Errorf("expected a failure that is tried again, but found %s", result)
	}
	expectNoFile(t, file)
}

// A plugin that is started by hand says what it is, and is no mystery.
func TestPythonPluginStartedByHand(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), pythonPlugin(t, t.TempDir())).CombinedOutput()

	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "deployer plugin for Pergola") {
		t.Errorf("expected a message for people and exit code 1, but found %q and error %v", out, err)
	}
}

// A mistake in the plugin's configuration or in a provider configuration is named by its field, before anything is carried out.
func TestPythonPluginNamesMistakes(t *testing.T) {
	plugin := sdktest.Start(t, pythonPlugin(t, t.TempDir()))
	want := []sdk.Problem{{Field: "config", Message: `unknown field "signatur"`}}
	problems, err := plugin.Configure(t.Context(), []byte(`{"apiVersion":"test.pergola.dev/v1","kind":"Signature","signatur":"!"}`))
	if diff := cmp.Diff(want, problems); err != nil || diff != "" {
		t.Errorf("problems of the configuration (-want +got): %s, error %v", diff, err)
	}
	want = []sdk.Problem{{Field: "spec.config.file", Message: "expected an absolute path, but found 'here'"}}
	problems, err = plugin.Validate(t.Context(), pythonType, marshal(t, newGreeting("here", "good morning")))
	if diff := cmp.Diff(want, problems); err != nil || diff != "" {
		t.Errorf("problems of the provider configuration (-want +got): %s, error %v", diff, err)
	}
}

// A host finds, configures and calls the plugin beside one that is built with the sdk.
func TestPythonPluginServesHost(t *testing.T) {
	plugins, dir := pluginDir(t, "mock"), t.TempDir()
	pythonPlugin(t, plugins)
	config := fmt.Sprintf(`apiVersion: host.pergola.dev/v1alpha1
kind: HostConfiguration
plugins:
  python:
    confinement: {write: [%s]}
    config: {apiVersion: test.pergola.dev/v1, kind: Signature, signature: "!"}
`, dir)
	startReadyHost(t, testenv.HostOptions{PluginDir: plugins, Config: writeConfig(t, config)})
	namespace, first, second := newNamespace(t), filepath.Join(dir, "first"), filepath.Join(dir, "second")

	item := newItem(namespace, "python", pythonType, string(marshal(t, newGreeting(first, "good morning"))))
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	expectFile(t, first, "good morning!")
	if found := exports(t, item)["greeting"]; found != "good morning" {
		t.Errorf("expected the greeting to be exported, but found %v", found)
	}
	carryOut(t, newItem(namespace, "mock", mockType, mockSucceeds), v1alpha1.DeployItemPhaseSucceeded)

	edit(t, item, func() { item.Spec.Config.Raw = marshal(t, newGreeting(second, "good evening")) })
	item = carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
	expectFile(t, second, "good evening!")
	expectNoFile(t, first)

	deleteObject(t, item)
	setJob(t, item)
	waitGone(t, item)
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

// pythonPlugin puts the plugin into a directory as one executable file, and returns its path: a zip archive of its sources and
// the descriptors of the messages, which Python runs as it is. Isolated (-I), it takes its libraries from the distribution and
// nowhere else. The test is skipped where they are missing.
func pythonPlugin(t *testing.T, dir string) string {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), python, "-I", "-c", "import grpc, google.protobuf").CombinedOutput(); err != nil {
		t.Skipf("%s cannot run the plugin; apt-get install python3-grpcio openssl provides what it needs: %v\n%s", python, err, out)
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
