package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

var input = map[string]string{
	"imports/import.json": `{"a":1}`, "content/blueprint/blueprint.yaml": "b", "component_descriptor.json": "{}",
	"targets/target.json": "{}",
}

func (p *place) prepare() *process {
	p.Helper()
	return p.start("init", "--base", p.base, "--termination-message", p.message)
}

// mustHave expects files, and the directories of the image.
func (p *place) mustHave(files map[string]string) {
	p.Helper()
	for name, content := range files {
		if got := p.read("shared/" + name); got != content {
			p.Errorf("expected %q in %s, but found %q", content, name, got)
		}
	}
	for _, dir := range []string{"imports", "exports", "targets", "content", "state"} {
		if info, err := os.Stat(filepath.Join(p.base, "shared", dir)); err != nil || info.Mode() != fs.ModeDir|0o755 {
			p.Errorf("there is no directory %s that all can read (%v)", dir, err)
		}
	}
}

func TestInit(t *testing.T) {
	t.Parallel()
	s, p := newAPIServer(t, "127.0.0.1", nil)
	must(t, os.Remove(p.base+"/"+layout.Access+"/"+layout.TokenFile))
	p.mount(layout.Input, packed(t, input))
	p.prepare().mustEnd()
	s.mustHave()
	p.mustHave(input)
	if found, err := os.ReadDir(filepath.Join(p.base, layout.State)); err != nil || len(found) > 0 {
		t.Errorf("found %v (%v)", found, err)
	}
	for name, path := range layout.Variables(p.base) {
		// The image writes the exports.
		if _, err := os.Stat(path); (err == nil) != (name != "EXPORTS_PATH") {
			t.Errorf("%s leads to %s: %v", name, path, err)
		}
	}
}

// The state is in chunks, the last of which Landscaper has filled up.
func TestInitWithState(t *testing.T) {
	t.Parallel()
	_, p := newAPIServer(t, "127.0.0.1", nil)
	large := noise(3 * layout.ChunkBytes / 2)
	state := archive.Split(packed(t, map[string]string{"terraform.tfstate": "{}", "dir/large": large}))
	full := bytes.Clone(state[0])
	copy(full, state[1])
	p.mount(layout.Input, packed(t, input))
	p.mount(layout.OldState, state[0], full)
	p.prepare().mustEnd()
	p.mustHave(input)
	p.mustHave(map[string]string{"state/terraform.tfstate": "{}", "state/dir/large": large})

	t.Log("another start makes the same")
	p.prepare().mustEnd()
	p.mustHave(map[string]string{"state/dir/large": large})
}

func TestInitFails(t *testing.T) {
	t.Parallel()
	mount := func(dir string, chunk []byte) func(*place) { return func(p *place) { p.mount(dir, chunk) } }
	file := func(name string) func(*place) { return func(p *place) { p.write(name, "") } }
	half := archive.Split(packed(t, map[string]string{"a": noise(2 * layout.ChunkBytes)}))[0]
	for name, c := range map[string]struct {
		make func(p *place)
		want []string
	}{
		"no input":   {func(*place) {}, []string{"unpack the input", "there is no file 0000"}},
		"no archive": {mount(layout.Input, []byte("hello hello")), []string{"unpack the input", "archive cannot be read"}},
		"missing chunk": {func(p *place) {
			p.mount(layout.Input, packed(p.T, input))
			p.mount(layout.OldState, half)
		}, []string{"unpack the state of the last run", "the archive ends too early"}},
		"no chunk":     {file(layout.Input + "/0000/directory"), []string{"unpack the input", "read chunk"}},
		"no directory": {file(layout.Shared + "/state"), []string{"make directory"}},
		"no volume":    {file(layout.Shared), []string{"make directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			c.make(p)
			p.prepare().mustFail(append(c.want, "main cannot be prepared: ")...)
		})
	}
}
