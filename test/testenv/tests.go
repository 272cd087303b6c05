package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StartForTest starts a control plane for one test, at whose end it is stopped, and returns it with a client of its administrator.
func StartForTest(t testing.TB) (*ControlPlane, client.Client) {
	t.Helper()
	controlPlane, err := StartControlPlane(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := controlPlane.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := controlPlane.Client()
	if err != nil {
		t.Fatal(err)
	}
	return controlPlane, admin
}

// LogIn logs in with a kubeconfig that has a token and no other credentials, which is an error, and returns a client and the name that
// the API server knows its user by.
func LogIn(ctx context.Context, kubeconfig []byte) (clients kubernetes.Interface, user string, err error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	if len(config.CertData) > 0 || config.Username != "" || config.Password != "" {
		return nil, "", errors.New("the kubeconfig has credentials besides the token")
	}
	if clients, err = kubernetes.NewForConfig(config); err != nil {
		return nil, "", fmt.Errorf("log in: %w", err)
	}
	review, err := clients.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("ask for the own name: %w", err)
	}
	return clients, review.Status.UserInfo.Username, nil
}

// RunTests runs the tests of a package with one control plane for all of them, and returns the code to exit with. use takes
// the control plane before the first test; without it no test runs. It is called from TestMain with its *testing.M.
func RunTests(tests interface{ Run() int }, use func(*ControlPlane) error) (code int) {
	code, err := runTests(tests, use)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func runTests(tests interface{ Run() int }, use func(*ControlPlane) error) (code int, err error) {
	dir, err := os.MkdirTemp("", "pergola-test-")
	if err != nil {
		return 1, fmt.Errorf("create directory of the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	controlPlane, err := StartControlPlane(context.Background(), dir)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, controlPlane.Stop()) }()
	if err := use(controlPlane); err != nil {
		return 1, err
	}
	return tests.Run(), nil
}
