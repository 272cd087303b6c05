package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestRun pulls what was pushed. That images run is shown on a node.
func TestRun(t *testing.T) { //nolint:paralleltest // it changes the directory
	t.Chdir("../../..")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	o := options{
		programs: t.TempDir(), platforms: "linux/amd64,linux/arm64", version: "v1.2.3", revision: "0123abc",
		created: 1_700_000_000, push: host + "/team/",
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		for _, program := range []string{
			"pergola", "helper", "plugins/container", "plugins/helm", "plugins/manifest", "plugins/mock",
		} {
			path := filepath.Join(o.programs, "linux", architecture, program)
			content := []byte(program + " for " + architecture)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	pulled := map[string]v1.ImageIndex{}
	for range 2 { // the second time gives the same
		o.out = t.TempDir()
		if err := run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for _, d := range definitions {
			ref, err := name.ParseReference(host + "/team/" + d.name + ":v1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			index, err := remote.Index(ref)
			if err == nil {
				err = validate.Index(index)
			}
			if err != nil {
				t.Fatal(err)
			}
			if before := pulled[d.name]; before != nil && digest(t, before) != digest(t, index) {
				t.Errorf("%s differs from build to build", d.name)
			}
			pulled[d.name] = index
		}
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		checkHost(t, pulled["pergola"], architecture)
	}
}

func digest(t *testing.T, index v1.ImageIndex) v1.Hash {
	t.Helper()
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// checkHost looks at the image of the host on a platform.
func checkHost(t *testing.T, index v1.ImageIndex, architecture string) {
	t.Helper()
	images, err := partial.FindImages(index, match.Platforms(v1.Platform{OS: "linux", Architecture: architecture}))
	if err != nil || len(images) != 1 {
		t.Fatalf("expected one image for %s, but found %d (%v)", architecture, len(images), err)
	}
	config, err := images[0].ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != architecture || config.Config.User != "65532:65532" ||
		config.Created.Unix() != 1_700_000_000 {
		t.Errorf("expected the platform, a user by numbers and the date of the commit, but found %+v", config)
	}
	manifest, err := images[0].Manifest()
	if err != nil || manifest.Annotations["org.opencontainers.image.revision"] != "0123abc" {
		t.Errorf("expected the revision, but found %v (%v)", manifest.Annotations, err)
	}
	modes, texts := files(t, images[0])
	want := map[string]string{
		"etc/passwd": "0444", "etc/group": "0444", "etc/ssl/certs/ca-certificates.crt": "0444", "tmp": "1777",
		"licenses/LICENSE": "0444", "licenses/README": "0444",
		"usr/local/bin/pergola": "0555",
		"plugins":               "0555", "plugins/manifest": "0555", "plugins/helm": "0555", "plugins/container": "0555",
		"plugins/mock": "0555",
	}
	for path, mode := range want {
		if modes[path] != mode {
			t.Errorf("%s: expected mode %s, but found %q", path, mode, modes[path])
		}
	}
	if got, want := texts["plugins/helm"], "plugins/helm for "+architecture; got != want {
		t.Errorf("expected %q, but found %q", want, got)
	}
	if count := strings.Count(texts["etc/ssl/certs/ca-certificates.crt"], "BEGIN CERTIFICATE"); count < 100 {
		t.Errorf("expected the certificates that browsers trust, more than a hundred, but found %d", count)
	}
	stdlib := "licenses/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")
	for _, module := range []string{
		stdlib, "licenses/helm.sh/helm/v3@", "licenses/golang.org/x/crypto/x509roots/fallback@",
	} {
		if !hasLicense(texts, module) {
			t.Errorf("expected the license of %s, but found none", module)
		}
	}
}

func hasLicense(texts map[string]string, module string) bool {
	for path, text := range texts {
		if strings.HasPrefix(path, module) && strings.HasSuffix(path, "/LICENSE") && text != "" {
			return true
		}
	}
	return false
}

// files returns the modes and the contents of what is in an image, all of which belongs to root and is of 1970.
func files(t *testing.T, image v1.Image) (modes, texts map[string]string) {
	t.Helper()
	modes, texts = map[string]string{}, map[string]string{}
	extracted := mutate.Extract(image)
	defer extracted.Close()
	for archive := tar.NewReader(extracted); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return modes, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 0 {
			t.Errorf("%s: expected it to be of 1970 and to belong to root, but found %+v", header.Name, header)
		}
		modes[header.Name], texts[header.Name] = fmt.Sprintf("%04o", header.Mode), string(content)
	}
}

func TestLicensesIn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		source []string // its files
		want   []string // none if there is no license
	}{
		{
			"case and ending are up to the author", []string{"License", "licence.md", "main.go"},
			[]string{"License", "licence.md"},
		},
		{"the ending may be a name", []string{"LICENSE.MPL-2.0", "LICENSE-BSD"}, []string{"LICENSE-BSD", "LICENSE.MPL-2.0"}},
		{
			"there are other names", []string{"COPYING", "UNLICENSE", "MIT-LICENSE.txt"},
			[]string{"COPYING", "MIT-LICENSE.txt", "UNLICENSE"},
		},
		{
			"some licenses demand what else there is to be passed on",
			[]string{"LICENSE", "NOTICE.txt", "PATENTS", "COPYRIGHT", "third-party-licenses"},
			[]string{"COPYRIGHT", "LICENSE", "NOTICE.txt", "PATENTS", "third-party-licenses"},
		},
		{"a notice is no license", []string{"NOTICE", "PATENTS", "COPYRIGHT"}, nil},
		{"what is about licenses is none", []string{"license.go", "check-license.sh", "licensed", "license/main.go"}, nil},
		{
			"what a module has taken over is under the license of others",
			[]string{"LICENSE", "internal/json/LICENSE", "third_party/forked/go/PATENTS"},
			[]string{"LICENSE", "internal/json/LICENSE", "third_party/forked/go/PATENTS"},
		},
		{
			"what is no package is in no program",
			[]string{"LICENSE", "pkg/testdata/LICENSE", ".github/LICENSE", "_examples/LICENSE"}, []string{"LICENSE"},
		},
		{"that of a part is not that of the whole", []string{"internal/json/LICENSE"}, nil},
	} {
		source, want := fstest.MapFS{}, fstest.MapFS{}
		for _, name := range test.source {
			source[name] = &fstest.MapFile{Data: []byte("text of " + name)}
		}
		for _, name := range test.want {
			want[name] = &fstest.MapFile{Mode: 0o444, Data: []byte("text of " + name)}
		}
		found, err := licensesIn(source)
		if (err != nil) != (test.want == nil) {
			t.Errorf("%s: expected an error only if there is no license, but found %v", test.reason, err)
		}
		if diff := cmp.Diff(want, found); err == nil && diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.reason, diff)
		}
	}
}

// TestPushGivesUp: a push to a registry that takes nothing ends, and one that takes something now and then goes on.
func TestPushGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		updates, stalled := make(chan v1.Update), make(chan struct{})
		defer close(updates)
		go follow(updates, func() { close(stalled) })
		for range 3 {
			time.Sleep(silence - 1)
			updates <- v1.Update{}
		}
		began := time.Now()
		<-stalled
		if waited := time.Since(began); waited != silence {
			t.Errorf("expected an end after %s, but found %s", silence, waited)
		}
	})
}
