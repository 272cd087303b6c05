package container

import (
	"context"
	"fmt"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// hostRights is what the documentation has an operator create, beside testenv.ContainerRights: nobody has other rights in these tests.
const hostRights = "docs/host-rights.yaml"

// The names of the documentation.
const (
	hostNamespace  = "pergola-system"
	hostAccount    = "pergola"
	podNamespace   = "pergola-pods"
	grantedAccount = "container"
)

// applyRights creates what the documentation has an operator create, and returns a kubeconfig for the host.
func applyRights(ctx context.Context) ([]byte, error) {
	for _, file := range []string{hostRights, testenv.ContainerRights} {
		objects, err := testenv.Objects(file)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if err := admin.Create(ctx, object); err != nil {
				return nil, fmt.Errorf("create %s %s of %s: %w", object.GetKind(), object.GetName(), file, err)
			}
		}
	}
	return testenv.KubeconfigOf(ctx, admin, node.Config, hostNamespace, hostAccount)
}
