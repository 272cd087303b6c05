package plugin

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/pergola-deploy/pergola/host/internal/pluginimage"
)

// imageWorld is a registry with the image of a plugin.
type imageWorld struct {
	from pluginimage.Reference
	away atomic.Bool // whether the registry fails
	// modify has a host take the plugin raw_a_one from there.
	modify func(*Options)
}

// newImageWorld pushes a script that runs the plugin raw_a_one: a whole test binary would take long.
func newImageWorld(t *testing.T) *imageWorld {
	t.Helper()
	w := &imageWorld{}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if w.away.Load() {
			http.Error(out, "away", http.StatusNotFound)
			return
		}
		images.ServeHTTP(out, r)
	}))
	t.Cleanup(server.Close)
	script := "#!/bin/sh\nexec " + filepath.Join(pluginDir(t, "raw_a_one"), "raw_a_one") + "\n"
	image, err := pluginimage.Push(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/team/a:v1", "/raw_a_one",
		map[string][]byte{runtime.GOOS + "/" + runtime.GOARCH: []byte(script)})
	if err != nil {
		t.Fatal(err)
	}
	w.from = pluginimage.Reference{Image: image, Path: "/raw_a_one"}
	cache := filepath.Join(t.TempDir(), "cache")
	w.modify = func(o *Options) {
		o.CacheDir, o.Profiles = cache, map[string]Profile{
			"raw_a_one": {Plugin: "a", Image: w.from.Image, SHA256: w.from.SHA256},
		}
	}
	return w
}

// A plugin from an image is one like those of the directory, and takes the place of the file of its name there.
func TestPluginFromImage(t *testing.T) {
	t.Parallel()
	w := newImageWorld(t)
	dir := pluginDir(t, "raw_b_two")
	if err := os.WriteFile(filepath.Join(dir, "raw_a_one"), []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := runHost(t, dir, w.modify)
	for _, file := range []string{"raw_a_one", "raw_b_two"} {
		if s := h.status(file); s.State != Running {
			t.Errorf("expected %s to run, but found %+v", file, s)
		}
	}
	h.end()

	w.away.Store(true) // and the file is in the cache
	h = runHost(t, t.TempDir(), w.modify)
	h.crash("raw_a_one")
	eventually(t, "the plugin to run again", func() bool { return h.status("raw_a_one").State == Running })
	if got := h.plugin("raw_a_one").Name(); got != "a" {
		t.Errorf("expected the name a, but found %q", got)
	}
}

// While the registry is away the plugin is missing, and the others work. It comes when the registry does.
func TestPluginFromImageIsMissing(t *testing.T) {
	t.Parallel()
	w := newImageWorld(t)
	w.away.Store(true)
	h := openHost(t, pluginDir(t, "echo"), w.modify).run()
	h.expectProblem("raw_a_one", Missing, "cannot be taken from its image: pull image "+w.from.Image)
	eventually(t, "the others to serve", func() bool { return h.For(echoType) != nil })
	if err := h.Ready(); err == nil || !strings.Contains(err.Error(), "plugin raw_a_one: ") {
		t.Errorf("expected that it is named, but found: %v", err)
	}
	w.away.Store(false)
	eventually(t, "the plugin to come", func() bool { return h.Ready() == nil })
}

// Another program than that of the configuration is refused, wherever it was changed, and others work.
func TestPluginFromImageIsRefused(t *testing.T) {
	t.Parallel()
	for where, test := range map[string]struct {
		change func(*testing.T, *imageWorld)
		want   string
	}{
		"in the cache": {func(t *testing.T, w *imageWorld) {
			o := &Options{}
			w.modify(o)
			path, _, err := w.from.Take(t.Context(), o.CacheDir, "raw_a_one")
			if err := errors.Join(err, os.Chmod(path, 0o755), os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755)); err != nil {
				t.Fatal(err)
			}
		}, "was changed since it was loaded; remove "},
		"in the registry": {func(_ *testing.T, w *imageWorld) { w.from.SHA256 = strings.Repeat("ab", 32) },
			"expected the sha256 abab"},
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := newImageWorld(t)
			test.change(t, w)
			h := openHost(t, pluginDir(t, "echo"), w.modify).run()
			h.expectProblem("raw_a_one", Refused, test.want)
			h.waitFor("echo", Running)
		})
	}
}
