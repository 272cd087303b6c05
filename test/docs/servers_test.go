package docs

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// maxLines is how long an example may be that is to be read.
const maxLines = 60

// TestHTTPHookServer: the server of the page about hooks takes the requests that the host sends, and labels all
// objects.
func TestHTTPHookServer(t *testing.T) {
	t.Parallel()
	program := source(t, hooksPage, "python", `"""An HTTP hook`)
	checkLength(t, program)
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 on this machine")
	}
	file := filepath.Join(t.TempDir(), "labels.py")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	checkServer(t, serve(t, interpreter, file))
}

func checkLength(t *testing.T, program string) {
	t.Helper()
	if lines := strings.Count(program, "\n"); lines > maxLines {
		t.Errorf("expected an example of at most %d lines, but found %d", maxLines, lines)
	}
}

// serve runs a server until the end of the test and returns its URL.
func serve(t *testing.T, name string, arguments ...string) (url string) {
	t.Helper()
	program := exec.CommandContext(patient(t), name, append(arguments, "--listen", "127.0.0.1:0")...)
	stderr, err := program.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for url == "" && lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "listening on "); ok {
			url = "http://" + address
		}
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		_, _ = io.Copy(io.Discard, stderr)
	}()
	t.Cleanup(func() {
		_ = program.Process.Kill() // which it need not survive until here
		<-rest
		_ = program.Wait()
	})
	if url == "" {
		t.Fatalf("the server has not said where it listens, error %v", lines.Err())
	}
	return url
}

// exchanged is a request or an answer, as far as the server has to do with it.
type exchanged struct {
	Object struct {
		Metadata struct{ Namespace string }
		Status   struct{ Conditions []v1alpha1.Condition }
	}
	Children map[string]map[string]any
}

func checkServer(t *testing.T, url string) {
	t.Helper()
	request := golden(t, "pre-reconcile")
	code, body := post(t, url, request)
	if code != http.StatusOK {
		t.Fatalf("expected an answer to pre-reconcile, but found %d: %s", code, body)
	}
	var sent, answer exchanged
	decode(t, request, &sent)
	decode(t, body, &answer)
	for key, child := range answer.Children {
		metadata, ok := child["metadata"].(map[string]any)
		if !ok {
			t.Fatalf("the child %s has no metadata", key)
		}
		want := map[string]any{"example.org/team": sent.Object.Metadata.Namespace}
		if diff := cmp.Diff(want, metadata["labels"]); diff != "" {
			t.Errorf("labels of %s (-want +got):\n%s", key, diff)
		}
		delete(metadata, "labels")
	}
	if diff := cmp.Diff(sent.Children, answer.Children); diff != "" {
		t.Errorf("children, but for the labels (-want +got):\n%s", diff)
	}
	checkConditions(t, answer.Object.Status.Conditions)

	code, body = post(t, url, golden(t, "finalize"))
	if code != http.StatusOK || strings.TrimSpace(strings.Trim(string(body), "{}")) != "" {
		t.Errorf("expected the server to agree to finalize, but found %d: %s", code, body)
	}
	for _, unreadable := range []string{"no JSON", `{"phase":"pre-reconcile","children":[]}`} {
		if code, body := post(t, url, []byte(unreadable)); code != http.StatusBadRequest {
			t.Errorf("expected the server to refuse %q, but found %d: %s", unreadable, code, body)
		}
	}
}

// checkConditions checks that the condition which the server reports is the one that each registration of the page
// declares.
func checkConditions(t *testing.T, reported []v1alpha1.Condition) {
	t.Helper()
	if len(reported) != 1 || reported[0].Status != v1alpha1.ConditionTrue ||
		reported[0].Reason == "" || reported[0].Message == "" {
		t.Fatalf("expected one condition that says something, but found %+v", reported)
	}
	for _, document := range blocks(t, hooksPage, "yaml") {
		if !strings.Contains(document, "kind: DeployerRegistration\n") {
			continue
		}
		r := &v1alpha1.DeployerRegistration{}
		if err := yaml.UnmarshalStrict([]byte(document), r); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]v1alpha1.HookCondition{{Type: reported[0].Type}}, r.Spec.Hook.ConditionsFromHook); diff != "" {
			t.Errorf("declared conditions (-reported +declared):\n%s", diff)
		}
	}
}

// golden returns what the host sends in a phase, byte for byte, by a test of its own.
func golden(t *testing.T, phase string) []byte {
	t.Helper()
	return []byte(page(t, filepath.Join("host", "internal", "httphook", "testdata", phase+".golden.json")))
}

func post(t *testing.T, url string, document []byte) (code int, body []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(patient(t), http.MethodPost, url, strings.NewReader(string(document)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json; charset=UTF-8")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err = io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, body
}
