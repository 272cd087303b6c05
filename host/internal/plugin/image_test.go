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
		o.CacheDir, o.Profiles = cache, map[string]Profile{"raw_a_one": w.profile("a")}
	}
	return w
}

// profile is that of the plugin, by a name that may not be its own.
func (w *imageWorld) profile(name string) Profile {
	return Profile{Plugin: name, Image: w.from.Image, SHA256: w.from.SHA256}
}

// change changes the file that a host has in its cache.
func (w *imageWorld) change(t *testing.T) (path string) {
	t.Helper()
	o := &Options{}
	w.modify(o)
	path, _, err := w.from.Take(t.Context(), o.CacheDir, "raw_a_one")
	if err := errors.Join(err, os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	appendTo(t, path)
	return path
}

// A plugin from an image is one like those of the directory, and takes the place of the file of its name there.
func TestPluginFromImage(t *testing.T) {
	t.Parallel()
	w := newImageWorld(t)
	dir := pluginDir(t, "raw_b_two")
	if err := os.WriteFile(filepath.Join(dir, "raw_a_one"), []byte(broken), 0o755); err != nil {
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
	s := h.waitFor("raw_a_one", Missing)
	if !strings.Contains(s.Problem.Error(), "cannot be taken from its image: pull image "+w.from.Image) {
		t.Errorf("expected that the image is named, but found: %v", s.Problem)
	}
	eventually(t, "the others to serve", func() bool { return h.For(echoType) != nil })
	if err := h.Ready(); err == nil || !strings.Contains(err.Error(), "plugin raw_a_one: ") {
		t.Errorf("expected that it is named, but found: %v", err)
	}
	w.away.Store(false)
	eventually(t, "the plugin to come", func() bool { return h.Ready() == nil })
}

// What applies to files of the directory applies to those from images: they are refused by name, and others work.
func TestPluginFromImageIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		modify func(*testing.T, *imageWorld, *Options)
		want   string
	}{
		"changed in the cache": {"another program must not run", func(t *testing.T, w *imageWorld, _ *Options) {
			w.change(t)
		}, "was changed since it was loaded; remove "},
		"changed in the registry": {"the same", func(_ *testing.T, w *imageWorld, o *Options) {
			w.from.SHA256 = strings.Repeat("ab", 32)
			w.modify(o)
		}, "expected the sha256 abab"},
		"no checksum": {"it is required", func(_ *testing.T, _ *imageWorld, o *Options) {
			o.RequireSums = true
		}, "plugins.a.sha256 is missing"},
		"another name": {"its profile is for another plugin", func(_ *testing.T, w *imageWorld, o *Options) {
			o.Profiles["raw_a_one"] = w.profile("b")
		}, `calls itself "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newImageWorld(t)
			h := openHost(t, pluginDir(t, "echo"), w.modify, func(o *Options) { test.modify(t, w, o) }).run()
			s := h.waitFor("raw_a_one", Refused)
			if !strings.Contains(s.Problem.Error(), test.want) {
				t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, s.Problem)
			}
			if name != "no checksum" { // which the other one has none of, either
				h.waitFor("echo", Running)
			}
		})
	}
}

// A claim that another plugin makes, too, is refused to both, wherever they come from.
func TestPluginFromImageClaims(t *testing.T) {
	t.Parallel()
	w := newImageWorld(t)
	h := openHost(t, pluginDir(t, "raw_b_one"), w.modify).run()
	for _, file := range []string{"raw_a_one", "raw_b_one"} {
		if s := h.waitFor(file, Refused); s.Problem == nil {
			t.Errorf("expected a reason why %s is refused", file)
		}
	}
}

// Files are the only plugins that are used, also if they are from images.
func TestPluginFromImageIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newImageWorld(t)
	h := openHost(t, pluginDir(t, "echo"), w.modify, func(o *Options) { o.Files = []string{"echo"} })
	if all := h.Status(); len(all) != 1 || all[0].File != "echo" {
		t.Errorf("expected echo alone, but found %+v", all)
	}
}
