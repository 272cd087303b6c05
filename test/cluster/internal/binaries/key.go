package binaries

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"regexp"
	"runtime"
	"strings"
)

// requirement finds the Kubernetes version in go.mod, its only place.
var requirement = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)$`)

// Key names everything the programs depend on, except the Go release: the
// Kubernetes version for people to read, and a hash of the source, the linker
// flags and the architecture. Equal sources have equal keys on every machine.
func Key(source fs.FS) (string, error) {
	version, err := kubernetesVersion(source)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	// Each part goes in with its length, so that no two lists of parts make
	// the same stream of bytes.
	add := func(part []byte) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write(part)
	}
	add([]byte(runtime.GOOS + "/" + runtime.GOARCH))
	add([]byte(linkerFlags(version)))
	err = fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		add([]byte(path))
		add(content)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hash source: %w", err)
	}
	return fmt.Sprintf("%s-%x", version, hash.Sum(nil)[:6]), nil
}

func kubernetesVersion(source fs.FS) (string, error) {
	mod, err := fs.ReadFile(source, "go.mod")
	if err != nil {
		return "", fmt.Errorf("read Kubernetes version: %w", err)
	}
	match := requirement.FindSubmatch(mod)
	if match == nil {
		return "", fmt.Errorf("read Kubernetes version: go.mod does not require k8s.io/kubernetes")
	}
	return string(match[1]), nil
}

// linkerFlags strips the binaries and sets the version that the programs
// report. Without it kubectl fails to compare its version with the server's.
func linkerFlags(version string) string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const variable = " -X k8s.io/component-base/version."
	return "-s -w" +
		variable + "gitVersion=" + version +
		variable + "gitMajor=" + major +
		variable + "gitMinor=" + minor
}
