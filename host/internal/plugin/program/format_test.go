package program

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"
)

// elfHeader returns the header of a program without anything in it.
func elfHeader(t testing.TB, machine elf.Machine) string {
	t.Helper()
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
	}
	out, err := binary.Append(nil, binary.LittleEndian, header)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestFormat(t *testing.T) {
	t.Parallel()
	own, known := machines[runtime.GOARCH]
	if runtime.GOOS != "linux" || !known {
		t.Skip("there is nothing to compare with: what can be executed depends on the system")
	}
	tests := map[string]struct {
		reason, content string
		want            []string // parts of the refusal; nothing if it is fine
	}{
		"program":   {"built for this CPU", elfHeader(t, own), nil},
		"script":    {"a script may exec a plugin", "#!/bin/sh\nexec plugin\n", nil},
		"foreign":   {"both CPUs are named", elfHeader(t, elf.EM_MIPS), []string{"is built for another CPU", "EM_MIPS", own.String(), "GOARCH=" + runtime.GOARCH}},
		"truncated": {"a copy that was broken off", elfHeader(t, own)[:20], []string{"is no valid ELF binary"}},
		"magic":     {"nothing but the magic number", elf.ELFMAG, []string{"is no valid ELF binary"}},
		"text":      {"no magic number", "hello", []string{"is no program"}},
		"short":     {"shorter than a magic number", "#", []string{"is no program"}},
		"empty":     {"nothing in it", "", []string{"is no program"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkFormat(strings.NewReader(test.content))
			if (err == nil) != (len(test.want) == 0) {
				t.Fatalf("%s: expected the refusal %q, but found: %v", test.reason, test.want, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: expected %q, but found: %v", test.reason, want, err)
				}
			}
		})
	}
}

// failing is a disk that is broken.
type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func TestFormatOfUnreadableFile(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken disk")
	if err := checkFormat(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("expected the cause, but found: %v", err)
	}
	if _, err := sum(failing{broken}, 1); !errors.Is(err, broken) {
		t.Errorf("expected the cause, but found: %v", err)
	}
}

// FuzzFormat: whatever lies in the plugin directory, nothing panics, and only what looks like a program is taken for one.
func FuzzFormat(f *testing.F) {
	for _, text := range []string{"", "#!", elf.ELFMAG, elfHeader(f, elf.EM_X86_64), elfHeader(f, elf.EM_AARCH64) + strings.Repeat("\x00", 100)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		err := checkFormat(bytes.NewReader(content))
		if err == nil && !bytes.HasPrefix(content, []byte("#!")) && !bytes.HasPrefix(content, []byte(elf.ELFMAG)) && runtime.GOOS == "linux" {
			t.Errorf("%q is no program", content)
		}
	})
}
