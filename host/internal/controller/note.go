package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// never stands in a note for no time.
const never = "never"

// idleNote is what a replica leaves with the lock of an item that has nothing to do at a version: the version, and
// if hooks were asked about the item, which ones and when they want it to be reconciled again. Whoever has the same
// hooks need not ask them.
func idleNote(version string, hooks hookMemory) string {
	if hooks.asked == "" && hooks.again.IsZero() {
		return version
	}
	until := never
	if !hooks.again.IsZero() {
		until = hooks.again.UTC().Format(time.RFC3339Nano)
	}
	return strings.Join([]string{version, digestOf(hooks.asked), until}, " ")
}

// readNote reads what idleNote has added to the version. It reports whether these hooks were asked, and when they
// want the item to be reconciled again; zero for never.
func readNote(note, asked string) (again time.Time, ok bool) {
	if note == "" {
		return time.Time{}, asked == ""
	}
	digest, until, _ := strings.Cut(note, " ")
	if digest != digestOf(asked) {
		return time.Time{}, false
	}
	if until == never {
		return time.Time{}, true
	}
	again, err := time.Parse(time.RFC3339Nano, until)
	return again, err == nil
}

// digestOf is short enough for a note.
func digestOf(asked string) string {
	sum := sha256.Sum256([]byte(asked))
	return hex.EncodeToString(sum[:8])
}
