package plugin

import (
	"encoding/hex"
	"fmt"
)

// checkSum says why the program in a file must not be run: found, its SHA-256, is not that of the profile, or the
// profile has none although one is required.
func checkSum(file string, profile Profile, required bool, found []byte) error {
	entry := file
	if profile.Plugin != "" {
		entry = profile.Plugin
	}
	switch sum := hex.EncodeToString(found); {
	case profile.SHA256 == sum, profile.SHA256 == "" && !required:
		return nil
	case profile.SHA256 == "":
		return fmt.Errorf("expected a checksum in the host configuration, because verification is required, but "+
			"plugins.%s.sha256 is missing; the sha256 of %s is %s: set the field to it if the file is meant to be run",
			entry, file, sum)
	default:
		return fmt.Errorf("expected the sha256 %s of plugins.%s in the host configuration, but that of %s is %s; put the "+
			"file there that is meant, or set the field to its checksum, and restart the host",
			profile.SHA256, entry, file, sum)
	}
}
