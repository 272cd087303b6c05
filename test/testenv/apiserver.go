package testenv

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// RunOnAPIServer runs the tests of a package with one API server and its etcd for all of them, and returns the code to exit with. Nothing of
// Pergola's is on it. use takes it, with the Config of an administrator, whose clients are not limited, before the first test. It is called from
// TestMain with its *testing.M.
//
// In the processes of a fuzz run there is no API server and use is not called: fuzz targets do without.
func RunOnAPIServer(tests interface{ Run() int }, use func(*envtest.Environment)) (code int) {
	flag.Parse()
	if f := flag.Lookup("test.fuzz"); f != nil && f.Value.String() != "" {
		return tests.Run()
	}
	code, err := runOnAPIServer(tests, use)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func runOnAPIServer(tests interface{ Run() int }, use func(*envtest.Environment)) (code int, err error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 1, errors.New("these tests need etcd and kube-apiserver: run `make test`, which sets KUBEBUILDER_ASSETS")
	}
	environment := &envtest.Environment{ControlPlaneStartTimeout: startTimeout}
	config, err := environment.Start()
	if err != nil {
		return 1, fmt.Errorf("start the API server: %w", err)
	}
	defer func() {
		if stopErr := environment.Stop(); stopErr != nil {
			err = errors.Join(err, fmt.Errorf("stop the API server: %w", stopErr))
		}
	}()
	config.QPS = -1
	use(environment)
	return tests.Run(), nil
}
