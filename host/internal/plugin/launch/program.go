package launch

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
)

// Program is the executable file of a plugin. The first Open opens it, and each later start executes the same bytes,
// whatever replaces the file meanwhile.
type Program struct {
	dir, name string
	file      *os.File // nil before Open
	sum       string   // expected SHA-256, in hexadecimal digits; empty before it is known
}

// NewProgram returns the program of this name in a plugin directory.
func NewProgram(dir, name string) *Program { return &Program{dir: dir, name: name} }

// Known reports whether the checksum of the program is known.
func (p *Program) Known() bool { return p.sum != "" }

// TakeFrom replaces the path by that of a copy with this checksum.
func (p *Program) TakeFrom(path, sum string) {
	p.dir, p.name, p.sum = filepath.Dir(path), filepath.Base(path), sum
}

// Path is the first argument of the process. It may lead to another file by now.
func (p *Program) Path() string { return filepath.Join(p.dir, p.name) }

// Open opens the file once, and returns its checksum. It fails if the content has changed since.
func (p *Program) Open() (sum string, err error) {
	if p.file == nil {
		if p.file, err = openProgram(p.dir, p.name); err != nil {
			return "", err
		}
	}
	if sum, err = sumOf(p.file); err != nil {
		return "", err
	}
	if p.sum != "" && sum != p.sum {
		return "", fmt.Errorf("was changed since it was loaded; remove %s if it is in the cache of plugins, and restart the "+
			"host to use it as it is now", p.Path())
	}
	p.sum = sum
	return sum, nil
}

// Close closes the file.
func (p *Program) Close() {
	if p.file != nil {
		_ = p.file.Close() // it was only read
	}
}

// sdkModule is the module of the sdk.
const sdkModule = "github.com/pergola-deploy/pergola"

// sdkVersion returns the version of the sdk in a program's build information: empty without any, such as in a script,
// and "(devel)" for a working copy.
func sdkVersion(file io.ReaderAt) string {
	info, err := buildinfo.Read(file)
	if err != nil {
		return ""
	}
	for _, module := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if module.Path == sdkModule {
			return module.Version
		}
	}
	return ""
}
