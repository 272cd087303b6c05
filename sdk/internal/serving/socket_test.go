package serving

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A plugin listens where it is told. It replaces the socket of a killed process, and nothing else.
func TestListen(t *testing.T) {
	t.Parallel()
	stale := func(t *testing.T, path string) {
		listener := must(t)(net.Listen("unix", path)).(*net.UnixListener) //nolint:noctx // it does not block
		listener.SetUnlinkOnClose(false)
		_ = listener.Close()
	}
	served := func(t *testing.T, path string) {
		listener := must(t)(net.Listen("unix", path)) //nolint:noctx // it does not block
		t.Cleanup(func() { _ = listener.Close() })
	}
	file := func(t *testing.T, path string) {
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		before func(t *testing.T, path string)
		err    string
	}{
		"nothing":          {func(*testing.T, string) {}, ""},
		"a stale socket":   {stale, ""},
		"a served socket":  {served, "another process serves at"},
		"a file of a user": {file, "is no socket"},
	} {
		for _, scheme := range []string{"", "unix://"} {
			t.Run(name+" "+scheme, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "s")
				test.before(t, path)
				listener, remove, err := listen(t.Context(), "a", scheme+path)
				if test.err != "" {
					if err == nil || !strings.Contains(err.Error(), test.err) {
						t.Errorf("expected %q, but found %v", test.err, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				socket, err := os.Stat(path)
				if err != nil || socket.Mode().Perm()&0o077 != 0 {
					t.Errorf("expected a socket for this user alone, but found %v (%v)", socket, err)
				}
				if listener.Close() != nil || remove() != nil {
					t.Error("it cannot be closed")
				}
				if _, err := os.Stat(path); !os.IsNotExist(err) {
					t.Errorf("the socket is still there: %v", err)
				}
			})
		}
	}
}

func must(t *testing.T) func(net.Listener, error) net.Listener {
	return func(listener net.Listener, err error) net.Listener {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return listener
	}
}
