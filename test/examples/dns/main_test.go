package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/httperror"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/examples/dns/zoneapi"
)

const token = "t0ps3cret"

// asPlugin makes the test binary the plugin.
const asPlugin = "DNS_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		main()
	}
	os.Exit(m.Run())
}

// start returns a zone with faults, its Target, and the deployer.
func start(t *testing.T, faults zoneapi.Faults) (*zoneapi.Server, *sdk.Target, *sdktest.Plugin) {
	t.Helper()
	api := zoneapi.New(token, faults)
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return api, targetAt(t, server.URL), sdktest.New(t, newDeployer(), options()...)
}

func targetAt(t *testing.T, endpoint string) *sdk.Target {
	t.Helper()
	content, err := json.Marshal(map[string]string{"endpoint": endpoint, "token": token})
	if err != nil {
		t.Fatal(err)
	}
	return &sdk.Target{Name: "zone", Type: "example.org/dns-zone", Content: content}
}

// item reads item.yaml.
func item(t *testing.T) *v1alpha1.DeployItem {
	t.Helper()
	document, err := os.ReadFile("item.yaml")
	if err != nil {
		t.Fatal(err)
	}
	item := &v1alpha1.DeployItem{}
	if err := yaml.UnmarshalStrict(document, item); err != nil {
		t.Fatal(err)
	}
	item.UID, item.Status.JobID = "id", "job"
	return item
}

func TestConformance(t *testing.T) {
	t.Parallel()
	_, target, plugin := start(t, zoneapi.Faults{Looks: 1, ThrottleEach: 3})
	sdktest.Conform(t, plugin, sdktest.Case{Name: "www", Call: sdktest.Call{DeployItem: item(t), Target: target}})
}

// One record through its life: each job with its requests.
func TestLife(t *testing.T) {
	t.Parallel()
	api, target, plugin := start(t, zoneapi.Faults{Looks: 1})
	call := sdktest.Call{DeployItem: item(t), Target: target}
	want := zoneapi.Record{
		Name: "www.example.org", Type: "A", TTLSeconds: 300, Values: []string{"192.0.2.1", "192.0.2.2"}, Published: true,
	}
	const get, put, remove, look = "GET /records/id", "PUT /records/id", "DELETE /records/id", "GET /operations/op-"
	job := func(name string, run func(sdktest.Call) *sdktest.Result, left zoneapi.Record, requests ...string) {
		t.Helper()
		result := run(call)
		if result.Succeeded == nil {
			t.Errorf("%s: it %s", name, result)
		}
		call = call.After(result)
		if diff := cmp.Diff(requests, api.Calls()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(left, api.Record("id")); diff != "" {
			t.Errorf("%s: record (-want +got):\n%s", name, diff)
		}
	}
	reconcile := func(call sdktest.Call) *sdktest.Result { return plugin.ReconcileUntilDone(t.Context(), call) }
	force := func(call sdktest.Call) *sdktest.Result { return plugin.ForceReconcileUntilDone(t.Context(), call) }
	uninstall := func(call sdktest.Call) *sdktest.Result { return plugin.DeleteUntilDone(t.Context(), call) }

	job("creation", reconcile, want, get, put, look+"1", look+"1", get)
	job("nothing to do", reconcile, want, get)
	api.Meddle("id", func(r *zoneapi.Record) { r.Values = []string{"192.0.2.66"} })
	changes, err := plugin.Diff(t.Context(), call)
	if err != nil || len(changes) != 1 || changes[0].Action != sdk.ActionUpdate ||
		!strings.Contains(string(changes[0].Before), "192.0.2.66") {
		t.Errorf("drift: expected one change, but found %v (%v)", changes, err)
	}
	api.Calls()
	job("drift", reconcile, want, get, put, look+"2", look+"2", get)
	job("force, once", force, want, get, put, look+"3", look+"3", get)
	job("deletion", uninstall, zoneapi.Record{}, remove, look+"4", look+"4", remove)
	job("deletion after deletion", uninstall, zoneapi.Record{}, look+"4", remove)
}

func TestAbort(t *testing.T) {
	t.Parallel()
	api, target, plugin := start(t, zoneapi.Faults{Looks: 1000})
	call := sdktest.Call{DeployItem: item(t), Target: target}
	call = call.After(plugin.Reconcile(t.Context(), call))
	if result := plugin.AbortUntilDone(t.Context(), call); result.Succeeded == nil {
		t.Errorf("the abort %s", result)
	}
	want := []string{"GET /records/id", "PUT /records/id", "DELETE /operations/op-1", "GET /operations/op-1"}
	if diff := cmp.Diff(want, api.Calls()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A change that the zone could not carry out is seen, and started again by the next call.
func TestFailedOperation(t *testing.T) {
	t.Parallel()
	api, target, plugin := start(t, zoneapi.Faults{BreakEach: 1})
	call := sdktest.Call{DeployItem: item(t), Target: target}
	result := plugin.ReconcileUntilDone(t.Context(), call)
	if result.Failed == nil || !strings.Contains(result.Failed.Error(), "a name server was restarted") ||
		len(result.Failed.Codes()) > 0 {
		t.Errorf("expected an error without a code, but it %s", result)
	}
	api.SetFaults(zoneapi.Faults{})
	if result = plugin.ReconcileUntilDone(t.Context(), call.After(result)); result.Succeeded == nil {
		t.Errorf("the next try %s", result)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	silent := httptest.NewServer(nil)
	silent.Close()
	for name, tc := range map[string]struct {
		faults zoneapi.Faults
		target func(*sdk.Target)
		want   sdktest.Error
	}{
		"throttled": {zoneapi.Faults{ThrottleEach: 1}, nil, sdktest.Error{
			Reason: httperror.ReasonBusy, TargetSilent: true, RetryAfter: time.Second,
		}},
		"out of order": {zoneapi.Faults{FailEach: 1}, nil, sdktest.Error{
			Reason: httperror.ReasonTarget, TargetSilent: true,
		}},
		"silent": {zoneapi.Faults{}, func(target *sdk.Target) { *target = *targetAt(t, silent.URL) }, sdktest.Error{
			Reason: httperror.ReasonUnreachable, TargetSilent: true,
		}},
		"wrong token": {
			zoneapi.Faults{}, func(target *sdk.Target) {
				target.Content = []byte(strings.ReplaceAll(string(target.Content), token, token+"!"))
			},
			sdktest.Error{Reason: httperror.ReasonUnauthorized, Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorUnauthorized}},
		},
		"wrong Target": {
			zoneapi.Faults{}, func(target *sdk.Target) { target.Content = []byte(token) },
			sdktest.Error{Reason: sdk.ReasonTargetInvalid, Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}},
		},
		"another Target": {
			zoneapi.Faults{}, func(target *sdk.Target) { target.Content = []byte(`{"endpoint": "x", "kubeconfig": "y"}`) },
			sdktest.Error{Reason: sdk.ReasonTargetInvalid, Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}},
		},
	} {
		_, target, plugin := start(t, tc.faults)
		endpoint := target.Content
		if tc.target != nil {
			tc.target(target)
		}
		result := plugin.Reconcile(t.Context(), sdktest.Call{DeployItem: item(t), Target: target})
		if result.Failed == nil || len(result.Failed.Errors) != 1 {
			t.Errorf("%s: it %s", name, result)
			continue
		}
		found := result.Failed.Errors[0]
		if strings.Contains(found.Message, token) || strings.Contains(found.Message, string(endpoint)) {
			t.Errorf("%s: the error shows the Target: %s", name, found.Message)
		}
		found.Message, found.Operation = "", ""
		if diff := cmp.Diff(tc.want, found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A record stays in its zone.
func TestAnotherZone(t *testing.T) {
	t.Parallel()
	_, target, plugin := start(t, zoneapi.Faults{})
	call := sdktest.Call{DeployItem: item(t), Target: target}
	call = call.After(plugin.ReconcileUntilDone(t.Context(), call))
	_, call.Target, _ = start(t, zoneapi.Faults{})
	result := plugin.Reconcile(t.Context(), call)
	if result.Failed == nil || result.Failed.Errors[0].Reason != sdk.ReasonTargetChanged {
		t.Errorf("expected reason TargetChanged, but it %s", result)
	}
}

// Validate and Reconcile find the same problems, with their fields.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	_, target, plugin := start(t, zoneapi.Faults{})
	const v1 = `"apiVersion": "dns.example.org/v1", "kind": "RecordConfiguration", `
	const v1alpha1 = `"apiVersion": "dns.example.org/v1alpha1", "kind": "RecordConfiguration", `
	const www = `"name": "www.example.org", "ttlSeconds": 60, `
	for config, fields := range map[string][]string{
		`{` + v1 + www + `"type": "AAAA", "values": ["2001:db8::1"]}`: nil,
		`{` + v1alpha1 + www + `"value": "192.0.2.1"}`:                nil,
		`{` + v1alpha1 + www + `"value": "x"}`:                        {"value"},
		`{` + v1 + `"type": "MX", "ttlSeconds": -1}`:                  {"type", "name", "ttlSeconds", "values"},
		`{` + v1 + www + `"type": "A", "values": ["192.0.2.1", "::1", "x"], "value": "y"}`: {
			"values[1]", "values[2]", "value", // the last one is an unknown field
		},
		`{` + v1 + www + `"type": "TXT", "values": ["x"], "continuousReconcile": {"every": "x"}}`: {
			"continuousReconcile.every",
		},
		`{"apiVersion": "dns.example.org/v2", "kind": "RecordConfiguration"}`: {"spec.config"},
	} {
		call := sdktest.Call{DeployItem: sdktest.DeployItem(itemType, json.RawMessage(config)), Target: target}
		problems, err := plugin.Validate(t.Context(), call)
		var found []string
		for _, p := range problems {
			found = append(found, p.Field)
		}
		if diff := cmp.Diff(fields, found); diff != "" || err != nil {
			t.Errorf("%s: fields of the problems (-want +got), error %v:\n%s", config, err, diff)
		}
		result := plugin.Reconcile(t.Context(), call)
		if (result.Failed != nil) != (len(fields) > 0) {
			t.Errorf("%s: it %s", config, result)
		}
		for _, field := range fields {
			if !strings.Contains(result.Failed.Error(), field) {
				t.Errorf("%s: expected a problem of %s, but it %s", config, field, result)
			}
		}
	}
}

// The plugin author's page shows parts of the deployer as they are.
func TestAuthorsPage(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	_, section, _ := strings.Cut(read("../../../docs/plugin-authors.md"), "\n### 7. A deployer for an API\n")
	section, _, _ = strings.Cut(section, "\n## ")
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(section, -1)
	source := read("main.go") + read("config.go")
	for _, part := range shown {
		if !strings.Contains(source, part[1]) {
			t.Errorf("the source has no such part:\n%s", part[1])
		}
	}
	if len(shown) == 0 {
		t.Error("the page shows nothing of the deployer")
	}
}
