package release_test

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// environment is the API server that all tests of this package share, and cluster the access to it.
var (
	environment *envtest.Environment
	cluster     *rest.Config
)

func TestMain(m *testing.M) {
	os.Exit(testenv.RunOnAPIServer(m, func(e *envtest.Environment) { environment, cluster = e, e.Config }))
}

// kubeconfig returns the kubeconfig for an access.
func kubeconfig(t *testing.T, access *rest.Config) []byte {
	t.Helper()
	content, err := testenv.InlineKubeconfig(access)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
