package helm3

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/redact"
)

// TestFindRendered: an error about an object tells which template it is from, if that is certain.
func TestFindRendered(t *testing.T) {
	t.Parallel()
	objects := []rendered{
		{kind: "ConfigMap", name: "shop", template: "shop/templates/a.yaml"}, {kind: "Config", name: "shop", template: "shop/templates/b.yaml"},
		{kind: "Secret", name: "keys", template: "shop/templates/c.yaml"},
	}
	for text, want := range map[string]string{
		`ConfigMap "shop" is invalid: data: Required value`:                                                "shop/templates/a.yaml",
		`cannot patch "keys" with kind Secret: the server is gone`:                                         "shop/templates/c.yaml",
		`resource mapping not found for name: "shop" from "": no matches for kind "Config"`:                "shop/templates/b.yaml",
		`ConfigMap "shops" is invalid`:                                                                     "",
		`failed to create "shop" of kind ConfigMap, and "keys" of kind Secret`:                             "",
		`Unable to continue with install: Secret "keys" in namespace "shop" exists and cannot be imported`: "shop/templates/c.yaml",
	} {
		if got := findRendered(objects, text); got != want {
			t.Errorf("%s: expected %q, but found %q", text, want, got)
		}
	}
}

// TestTidy: errors are one line, in words that need no knowledge of Go.
func TestTidy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2 errors occurred:\n\t* one\n\t* two\n":                                              "one; two",
		"json: cannot unmarshal number into Go struct field ConfigMap.data of type string":    "found a number in field data, expected a text",
		"cannot unmarshal string into Go struct field Spec.spec.replicas of type int32":       "found a text in field spec.replicas, expected a number",
		"cannot unmarshal number 1.5 into Go struct field Spec.spec.ports of type []v1.Port":  "found a number in field spec.ports, expected a list",
		"json: cannot unmarshal array into Go value of type releaseutil.SimpleHead":           "found a list, expected a mapping",
		"a: json: cannot unmarshal bool into Go struct field A.b of type v1.Thing; more":      "a: found true or false in field b; more",
		"json: cannot unmarshal object into Go struct field A.metadata.name of type string":   "found a mapping in field metadata.name, expected a text",
		"json: cannot unmarshal array into Go struct field A.metadata.labels of type map[a]b": "found a list in field metadata.labels, expected a mapping",
		"json: cannot unmarshal string into Go struct field Spec.hostNetwork of type bool":    "found a text in field hostNetwork, expected true or false",
	} {
		if got := tidy(text); got != want {
			t.Errorf("%s: expected %q, but found %q", text, want, got)
		}
	}
}

// TestJournal: with an error goes what explains it, and what it does not say itself.
func TestJournal(t *testing.T) {
	t.Parallel()
	observer := &lines{}
	j := &journal{audience: newAudience(observer), secrecy: redact.New(nil)}
	all := []string{
		`getting history for release shop`, `creating 2 resource(s)`, `checking 3 resources for changes`, `preparing upgrade for shop`,
		`warning: unknown field "spec.replica"`,
		`error updating the resource "web": cannot patch "web" with kind Deployment: the server is busy`,
		`warning: Upgrade "shop" failed: cannot patch "web" with kind Deployment: the server is busy`,
		`Deployment "web" is not ready: the server is busy`, `rolling back shop (current: v2, target: v1)`,
	}
	for _, line := range append(all, all[4]) {
		j.printf("%s", line)
	}
	want := []string{`warning: unknown field "spec.replica"`, `Deployment "web" is not ready: the server is busy`, `rolling back shop (current: v2, target: v1)`}
	tail := j.tail(`deploy release shop: cannot patch "web" with kind Deployment: the server is busy; the release has been rolled back`)
	if diff := cmp.Diff(want, tail); diff != "" {
		t.Errorf("lines of the error: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(all, observer.log); diff != "" {
		t.Errorf("lines of the log: -want +got:\n%s", diff)
	}
}

// lines is an observer that keeps what is logged.
type lines struct {
	helm.Observer

	log []string
}

func (l *lines) Log(line string) { l.log = append(l.log, line) }

func FuzzFindTemplate(f *testing.F) {
	f.Add("parse error at (shop/templates/a.yaml:3): unexpected {{end}}")
	f.Add("execution error at (shop/templates/a.yaml:2:4): the author's words")
	f.Add(`template: shop/templates/a.yaml:12:3: executing "shop/templates/a.yaml" at <.Values.x>: nil pointer`)
	f.Add(`template: a:1:2: executing "a" at <include "x" .>: error calling include: template: b:3:4: executing "x" at <.y>: no`)
	f.Add("YAML parse error on a.yaml: error converting YAML to JSON: yaml: line 4: found a tab")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := findTemplate(tidy(text)); ok && (p.text == "" || p.line < 0) {
			t.Errorf("found a place without a text: %+v", p)
		}
	})
}

// FuzzManifest has manifests read that hostile charts may render, and written again.
func FuzzManifest(f *testing.F) {
	f.Add("---\n# Source: a/templates/b.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	f.Add("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: A, metadata: {name: a}}, 5]")
	f.Add("a: &a [*a]")
	f.Add("---\n---\n--- # x\nkind: 5")
	f.Fuzz(func(t *testing.T, manifest string) {
		documents, err := parseManifest(manifest)
		if err != nil {
			return
		}
		objects := objectsOf(documents)
		changed := make([]helm.Object, len(objects))
		for i, o := range objects {
			var content map[string]any
			if err := decode(o.JSON, &content); err != nil {
				t.Fatalf("an object is no JSON: %v", err)
			}
			content["changed"] = true
			text, err := json.Marshal(content)
			if err != nil {
				t.Fatal(err)
			}
			changed[i] = helm.Object{Source: o.Source, JSON: text}
		}
		written, err := writeManifest(documents, changed)
		if err != nil {
			t.Fatalf("write %s: %v", manifest, err)
		}
		again, err := parseManifest(written.String())
		if err != nil {
			t.Fatalf("read %s: %v", written, err)
		}
		if !sameObjects(objectsOf(again), changed) {
			t.Fatalf("expected the same objects again from\n%s", written)
		}
	})
}

// TestRedirects: Helm's requests have the credentials of the Target, and go nowhere but to its server.
func TestRedirects(t *testing.T) {
	t.Parallel()
	sent := func(r *http.Request) (*http.Response, error) {
		if r.URL.Host != "target.example.org" {
			t.Errorf("a request has left the target, to %s", r.URL)
		}
		answer := httptest.NewRecorder()
		http.Redirect(answer, r, map[string]string{"/a": "/b", "/c": "https://elsewhere.example.org/"}[r.URL.Path], http.StatusFound)
		if r.URL.Path == "/b" {
			answer = httptest.NewRecorder()
		}
		return answer.Result(), nil
	}
	var noted []error
	client := &http.Client{Transport: &gate{
		ctx: context.Background(), server: &url.URL{Scheme: "https", Host: "target.example.org"}, next: roundTripper(sent), slots: make(chan struct{}, 1),
		note: func(err error) { noted = append(noted, err) },
	}}
	for path, want := range map[string]string{"/a": "", "/c": "redirects to https://elsewhere.example.org, where the credentials of the Target are not sent"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://target.example.org"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: expected %q, but found %v", path, want, err)
		}
	}
	if len(noted) != 1 {
		t.Errorf("expected one error to be kept, but found %v", noted)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
