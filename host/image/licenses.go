package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// licenseDir is where those who scan or certify images look for licenses. The project's own is in it, that of a module in a directory of its own.
const licenseDir = "/licenses/"

// licenseGuide says what the licenses belong to, and where the source of that is, which some of them demand.
const licenseGuide = `LICENSE is the license of Pergola. The directories have the licenses and notices of the Go modules that this image is made of, as
they are in the source of each, and are called after them: MODULE@VERSION. What Go itself brings is called stdlib.

Their source, of which nothing was changed, is what "go mod download MODULE@VERSION" fetches. That of stdlib is at https://go.dev/dl/.
`

// What files with licenses and with notices are called.
var (
	licenseName = regexp.MustCompile(`(?i)^(un|mit-)?(licen[cs]es?|copying)([-_.].*)?$`)
	noticeName  = regexp.MustCompile(`(?i)^(notices?|copyright|patents|third[-_]?party([-_]?(licen[cs]es?|notices?))?)([-_.].*)?$`)
)

var errNoLicense = errors.New("expected a file such as LICENSE or COPYING at the root of its source, but found none")

// licensesOf is the directory of an image that has the licenses of a module.
func licensesOf(m debug.Module) string { return licenseDir + nameOf(m) + "/" }

// nameOf is what Go calls a module of a certain version.
func nameOf(m debug.Module) string { return m.Path + "@" + m.Version }

// readLicenses returns what an image of these modules has in its directory of licenses besides the project's own, in order of the paths. It
// fails if a module has no license. Sources that are not on this machine are fetched.
func readLicenses(ctx context.Context, modules []debug.Module) ([]file, error) {
	sources, err := findSources(ctx, modules)
	if err != nil {
		return nil, err
	}
	files := map[string]file{}
	put := func(f file) { files[f.path] = f }
	put(file{path: licenseDir + "README", mode: fileMode, content: []byte(licenseGuide)})
	for _, m := range modules {
		found, err := licensesIn(os.DirFS(sources[nameOf(m)]), m.Path != standardLibrary)
		if err != nil {
			return nil, fmt.Errorf("read licenses of module %s: %w", nameOf(m), err)
		}
		for name, content := range found {
			name = licensesOf(m) + name
			put(file{path: name, mode: fileMode, content: content})
			for dir := path.Dir(name); dir+"/" != licenseDir; dir = path.Dir(dir) {
				put(file{path: dir + "/", mode: dirMode})
			}
		}
	}
	return slices.SortedFunc(maps.Values(files), byPath), nil
}

// licensesIn returns the files with licenses and notices in the source of a module, by their paths there. With deep, those below the root are
// among them: they are of what was taken over from others. Directories that are no packages to Go, such as testdata, are left out.
func licensesIn(source fs.FS, deep bool) (map[string][]byte, error) {
	found, licensed := map[string][]byte{}, false
	err := fs.WalkDir(source, ".", func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		isLicense := licenseName.MatchString(base)
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir() && (!deep || base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(base) == ".go" || !isLicense && !noticeName.MatchString(base):
			return nil
		}
		licensed = licensed || isLicense && base == name
		found[name], err = fs.ReadFile(source, name)
		return err
	})
	if err == nil && !licensed {
		err = errNoLicense
	}
	return found, err
}

// unpackLicenses writes the licenses that an image has on any of its platforms into a directory, as in its root directory.
func unpackLicenses(variants []variant, into string) error {
	if _, err := os.Lstat(filepath.Join(into, licenseDir)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("expected nothing at %s, where the licenses go; remove it", filepath.Join(into, licenseDir)))
	}
	files := map[string]file{}
	for _, v := range variants {
		for _, f := range v.licenses {
			files[f.path] = f
		}
	}
	for _, f := range slices.SortedFunc(maps.Values(files), byPath) {
		if strings.HasSuffix(f.path, "/") { // made with what is in it
			continue
		}
		to := filepath.Join(into, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(to), dirMode); err != nil {
			return fmt.Errorf("create directory for licenses: %w", err)
		}
		if err := os.WriteFile(to, f.content, fileMode); err != nil {
			return fmt.Errorf("write license: %w", err)
		}
	}
	return nil
}
