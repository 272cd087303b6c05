package helmjob

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// read returns the record of a provider status with some fields; of none for an empty text.
func read(t *testing.T, fields string) Record {
	t.Helper()
	item := &landscaper.DeployItem{}
	if fields != "" {
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(
			`{"apiVersion":"helm.deployer.landscaper.gardener.cloud/v1alpha1","kind":"ProviderStatus"` + fields + `}`)}
	}
	record, err := ReadRecord(&sdk.Request{DeployItem: item})
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// TestDeployed: the provider status says what there is to delete, and which mode the item has.
func TestDeployed(t *testing.T) {
	t.Parallel()
	const objects = `,"managedResources":[{"resource":{"apiVersion":"v1","kind":"ConfigMap","name":"a"}}]`
	for name, c := range map[string]struct {
		reason, fields string
		want           Deployed
	}{
		"no status":            {reason: "no job has saved any", want: Unrecorded},
		"Landscaper":           {reason: "it records neither release nor chart", fields: " ", want: ByLandscaper},
		"Landscaper's objects": {reason: "they may be those of a release", fields: objects, want: ByLandscaper},
		"release":              {reason: "it may exist", fields: `,"release":{"name":"a"}`, want: Release},
		"release and objects": {
			reason: "they are the release's", fields: `,"release":{"name":"a"},"chart":{}` + objects, want: Release,
		},
		"objects":   {reason: "Pergola records a chart, too", fields: `,"chart":{}` + objects, want: Objects},
		"rendering": {reason: "its Secret is left", fields: `,"chart":{"rendering":{"name":"a"}}`, want: Objects},
		"deleted":   {reason: "Pergola leaves the chart", fields: `,"chart":{}`, want: Nothing},
	} {
		record := read(t, c.fields)
		if got := record.Deployed(); got != c.want {
			t.Errorf("%s: %s: expected %s, but found %s", name, c.reason, c.want, got)
		}
	}
}

// TestForgottenRelease: the status of an item without its release is unlike one of Landscaper, also for the next call.
func TestForgottenRelease(t *testing.T) {
	t.Parallel()
	record := read(t, `,"release":{"name":"a","namespace":"b"}`)
	record.ForgetRelease()
	document, err := json.Marshal(record.document(objectjob.ObjectsStatus{Cluster: "c", Installation: "i"}))
	if err != nil {
		t.Fatal(err)
	}
	var saved v1alpha1.ProviderStatus
	if err := json.Unmarshal(document, &saved); err != nil {
		t.Fatal(err)
	}
	next := Record{Stored: &saved}
	if got := next.Deployed(); got != Nothing || saved.Cluster != "" || saved.Installation != "" {
		t.Errorf("expected nothing, but found %s in %s", got, document)
	}
}
