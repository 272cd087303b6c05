package config_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
)

// FuzzRead: no provider configuration does harm, what is accepted makes sense, and Validate, Read and the schema agree.
func FuzzRead(f *testing.F) {
	for _, c := range whole() {
		document, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(document, true)
		f.Add(bytes.ReplaceAll(document, []byte(`"wait":true`), []byte(`"wiat":null`)), false)
	}
	f.Add([]byte(`{"apiVersion":"helm.deployer.landscaper.gardener.cloud/v1alpha1","kind":"ProviderConfiguration","values":{"a":1e999,"a":{}}}`), true)
	f.Fuzz(func(t *testing.T, document []byte, strict bool) {
		if !json.Valid(document) {
			return // the API server stores nothing else
		}
		read, err := config.Read(requestOf(document), strict)
		problems, failed := config.Validate(document, strict)
		if failed != nil || (err == nil) != (len(problems) == 0) {
			t.Fatalf("Read says %v, but Validate says %v and %v", err, problems, failed)
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
			rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,54}[a-z0-9])?`), rapid.StringMatching(`[-a-z.0-9A-Z_\n]{0,5}`), rapid.String(),
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

// TestCanonicalValues: values are the same bytes however they are written, and no others are.
func TestCanonicalValues(t *testing.T) {
	t.Parallel()
	value := rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return rapid.String().Draw(t, "text")
		case 1:
			return json.Number(rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,3})?([eE][-+]?[0-9]{1,3})?`).Draw(t, "number"))
		case 2:
			return nil
		default:
			return rapid.SliceOfN(rapid.Bool(), 0, 3).Draw(t, "list")
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOfN(rapid.String(), value, 1, 5).Draw(t, "values")
		plain, err := json.Marshal(shop(object{"values": values}))
		if err != nil {
			t.Fatal(err)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, plain, " ", "\t"); err != nil {
			t.Fatal(err)
		}
		one, err := config.Read(requestOf(plain), true)
		if err != nil {
			t.Fatal(err)
		}
		other, err := config.Read(requestOf(indented.Bytes()), true)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one.Values, want) || !bytes.Equal(other.Values, want) {
			t.Errorf("expected %s, but found %s and %s", want, one.Values, other.Values)
		}
	})
}
