package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// program is one that goes into an image, with what Go has written into it about itself.
type program struct {
	placement

	content []byte
	info    *buildinfo.BuildInfo
}

// modules are those that a program was built of besides its own, with Go's own packages. Those that were replaced are those that took their place.
func (p program) modules() []debug.Module {
	all := []debug.Module{{Path: standardLibrary, Version: strings.TrimPrefix(p.info.GoVersion, "go")}}
	for _, m := range p.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, *m)
	}
	return all
}

// modules are those of all programs, each once.
func (v variant) modules() []debug.Module {
	all := map[string]debug.Module{}
	for _, p := range v.programs {
		for _, m := range p.modules() {
			all[nameOf(m)] = m
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b debug.Module) int { return strings.Compare(nameOf(a), nameOf(b)) })
}

// readPrograms reads those that an image has on a platform, from a directory that has one of them for each platform, such as linux/amd64.
func readPrograms(dir string, d definition, p platform) (variant, error) {
	v := variant{platform: p}
	for _, place := range d.programs {
		path := filepath.Join(dir, p.os, p.architecture, place.source)
		content, err := os.ReadFile(path)
		if err != nil {
			return v, fmt.Errorf("read program: %w", err)
		}
		info, err := buildinfo.Read(bytes.NewReader(content))
		if err != nil {
			return v, fmt.Errorf("read what program %s was built of: %w", path, err)
		}
		if err := check(info, p); err != nil {
			return v, fmt.Errorf("program %s: %w", path, err)
		}
		v.programs = append(v.programs, program{placement: place, content: content, info: info})
	}
	return v, nil
}

// check says why a program cannot be run in an image that has nothing else in it.
func check(info *buildinfo.BuildInfo, p platform) error {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	for _, need := range []struct{ key, value, otherwise string }{
		{"GOOS", p.os, "it is for another platform"},
		{"GOARCH", p.architecture, "it is for another platform"},
		{"CGO_ENABLED", "0", "it needs libraries, and there are none in the image"},
		{"-trimpath", "true", "it holds paths of the machine that it was built on, and differs from one that was built elsewhere"},
	} {
		if found := settings[need.key]; found != need.value {
			return fmt.Errorf("expected it to be built with %s=%s, but found %q: %s", need.key, need.value, found, need.otherwise)
		}
	}
	return nil
}
