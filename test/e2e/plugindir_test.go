package e2e

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// foreignBinary is the beginning of a program for another CPU than any that the tests run on.
func foreignBinary(t *testing.T) []byte {
	t.Helper()
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_SPARCV9), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var out bytes.Buffer
	if err := binary.Write(&out, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBadFilesInThePluginDirectory(t *testing.T) {
	dir := pluginDir(t, "mock")
	for name, file := range map[string]struct {
		content []byte
		mode    os.FileMode
	}{
		"not-executable": {[]byte("#!/bin/sh\n"), 0o644},
		"text":           {[]byte("just some text\n"), 0o755},
		"other-cpu":      {foreignBinary(t), 0o755},
		"no-plugin":      {[]byte("#!/bin/sh\necho hello\n"), 0o755},
		"hangs":          {[]byte("#!/bin/sh\nexec sleep 600\n"), 0o755},
		".hidden":        {[]byte("passed over"), 0o644},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), file.content, file.mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	host := startHost(t, testenv.HostOptions{PluginDir: dir})
	namespace := newNamespace(t)

	carryOut(t, newItem(namespace, "item", mockType, mockSucceeds), v1alpha1.DeployItemPhaseSucceeded)

	if err := host.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "plugin hangs: ") {
		t.Errorf("the other plugins were to work while one hangs, but readiness says: %v", err)
	}
	want := map[string]string{
		"not-executable": "refused: is not executable",
		"text":           "refused: is no program",
		"other-cpu":      "refused: is built for another CPU",
		"no-plugin":      "is no Pergola plugin",
		"directory":      "refused: is no regular file",
	}
	eventually(t, "readiness to name each bad file", func(ctx context.Context) (string, error) {
		err := host.Ready(ctx)
		if err == nil {
			return "the host is ready", nil
		}
		for file, problem := range want {
			if !strings.Contains(err.Error(), "plugin "+file+": "+problem) {
				return err.Error(), nil
			}
		}
		return "", nil
	})
	for file, problem := range want {
		if log := host.Log(); !strings.Contains(log, `"plugin":"`+file+`"`) || !strings.Contains(log, problem) {
			t.Errorf("the log does not say that %s %s", file, problem)
		}
	}
	if err := host.Ready(t.Context()); err != nil && (strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "mock")) {
		t.Errorf("readiness names a file that is all right: %v", err)
	}
}

func TestEmptyPluginDirectory(t *testing.T) {
	dir := t.TempDir()
	host := startHost(t, testenv.HostOptions{PluginDir: dir})
	eventually(t, "readiness to say that there are no plugins", func(ctx context.Context) (string, error) {
		err := host.Ready(ctx)
		if err == nil || !strings.Contains(err.Error(), "no plugins in "+dir) {
			return "readiness: " + describeError(err), nil
		}
		return "", nil
	})
	if !strings.Contains(host.Log(), "there are no plugins") {
		t.Error("the log does not say that there are no plugins")
	}
}

func describeError(err error) string {
	if err == nil {
		return "ready"
	}
	return err.Error()
}

func TestTwoPluginsForOneType(t *testing.T) {
	host := startHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "mock", "twin", "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	contested := newItem(namespace, "contested", mockType, mockSucceeds)
	create(t, contested)
	setJob(t, contested)
	version := read(t, contested).ResourceVersion

	eventually(t, "readiness to refuse both", func(ctx context.Context) (string, error) {
		text := describeError(host.Ready(ctx))
		for _, file := range []string{"mock", "twin"} {
			if !strings.Contains(text, "plugin "+file+": refused") || !strings.Contains(text, "claimed by mock and twin") {
				return text, nil
			}
		}
		return "", nil
	})
	carryOut(t, newItem(namespace, "item", probeType, probeConfig(dir)), v1alpha1.DeployItemPhaseSucceeded)
	if fresh := read(t, contested); fresh.ResourceVersion != version {
		t.Errorf("an item of the contested type was written: %s", describe(fresh))
	}
}
