package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// request is an entry of the API server's audit log.
type request struct {
	Verb, RequestURI, UserAgent string
	ObjectRef                   struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus              struct {
		Code    int
		Message string
	}
	User struct{ Username string }
}

func (r request) String() string {
	agent, _, _ := strings.Cut(r.UserAgent, "/")
	return fmt.Sprintf("%s %s %s -> %d", agent, r.Verb, r.RequestURI, r.ResponseStatus.Code)
}

// auditMark is a time, and a place in the audit log that no later request is before.
type auditMark struct {
	time  time.Time
	place int64
}

func markAudit(t *testing.T) auditMark {
	t.Helper()
	info, err := os.Stat(controlPlane.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	return auditMark{time: time.Now(), place: info.Size()}
}

// entriesSince are the entries of the audit log for requests that were received since a mark.
func entriesSince(t *testing.T, mark auditMark) (requests []request) {
	t.Helper()
	content, err := os.ReadFile(controlPlane.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	// The API server may be writing the last line, and may have been writing one at the time of the mark.
	start := bytes.LastIndexByte(content[:mark.place], '\n') + 1
	end := bytes.LastIndexByte(content, '\n') + 1
	for line := range bytes.Lines(content[start:end]) {
		var entry struct {
			request
			RequestReceivedTimestamp time.Time
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatalf("decode audit log: %v", err)
		}
		// The line of a request that was answered before the mark may have been written after it.
		if !entry.RequestReceivedTimestamp.Before(mark.time) {
			requests = append(requests, entry.request)
		}
	}
	return requests
}

// requestsSince are the requests of host and plugins for objects of a namespace since a mark. Watches and events are
// aside, and so is the discovery of kinds, which is done once per target.
func requestsSince(t *testing.T, mark auditMark, namespace string) []request {
	t.Helper()
	return slices.DeleteFunc(entriesSince(t, mark), func(r request) bool {
		return !strings.HasPrefix(r.UserAgent, "pergola-") || r.Verb == "watch" || r.ObjectRef.Namespace != namespace ||
			r.ObjectRef.Resource == "events"
	})
}

// TestRequestsPerJob: a job costs few requests, a repeated one fewer, and a change of an idle item one read at most.
func TestRequestsPerJob(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	// Another item of the same target comes first, so that the target's kinds are known.
	ofConfigMap := func(name string) *v1alpha1.DeployItem {
		return manifestItem(namespace, name, "my-target", configMap(namespace, name, "x"))
	}
	carryOut(t, ofConfigMap("warm-up"), succeeded)

	item := ofConfigMap("item")
	mark := markAudit(t)
	item = carryOut(t, item, succeeded)
	first := slices.DeleteFunc(requestsSince(t, mark, namespace), func(r request) bool {
		return r.ObjectRef.Name == "warm-up" // whose last request the log may only have now
	})
	if len(first) == 0 || len(first) > 7 {
		t.Errorf("expected at most 7 requests in the first job, but found %d:\n%v", len(first), list(first))
	}
	t.Logf("first job: %d requests\n%s", len(first), list(first))

	mark = markAudit(t)
	item = carryOutAgain(t, item, succeeded)
	repeated := requestsSince(t, mark, namespace)
	if len(repeated) == 0 || len(repeated) > 4 {
		t.Errorf("expected at most 4 requests in a repeated job, but found %d:\n%v", len(repeated), list(repeated))
	}
	t.Logf("repeated job: %d requests\n%s", len(repeated), list(repeated))

	// Changes of the idle item that give it nothing to do, and the event of the host's own last write.
	const changes = 3
	mark = markAudit(t)
	for i := range changes {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"touched":"%d"},"annotations":{"touched":"%d"}}}`, i, i)
		if err := admin.Patch(t.Context(), item, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	// A job of another item shows that the host has seen what came before.
	carryOut(t, ofConfigMap("other"), succeeded)
	var idle []request
	for _, r := range requestsSince(t, mark, namespace) {
		if r.ObjectRef.Resource == "deployitems" && r.ObjectRef.Name == "item" {
			idle = append(idle, r)
		}
	}
	if len(idle) > changes || slices.ContainsFunc(idle, func(r request) bool { return r.Verb != "get" }) {
		t.Errorf("expected one read at most for each change of an idle item, but found:\n%s", list(idle))
	}

	// The idle item is still watched.
	carryOutAgain(t, item, succeeded)
}

func list(requests []request) string {
	var text strings.Builder
	for _, r := range requests {
		fmt.Fprintln(&text, " ", r)
	}
	return text.String()
}

// TestPollsCostNoRequests: a job that waits for the same thing at each of many polls costs no request.
func TestPollsCostNoRequests(t *testing.T) {
	const polls = 20
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "counter")})
	c := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	release := filepath.Join(c.dir, "release")
	item := newItem(c.namespace, "item", counterType, string(marshal(t, map[string]any{
		"apiVersion": "test.pergola.dev/v1", "kind": "Counter", "dir": c.dir, "pollUntil": release, "pollMillis": 100,
	})))
	create(t, item)
	jobID := setJob(t, item)
	c.waitBegun(item, 3) // what the first has reached was written before the second
	mark := markAudit(t)

	c.waitBegun(item, 3+polls)

	if requests := requestsSince(t, mark, c.namespace); len(requests) != 0 {
		t.Errorf("expected no request in %d polls, but found:\n%s", polls, list(requests))
	}
	touch(t, release)
	waitFinished(t, item, jobID)
	if requests := requestsSince(t, mark, c.namespace); len(requests) != 1 {
		t.Errorf("expected one request, the final write, but found:\n%s", list(requests))
	}
}
