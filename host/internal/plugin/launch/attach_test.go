package launch

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// Only a socket is attached to, and a missing process may come later.
func TestAttachToNothing(t *testing.T) {
	t.Parallel()
	for address, test := range map[string]struct {
		want    string
		refused bool
	}{
		"unix:///no/such/socket": {"no process listens there", false},
		"tcp://127.0.0.1:1":      {"expected an address such as unix:///", true},
	} {
		settings := Settings{Timeout: time.Minute, Clock: clock.RealClock{}}
		_, err := Attach(t.Context(), address, settings, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrRefused) != test.refused {
			t.Errorf("%s: expected %q, but found: %v", address, test.want, err)
		}
	}
}
