package plugin

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"syscall"
)

const (
	setID       = 0o6000
	othersWrite = 0o022
	execute     = 0o111
)

// checkFile says why a file must not be run by the user self. The path is for what it says to do.
func checkFile(file *os.File, path string, self int) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("cannot be examined: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("cannot be examined: the system does not say whose it is")
	}
	switch mode := uint32(stat.Mode) & 0o7777; { //nolint:unconvert // its type depends on the system
	case !info.Mode().IsRegular():
		return errors.New("is no regular file; plugins lie directly in the plugin directory")
	case mode&setID != 0:
		return fmt.Errorf("is set-uid or set-gid (mode %04o), but no plugin may have other rights than the host; chmod "+
			"0755 %s", mode, path)
	case mode&othersWrite != 0:
		return fmt.Errorf("may be written by its group or by others (mode %04o), who could put anything there; chmod 0755 %s",
			mode, path)
	case stat.Uid != 0 && int(stat.Uid) != self:
		return fmt.Errorf("belongs to the user %d, who could put anything there; chown it to root, or to the user %d "+
			"that the host runs as: chown 0 %s",
			stat.Uid, self, path)
	case mode&execute == 0:
		return fmt.Errorf("is not executable (mode %04o); chmod 0755 %s if it is a plugin, else move it away", mode, path)
	default:
		return nil
	}
}

// sumOf reads the whole file and returns its SHA-256, which takes less than a second for each gigabyte.
func sumOf(file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(file, 0, info.Size())); err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// sdkModule is what has the sdk.
const sdkModule = "github.com/pergola-deploy/pergola"

// sdkVersion returns the version of the sdk that a program was built with, from what Go writes into programs: empty if
// that is not to be found, such as for a script, and "(devel)" if it was built from a working copy.
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

// checkSum says why the program in a file must not be run: sum, its SHA-256, is not that of the profile, or the profile
// has none although one is required.
func (p Profile) checkSum(file, sum string, required bool) error {
	entry := file
	if p.Plugin != "" {
		entry = p.Plugin
	}
	switch {
	case p.SHA256 == sum, p.SHA256 == "" && !required:
		return nil
	case p.SHA256 == "":
		return fmt.Errorf("expected a checksum in the host configuration, because verification is required, but "+
			"plugins.%s.sha256 is missing; the sha256 of %s is %s: set the field to it if the file is meant to be run",
			entry, file, sum)
	default:
		return fmt.Errorf("expected the sha256 %s of plugins.%s in the host configuration, but that of %s is %s; put the "+
			"file there that is meant, or set the field to its checksum, and restart the host",
			p.SHA256, entry, file, sum)
	}
}

// checkProfile tells what is wrong with a plugin of this name in this file: the profile of one plugin must not be
// applied to another, nor be passed over because of the name of a file. profiles are by the names of files.
func checkProfile(profiles map[string]Profile, file, name string) error {
	if profile, ok := profiles[file]; ok {
		if profile.Plugin == name {
			return nil
		}
		return fmt.Errorf("calls itself %q, but the host configuration says that the file %s is that of plugins.%s; set "+
			"the field file there",
			name, file, profile.Plugin)
	}
	for other, profile := range profiles {
		if profile.Plugin == name {
			return fmt.Errorf("calls itself %q, but the host configuration says that the file of plugins.%s is %s; set the "+
				"field file there to %q",
				name, name, other, file)
		}
	}
	return nil
}
