package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing/fstest"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// licenses is the directory in which scanners of images look for licenses.
const licenses = "licenses/"

// licenseGuide names the owners of the licenses, and the place of their sources, as some of the licenses demand.
const licenseGuide = `LICENSE is the license of Pergola. The directories MODULE@VERSION have the licenses and notices
of its Go modules, as in the source of each module. The directory of Go itself is called stdlib.

"go mod download MODULE@VERSION" fetches the unchanged source of a module. The source of stdlib is at
https://go.dev/dl/.
`

// The names of files with licenses and with notices.
var (
	licenseName = regexp.MustCompile(`(?i)^(un|mit-)?(licen[cs]es?|copying)([-_.].*)?$`)
	noticeName  = regexp.MustCompile(
		`(?i)^(notices?|copyright|patents|third[-_]?party([-_]?(licen[cs]es?|notices?))?)([-_.].*)?$`,
	)
)

// listModules prints the name of a package's module, and the directory of its source.
const listModules = "{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Dir}}{{end}}{{end}}"

// addLicenses adds the licenses of Go and of all modules in programs of these packages. A module without a license is
// an error.
func addLicenses(ctx context.Context, files fstest.MapFS, platform *v1.Platform, packages []string) error {
	arguments := append([]string{"list", "-deps", "-f", listModules}, packages...)
	list := exec.CommandContext(ctx, "go", arguments...) //nolint:gosec // they are ours
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	list.Stderr = os.Stderr
	modules, err := list.Output()
	if err != nil {
		return fmt.Errorf("list modules: %w", err)
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output() // a program without paths does not know it
	if err != nil {
		return fmt.Errorf("find Go: %w", err)
	}
	stdlib := "stdlib@" + strings.TrimPrefix(runtime.Version(), "go")
	all := append(strings.Fields(string(modules)), stdlib, strings.TrimSpace(string(root)))
	sources := map[string]string{}
	for pair := range slices.Chunk(all, 2) {
		sources[pair[0]] = pair[1]
	}
	for module, dir := range sources {
		found, err := licensesIn(os.DirFS(dir))
		if err != nil {
			return fmt.Errorf("licenses of %s: %w", module, err)
		}
		for name, license := range found {
			files[licenses+module+"/"+name] = license
		}
	}
	return nil
}

// licensesIn returns the files with licenses and notices in the source of a module, by their paths there. Files below
// the root are about code of other authors. Directories without packages of Go, such as testdata, are left out.
func licensesIn(source fs.FS) (fstest.MapFS, error) {
	found, licensed := fstest.MapFS{}, false
	err := fs.WalkDir(source, ".", func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		isLicense := licenseName.MatchString(base)
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir() && (base == "testdata" || strings.ContainsAny(base[:1], "._")):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(base) == ".go" || !isLicense && !noticeName.MatchString(base):
			return nil
		}
		licensed = licensed || isLicense && base == name
		content, err := fs.ReadFile(source, name)
		found[name] = &fstest.MapFile{Mode: 0o444, Data: content}
		return err
	})
	if err == nil && !licensed {
		err = errors.New("expected a file such as LICENSE or COPYING at the root of its source, but found none")
	}
	return found, err
}
