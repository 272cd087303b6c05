package release

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

func packed(content []byte) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(content) // to memory
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

// TestDecode: what Helm has not stored like this is refused, and bounded. TestRead has what it does store.
func TestDecode(t *testing.T) {
	t.Parallel()
	const manifest = `"manifest":"apiVersion: v1\nkind: A\nmetadata: {name: a}\n"}`
	content := []byte(`{"name":"shop","version":3,"info":{"status":"deployed"},` + manifest)
	plain := func(content string) string { return base64.StdEncoding.EncodeToString([]byte(content)) }
	const other, noJSON = "another release or revision", "it is not the JSON of a release"
	for name, c := range map[string]struct{ content, problem string }{
		"packed":       {packed(content), ""},
		"not packed":   {plain(string(content)), ""}, // as Helm has done it once
		"null":         {packed([]byte("null")), other},
		"version":      {packed([]byte(`{"name":"shop","version":2}`)), other},
		"name":         {packed([]byte(`{"name":"shop.v1","version":3}`)), other},
		"empty":        {"", noJSON},
		"no base64":    {"{}", "it is no base64"},
		"cut":          {packed(content)[:40], "cannot be unpacked"},
		"bad header":   {plain("\x1f\x8b\x08\xff"), noJSON},
		"bomb":         {packed(slices.Repeat([]byte{' '}, maxUnpacked+1)), "bytes when it is unpacked"},
		"other values": {packed([]byte(`{"manifest":["hunter2"]}`)), noJSON},
		"no manifest":  {packed([]byte(`{"name":"shop","version":3,"manifest":"hunter2"}`)), "it is no object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := unpack([]byte(c.content), "shop", 3)
			var got []helm.Object
			if err == nil {
				got, err = helm.ParseManifest("", found.Manifest)
			}
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("expected %q, but found %v", c.problem, err)
				}
				return
			}
			want := []helm.Object{{JSON: []byte(`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`)}}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("-want +got:\n%s%v", diff, err)
			}
		})
	}
}
