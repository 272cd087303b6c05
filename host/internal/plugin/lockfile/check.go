package lockfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNotListed is wrapped by the error about a plugin file that has no entry.
var ErrNotListed = errors.New("is not in the lock file")

// ChangedError is about a plugin file that is not the one that was locked. Like ErrNotListed it leaves the name of the file to the
// caller to put in front.
type ChangedError struct {
	// File is the name of the plugin file, Lock that of the lock file.
	File, Lock string
	// Want is the checksum that was locked, Got that of the file.
	Want, Got [32]byte
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("its sha256 is %x, but the lock file %s says %x: it is not the file that was locked; "+
		"put that one back, or lock this one with `pergola plugins lock`, if it is meant to be run", e.Got, e.Lock, e.Want)
}

// ClaimError is about a plugin that says something else of itself than what was locked. It leaves the name of the file to the caller.
type ClaimError struct {
	// Lock is the name of the lock file.
	Lock string
	// Want is the entry. Got is the same, but for what the plugin says.
	Want, Got Plugin
}

func (e *ClaimError) Error() string {
	var claims []string
	for _, claim := range []struct {
		what      string
		want, got []string
	}{
		{"name is", []string{e.Want.Name}, []string{e.Got.Name}},
		{"version is", []string{e.Want.Version}, []string{e.Got.Version}},
		{"types are", e.Want.Types, e.Got.Types},
		{"hooked types of others are", e.Want.HookedTypes, e.Got.HookedTypes},
	} {
		if !slices.Equal(claim.want, claim.got) {
			claims = append(claims, fmt.Sprintf("its %s %s, but the lock file says %s", claim.what, quoteAll(claim.got), quoteAll(claim.want)))
		}
	}
	return fmt.Sprintf("says of itself what was not locked in %s: %s; lock it with `pergola plugins lock`, if that is meant",
		e.Lock, strings.Join(claims, "; "))
}

func quoteAll(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quote(text)
	}
	if len(quoted) == 0 {
		return "none"
	}
	return strings.Join(quoted, ", ")
}

// Check says why a plugin file must not be run: it is not listed (ErrNotListed), or it is another one than that which was locked
// (*ChangedError). sha256 is the checksum of what would be executed.
func (f *File) Check(file string, sha256 [32]byte) error {
	plugin, err := f.entry(file)
	if err != nil {
		return err
	}
	if plugin.SHA256 != sha256 {
		return &ChangedError{File: file, Lock: f.source, Want: plugin.SHA256, Got: sha256}
	}
	return nil
}

// CheckInfo says why a plugin must not be used: what it says of itself is not what was locked (*ClaimError), or its file is not
// listed (ErrNotListed). says has everything but the checksum. The order of types does not matter, nor whether one is named twice.
func (f *File) CheckInfo(says Plugin) error {
	want, err := f.entry(says.File)
	if err != nil {
		return err
	}
	got := says
	got.SHA256 = want.SHA256
	got.Types, got.HookedTypes = inOrder(says.Types), inOrder(says.HookedTypes)
	if got.Name != want.Name || got.Version != want.Version || !slices.Equal(got.Types, want.Types) || !slices.Equal(got.HookedTypes, want.HookedTypes) {
		return &ClaimError{Lock: f.source, Want: want, Got: got}
	}
	return nil
}

// inOrder returns each text once.
func inOrder(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

func (f *File) entry(file string) (Plugin, error) {
	i := slices.IndexFunc(f.plugins, func(p Plugin) bool { return p.File == file })
	if i < 0 {
		return Plugin{}, fmt.Errorf("%w %s; `pergola plugins lock` adds it, if it is meant to be run", ErrNotListed, f.source)
	}
	plugin := f.plugins[i]
	plugin.Types, plugin.HookedTypes = slices.Clone(plugin.Types), slices.Clone(plugin.HookedTypes)
	return plugin, nil
}
