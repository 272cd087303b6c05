package config_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/test/configtest"
)

// FuzzRead: no provider configuration does harm, an accepted one makes sense, and Read and the schema agree.
func FuzzRead(f *testing.F) {
	for _, document := range configtest.Documents(f, "testdata/valid.yaml") {
		f.Add(document, true)
		f.Add(bytes.ReplaceAll(document, []byte(`"wait":true`), []byte(`"wiat":null`)), false)
	}
	f.Add([]byte(`{"apiVersion":"helm.deployer.landscaper.gardener.cloud/v1alpha1","kind":"ProviderConfiguration",`+
		`"values":{"a":1e999,"a":{}}}`), true)
	f.Fuzz(func(t *testing.T, document []byte, strict bool) {
		if !json.Valid(document) {
			return // the API server stores nothing else
		}
		read, err := config.Read(requestOf(document), strict)
		if problems := sdk.ProblemsOf(err); (err == nil) != (len(problems) == 0) {
			t.Fatalf("expected the problems of the error %v, but found %v", err, problems)
		}
		if _, err := config.ReadDeletion(requestOf(document), strict); read != nil && err != nil {
			t.Fatalf("the item can be deployed, but not be deleted: %v", err)
		}
		if err != nil {
			return
		}
		if chartutil.ValidateReleaseName(read.Release.Name) != nil {
			t.Errorf("accepted the name %q, which Helm refuses", read.Release.Name)
		}
		if len(read.Values) > 0 && (!json.Valid(read.Values) || read.Values[0] != '{') {
			t.Errorf("the values are no object: %s", read.Values)
		}
		if strict && read.Source.NeedsResolver() != "fromResource" && !bytes.Contains(document, []byte("null")) {
			if err := published.Validate(t, document); err != nil {
				t.Errorf("the schema refuses what is accepted: %v", err)
			}
		}
	})
}

// TestNames: what is taken for the name of a release is what Helm takes.
func TestNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(
			rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,54}[a-z0-9])?`), rapid.StringMatching(`[-a-z.0-9A-Z_\n]{0,5}`),
			rapid.String(),
		).Draw(t, "name")
		document, err := json.Marshal(shop(object{"name": name}))
		if err != nil {
			t.Fatal(err)
		}
		_, wrong := config.Read(requestOf(document), true)
		if helms := chartutil.ValidateReleaseName(name); (wrong == nil) != (helms == nil) {
			t.Errorf("%q: expected %v, but found %v", name, helms, wrong)
		}
	})
}
