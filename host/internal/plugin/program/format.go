package program

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
)

// machines are the ELF machines of the architectures that Go builds Linux programs for and that Kubernetes runs on.
var machines = map[string]elf.Machine{
	"386": elf.EM_386, "amd64": elf.EM_X86_64, "arm": elf.EM_ARM, "arm64": elf.EM_AARCH64,
	"ppc64le": elf.EM_PPC64, "riscv64": elf.EM_RISCV, "s390x": elf.EM_S390,
}

// checkFormat refuses what the kernel would refuse with "exec format error", in words that say what to do.
func checkFormat(file io.ReaderAt) error {
	magic := make([]byte, len(elf.ELFMAG))
	n, err := file.ReadAt(magic, 0)
	if err != nil && !errors.Is(err, io.EOF) {
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
