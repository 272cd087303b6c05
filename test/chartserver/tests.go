package chartserver

import "io"

// TB is what the functions for tests need of a testing.TB, which this package does not import, since the demo is no test.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// StartRegistry is NewRegistry for a test, which ends without it. It is closed with the test.
func StartRegistry(t TB, opts Options) *Registry {
	t.Helper()
	registry, err := NewRegistry(opts)
	closed(t, registry, err)
	return registry
}

// StartRepository is NewRepository for a test, which ends without it. It is closed with the test.
func StartRepository(t TB, opts Options) *Repository {
	t.Helper()
	repository, err := NewRepository(opts)
	closed(t, repository, err)
	return repository
}

// StartFiles is NewFiles for a test, which ends without it. It is closed with the test.
func StartFiles(t TB, opts Options) *Files {
	t.Helper()
	files, err := NewFiles(opts)
	closed(t, files, err)
	return files
}

func closed(t TB, server io.Closer, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
}
