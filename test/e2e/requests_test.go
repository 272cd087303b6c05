package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
func entriesSince[T any](t *testing.T, mark auditMark) []*T {
	t.Helper()
	content, err := os.ReadFile(controlPlane.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	// The API server may be writing the last line, and may have been writing one at the time of the mark.
	start := bytes.LastIndexByte(content[:mark.place], '\n') + 1
	end := bytes.LastIndexByte(content, '\n') + 1
	var entries []*T
	for line := range bytes.Lines(content[start:end]) {
		var received struct{ RequestReceivedTimestamp time.Time }
		entry := new(T)
		if err := errors.Join(json.Unmarshal(line, &received), json.Unmarshal(line, entry)); err != nil {
			t.Fatalf("decode audit log: %v", err)
		}
		// The line of a request that was answered before the mark may have been written after it.
		if !received.RequestReceivedTimestamp.Before(mark.time) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// requestsSince are the requests of host and plugins for objects of a namespace since a mark. Watches and events are
// aside, and so is the discovery of kinds, which is done once per target.
func requestsSince(t *testing.T, mark auditMark, namespace string) []request {
	t.Helper()
	var requests []request
	for _, r := range entriesSince[request](t, mark) {
		ours := strings.HasPrefix(r.UserAgent, "pergola-")
		if ours && r.Verb != "watch" && r.ObjectRef.Namespace == namespace && r.ObjectRef.Resource != "events" {
			requests = append(requests, *r)
		}
	}
	return requests
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
