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
	content := []byte(`{"name":"shop","version":3,"info":{"status":"deployed"},"manifest":"apiVersion: v1\nkind: A\nmetadata: {name: a}\n"}`)
	objects := []helm.Object{{JSON: []byte(`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`)}}
	for name, c := range map[string]struct {
		reason  string
		content string
		want    []helm.Object
		problem string
	}{
		"packed": {reason: "as Helm does it", content: packed(content), want: objects},
		"old": {
			reason: "before Helm packed releases, it did not", content: base64.StdEncoding.EncodeToString(content),
			want: objects,
		},
		"null": {reason: "Helm takes it for an empty release", content: packed([]byte("null")), problem: "another release or revision"},
		"version": {
			reason: "another client has put a copy there", content: packed([]byte(`{"name":"shop","version":2}`)),
			problem: "another release or revision",
		},
		"name": {
			reason: "of another release", content: packed([]byte(`{"name":"shop.v1","version":3}`)),
			problem: "another release or revision",
		},
		"empty":     {reason: "there is nothing", problem: "it is not the JSON of a release"},
		"no base64": {reason: "Helm encodes twice", content: "{}", problem: "it is no base64"},
		"cut":       {reason: "half of it", content: packed(content)[:40], problem: "cannot be unpacked"},
		"bad header": {
			reason: "not what it seems", content: base64.StdEncoding.EncodeToString([]byte("\x1f\x8b\x08\xff")),
			problem: "it is not the JSON",
		},
		"bomb": {
			reason: "it is bounded", content: packed(slices.Repeat([]byte{' '}, maxUnpacked+1)),
			problem: "bytes when it is unpacked",
		},
		"other values": {
			reason: "values are not quoted", content: packed([]byte(`{"manifest":["hunter2"]}`)),
			problem: "it is not the JSON of a release",
		},
		"no manifest": {
			reason: "nor here", content: packed([]byte(`{"name":"shop","version":3,"manifest":"hunter2"}`)), problem: "it is no object",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := unpack([]byte(c.content), "shop", 3)
			var got []helm.Object
			if err == nil {
				got, err = helm.ParseManifest("", found.Manifest)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if (err == nil) != (c.problem == "") || err != nil && (!strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("%s: expected %q, but found %v", c.reason, c.problem, err)
			}
		})
	}
}
