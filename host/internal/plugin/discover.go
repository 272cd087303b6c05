package plugin

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// candidate is a file of the plugin directory that may be a plugin; refusal says why it cannot be one.
type candidate struct {
	file    string
	path    string
	refusal error
}

// discover lists the plugin directory in order of names. Hidden files are passed over, because mounted volumes are full of
// them; everything else is either a candidate or refused by name. It fails only if the directory cannot be read.
func discover(dir string) ([]candidate, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read plugin directory: %w", err)
	}
	var candidates []candidate
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		candidates = append(candidates, candidate{file: entry.Name(), path: path, refusal: inspect(path)})
	}
	return candidates, nil
}

// inspect says why a file cannot be a plugin, as far as that shows without running it.
func inspect(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if !info.Mode().IsRegular() {
		return errors.New("is no regular file; plugins lie directly in the plugin directory")
	}
	if info.Mode()&0o111 == 0 {
		return fmt.Errorf("is not executable (mode %s); chmod 0555 it if it is a plugin, else move it away", info.Mode().Perm())
	}
	return inspectFormat(path)
}

// machines are the ELF machines of the architectures that Go builds Linux programs for and that Kubernetes runs on.
var machines = map[string]elf.Machine{
	"386": elf.EM_386, "amd64": elf.EM_X86_64, "arm": elf.EM_ARM, "arm64": elf.EM_AARCH64,
	"ppc64le": elf.EM_PPC64, "riscv64": elf.EM_RISCV, "s390x": elf.EM_S390,
}

// inspectFormat refuses what the kernel would refuse with "exec format error", in words that say what to do.
func inspectFormat(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read

	magic := make([]byte, len(elf.ELFMAG))
	n, err := io.ReadFull(file, magic)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("cannot be read: %w", err)
	}
	switch {
	case strings.HasPrefix(string(magic[:n]), "#!"):
		return nil // a script may well exec a plugin
	case runtime.GOOS != "linux":
		return nil
	case string(magic[:n]) != elf.ELFMAG:
		return errors.New("is no program: neither an ELF binary nor a script")
	}
	binary, err := elf.NewFile(file)
	if err != nil {
		return fmt.Errorf("is no valid ELF binary: %w", err)
	}
	if want, known := machines[runtime.GOARCH]; known && binary.Machine != want {
		return fmt.Errorf("is built for another CPU (%s, this host needs %s); build it with GOARCH=%s", binary.Machine, want, runtime.GOARCH)
	}
	return nil
}
