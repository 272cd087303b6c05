package archive

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// A file that changes while it is read is not packed in part.
func TestChangesWhileReading(t *testing.T) {
	t.Parallel()
	for reason, text := range map[string]string{"grown": "files", "shrunk": "fil", "gone": ""} {
		if err := newWriter(io.Discard).file("file", false, int64(len("file")),
			strings.NewReader(text)); !errors.Is(err, errChanged) {
			t.Errorf("%s: expected that the change is found, but found %v", reason, err)
		}
	}
}
