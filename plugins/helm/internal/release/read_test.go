package release

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	helmchart "helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"pgregory.net/rapid"
)

// store is a namespace with one Secret.
type store struct {
	typedcorev1.SecretInterface

	secret *corev1.Secret
}

func (s *store) Create(_ context.Context, secret *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	s.secret = secret
	return secret, nil
}

func (s *store) List(context.Context, metav1.ListOptions) (*corev1.SecretList, error) {
	return &corev1.SecretList{Items: []corev1.Secret{*s.secret}}, nil
}

// encoded returns a release as Helm stores it.
func encoded(t interface{ Fatal(...any) }, r *helmrelease.Release) []byte {
	s := &store{}
	if err := driver.NewSecrets(s).Create("key", r); err != nil {
		t.Fatal(err)
	}
	return s.secret.Data["release"]
}

// decoded returns what Helm makes of a stored release; nil if it cannot read it.
func decoded(content []byte) *helmrelease.Release {
	s := &store{secret: &corev1.Secret{Data: map[string][]byte{"release": content}}}
	releases, err := driver.NewSecrets(s).List(func(*helmrelease.Release) bool { return true })
	if err != nil || len(releases) != 1 {
		return nil
	}
	return releases[0]
}

func packed(content []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(content) // to memory
	_ = w.Close()
	return []byte(base64.StdEncoding.EncodeToString(out.Bytes()))
}

func TestDecode(t *testing.T) {
	t.Parallel()
	bomb := packed(bytes.Repeat([]byte{' '}, 1000))
	for name, c := range map[string]struct {
		reason  string
		content string
		problem string
	}{
		"empty":        {reason: "there is nothing", content: "", problem: "it is not the JSON of a release"},
		"no base64":    {reason: "Helm encodes twice", content: "{}", problem: "it is no base64"},
		"old":          {reason: "before Helm packed releases, it did not", content: base64.StdEncoding.EncodeToString([]byte(`{"info":{"status":"deployed"}}`))},
		"cut":          {reason: "half of it", content: string(packed([]byte(`{"info":{"status":"deployed"}}`))[:40]), problem: "it cannot be unpacked"},
		"bad header":   {reason: "not what it seems", content: base64.StdEncoding.EncodeToString([]byte("\x1f\x8b\x08\xff")), problem: "it cannot be unpacked"},
		"bomb":         {reason: "it is bounded", content: string(bomb), problem: "more than 500 bytes when it is unpacked"},
		"other values": {reason: "values are not quoted", content: string(packed([]byte(`{"info":"hunter2"}`))), problem: "it is not the JSON of a release"},
		"deep":         {reason: "so is the depth", content: string(packed([]byte(`{"info":{"status":"deployed"},"x":` + strings.Repeat("[", 400)))), problem: "it is not the JSON of a release"},
		"null":         {reason: "Helm takes it for an empty release", content: string(packed([]byte("null")))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decode([]byte(c.content), 500)
			if c.problem == "" {
				if err != nil {
					t.Errorf("%s: expected no error, but found %v", c.reason, err)
				}
				return
			}
			if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: expected %q, but found %v", c.reason, c.problem, err)
			}
		})
	}
}

// TestDecodeAsHelm: what Helm has stored is read as Helm reads it.
func TestDecodeAsHelm(t *testing.T) {
	t.Parallel()
	text := rapid.StringMatching(`[a-z<>&"'\\ \n☂]{0,12}`)
	rapid.Check(t, func(t *rapid.T) {
		var manifest strings.Builder
		n := rapid.IntRange(0, 3).Draw(t, "objects")
		for i := range n {
			fmt.Fprintf(&manifest, "---\n# Source: shop/templates/%d.yaml\nkind: A\nvalue: %q\n", i, text.Draw(t, "value"))
		}
		stored := &helmrelease.Release{
			Name: "shop", Version: rapid.IntRange(1, 99).Draw(t, "version"), Manifest: manifest.String(),
			Info:   &helmrelease.Info{Status: rapid.SampledFrom([]helmrelease.Status{"deployed", "failed", "other"}).Draw(t, "status")},
			Config: map[string]any{"value": text.Draw(t, "config")},
			Chart: &helmchart.Chart{
				Metadata: &helmchart.Metadata{Name: text.Draw(t, "name"), Version: text.Draw(t, "version"), AppVersion: text.Draw(t, "appVersion")},
				Raw:      []*helmchart.File{{Name: "x", Data: []byte(text.Draw(t, "file"))}},
			},
		}
		content := encoded(t, stored)
		found, err := decode(content, maxUnpacked)
		if err != nil {
			t.Fatal(err)
		}
		if len(found.Objects) != n {
			t.Fatalf("expected %d objects, but found %d", n, len(found.Objects))
		}
		compare(t, decoded(content), found)
	})
}

// compare checks that Helm has read the same.
func compare(t interface{ Errorf(string, ...any) }, theirs *helmrelease.Release, ours *Stored) {
	var want Stored
	if theirs.Info != nil {
		want.Status = Status(theirs.Info.Status)
	}
	if theirs.Chart != nil && theirs.Chart.Metadata != nil {
		m := theirs.Chart.Metadata
		want.Chart.Name, want.Chart.Version, want.Chart.AppVersion = m.Name, m.Version, m.AppVersion
	}
	var err error
	if want.Objects, err = split(theirs.Manifest); err != nil {
		t.Errorf("split the manifest of Helm: %v", err)
	}
	if diff := cmp.Diff(&want, ours); diff != "" {
		t.Errorf("-Helm +ours:\n%s", diff)
	}
}

// FuzzDecode: whatever is stored, it is read as Helm reads it, or not at all.
func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, &helmrelease.Release{Info: &helmrelease.Info{Status: "deployed"}, Manifest: "kind: A\n---\nkind: B\n"}))
	f.Add(packed([]byte(`{"INFO":{"Status":"x"},"chart":{"metadata":{"name":"a","version":"1"}},"manifest":"# Source: a\n{}"}`)))
	f.Add([]byte(base64.StdEncoding.EncodeToString([]byte(`{"manifest":"---"}`))))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, c := range [][]byte{content, packed(content)} {
			ours, err := decode(c, 1<<20)
			if err != nil {
				if !errors.Is(err, ErrUnreadable) {
					t.Errorf("expected a release that cannot be read, but found %v", err)
				}
				continue
			}
			// Helm may refuse what is wrong with other fields.
			if theirs := decoded(c); theirs != nil {
				compare(t, theirs, ours)
			}
		}
	})
}
