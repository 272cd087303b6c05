package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
	"github.com/pergola-deploy/pergola/host/internal/plugin/program"
	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// lockPlugins writes a lock file of the plugins in a directory as they are, with changes made to the entries.
func lockPlugins(t *testing.T, dir string, change func(*lockfile.Plugin)) string {
	t.Helper()
	files, err := discover(dir)
	if err != nil {
		t.Fatal(err)
	}
	var entries []lockfile.Plugin
	for _, file := range files {
		opened, err := program.Open(dir, file)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := opened.Sum()
		if err := errors.Join(err, opened.Close()); err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(file, "_")
		entry := lockfile.Plugin{File: file, Name: parts[1], Version: "v0", Types: []string{parts[2]}, SHA256: sum}
		if entry.Name == "hooked" {
			entry.HookedTypes = []string{string(echoType)}
		}
		change(&entry)
		entries = append(entries, entry)
	}
	lock, err := lockfile.New(entries)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, plugindir.LockFile)
	if err := lock.Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func asItIs(*lockfile.Plugin) {}

func TestVerification(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason  string
		mode    lockfile.Mode
		change  func(*lockfile.Plugin)
		spoil   func(t *testing.T, dir string)
		refused map[string]string // by file; the others run
	}{
		"locked": {reason: "what was locked runs", mode: lockfile.Require, change: asItIs},
		"a changed byte": {
			reason: "it is another program", mode: lockfile.Require, change: asItIs,
			spoil: func(t *testing.T, dir string) {
				t.Helper()
				appendTo(t, filepath.Join(dir, "raw_a_one"))
			},
			refused: map[string]string{"raw_a_one": "it is not the file that was locked"},
		},
		"not listed": {
			reason: "nobody has locked it", mode: lockfile.Require, change: asItIs,
			spoil: func(t *testing.T, dir string) {
				t.Helper()
				addPlugin(t, filepath.Join(dir, "raw_a_one"), filepath.Join(dir, "raw_c_three"))
			},
			refused: map[string]string{"raw_c_three": "is not in the lock file"},
		},
		"more than was locked": {
			reason: "it claims another type than the one that was locked", mode: lockfile.Require,
			change: func(p *lockfile.Plugin) {
				if p.Name == "a" {
					p.Types = []string{"other"}
				}
			},
			refused: map[string]string{"raw_a_one": "says of itself what was not locked"},
		},
		"hooks that were not locked": {
			reason: "they would hold up what is not the plugin's own", mode: lockfile.Require,
			change: func(p *lockfile.Plugin) {
				if p.Name == "hooked" {
					p.HookedTypes = nil
				}
			},
			refused: map[string]string{"raw_hooked_three": `its hooked types of others are "test.pergola.dev/echo", but the lock file says none`},
		},
		"warn": {
			reason: "it runs, and the log says what is wrong", mode: lockfile.Warn,
			change: func(p *lockfile.Plugin) { p.SHA256[0]++ },
		},
		"off": {
			reason: "nobody looks", mode: lockfile.Off,
			change: func(p *lockfile.Plugin) { p.SHA256[0]++ },
		},
		"no lock file": {
			reason: "without it nothing is allowed", mode: lockfile.Require, change: asItIs,
			spoil: func(t *testing.T, dir string) {
				t.Helper()
				if err := os.Remove(filepath.Join(dir, plugindir.LockFile)); err != nil {
					t.Fatal(err)
				}
			},
			refused: map[string]string{"raw_a_one": "read lock file", "raw_b_two": "read lock file", "raw_hooked_three": "read lock file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copies(t, "raw_a_one", "raw_b_two", "raw_hooked_three")
			path := lockPlugins(t, dir, test.change)
			if test.spoil != nil {
				test.spoil(t, dir)
			}
			h := openHost(t, dir, func(o *Options) { o.Verification = Verification{Mode: test.mode, LockFile: path} }).run()
			for _, s := range h.Status() {
				want, refused := test.refused[s.File]
				if !refused {
					h.waitFor(s.File, Running)
					continue
				}
				if s := h.waitFor(s.File, Refused); !strings.Contains(s.Problem.Error(), want) {
					t.Errorf("%s: expected %s to be refused with %q, but found: %v", test.reason, s.File, want, s.Problem)
				}
			}
			if told := len(h.log.with("there is a lock file, but the host configuration names none")) > 0; told != (test.mode == lockfile.Off) {
				t.Errorf("%s: told of a lock file that nobody looks at: %t", test.reason, told)
			}
			warnings := h.log.with("plugin would be refused if verification were required")
			if warned := len(warnings) > 0; warned != (test.mode == lockfile.Warn) {
				t.Errorf("%s: found the warnings %v", test.reason, warnings)
			}
		})
	}
}

// copies returns a plugin directory whose files are not shared with those of other tests.
func copies(t *testing.T, files ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o755); err != nil { // #nosec G306 -- a program
			t.Fatal(err)
		}
	}
	return dir
}

// appendTo changes a program in a way that does not keep it from running.
func appendTo(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString("x")
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestSignedLockFile(t *testing.T) {
	t.Parallel()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := lockfile.ParsePublicKey(public.String())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		reason string
		sign   func(text []byte) []byte // nil for no signature
		want   string                   // why all are refused; empty if none is
	}{
		"signed":            {"by a key that the host trusts", func(text []byte) []byte { return minisign.Sign(private, text) }, ""},
		"unsigned":          {"fails closed", nil, "is not signed"},
		"another key":       {"that the host does not know", func(text []byte) []byte { return minisign.Sign(stranger, text) }, "is not valid"},
		"another lock file": {"the signature is that of another text", func(text []byte) []byte { return minisign.Sign(private, append(text, '\n')) }, "is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := pluginDir(t, "raw_a_one", "raw_b_two")
			path := lockPlugins(t, dir, asItIs)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if test.sign != nil {
				if err := os.WriteFile(path+plugindir.SignatureSuffix, test.sign(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h := openHost(t, dir, func(o *Options) {
				o.Verification = Verification{Mode: lockfile.Require, LockFile: path, Keys: []lockfile.PublicKey{key}}
			}).run()
			for _, file := range []string{"raw_a_one", "raw_b_two"} {
				if test.want == "" {
					h.waitFor(file, Running)
					continue
				}
				if s := h.waitFor(file, Refused); !strings.Contains(s.Problem.Error(), test.want) {
					t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, s.Problem)
				}
			}
		})
	}
}

// A lock file that allows a plugin no more ends it with the next reload, although its file has not changed.
func TestRevocation(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t, "raw_a_one", "raw_b_two")
	path := lockPlugins(t, dir, asItIs)
	h := runHost(t, dir, func(o *Options) { o.Verification = Verification{Mode: lockfile.Require, LockFile: path} })
	before := h.status("raw_a_one").Pid
	ended := h.underWay("raw_a_one", "hang")
	lockPlugins(t, dir, func(p *lockfile.Plugin) {
		if p.Name == "a" {
			p.SHA256[0]++
		}
	})
	h.reload()
	if s := h.waitFor("raw_a_one", Refused); !strings.Contains(s.Problem.Error(), "it is not the file that was locked") {
		t.Errorf("expected the lock file to be the reason, but found: %v", s.Problem)
	}
	eventually(t, "its process to end", func() bool { return !alive(before) })
	if err := <-ended; !errors.Is(err, ErrNotRunning) || errors.Is(err, ErrCrashed) {
		t.Errorf("expected a call that is not to blame, but found: %v", err)
	}
	if s := h.status("raw_b_two"); s.State != Running || s.Restarted() > 0 {
		t.Errorf("expected the other one to be left alone, but found %+v", s)
	}
}

// A file that was changed in place is noticed before it is run, whatever its times say.
func TestChangedInPlace(t *testing.T) {
	t.Parallel()
	dir := copies(t, "raw_a_one")
	path := lockPlugins(t, dir, asItIs)
	h := openHost(t, dir, func(o *Options) { o.Verification = Verification{Mode: lockfile.Require, LockFile: path} })
	// Between the start of the host and that of the plugin.
	appendTo(t, filepath.Join(dir, "raw_a_one"))
	h.run()
	if s := h.waitFor("raw_a_one", Refused); !strings.Contains(s.Problem.Error(), "sha256") {
		t.Errorf("expected the checksum to be the reason, but found: %v", s.Problem)
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	all := profiles{"helm": {Plugin: "helm"}, "deployer-v2": {Plugin: "deployer"}}
	for name, test := range map[string]struct {
		reason     string
		file, name string
		want       string
	}{
		"own":               {"the file that the profile is for", "helm", "helm", ""},
		"own, by file":      {"the profile names it", "deployer-v2", "deployer", ""},
		"none":              {"there is no profile for either", "other", "other", ""},
		"of another plugin": {"its limits are for another one", "helm", "manifest", `calls itself "manifest", but the host configuration says that the file helm is that of plugins.helm`},
		"in another file":   {"its own limits were passed over", "deployer-v3", "deployer", `says that the file of plugins.deployer is deployer-v2; set the field file there to "deployer-v3"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := all.check(test.file, test.name)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, err)
			}
		})
	}
}

// An upgrade: the new file and the lock file that allows it come together, and no longer allow the process that runs.
func TestUpgradeOfALockedPlugin(t *testing.T) {
	t.Parallel()
	dir := copies(t, "raw_a_one")
	path := lockPlugins(t, dir, asItIs)
	h := runHost(t, dir, func(o *Options) { o.Verification = Verification{Mode: lockfile.Require, LockFile: path} })
	before := h.status("raw_a_one").Pid
	h.replace("raw_a_one", "")
	appendTo(t, filepath.Join(dir, "raw_a_one"))
	lockPlugins(t, dir, asItIs)
	if done := h.reload(); len(done) != 1 || done[0].Action != ActionRestart || done[0].Err != nil {
		t.Errorf("expected the new file to take the place of the old one, but found %v", done)
	}
	if s := h.status("raw_a_one"); s.State != Running || s.Pid == before {
		t.Errorf("expected the new file to run, but found %+v", s)
	}
}
