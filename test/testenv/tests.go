package testenv

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

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

// nodeTimeout is how long a cluster with a node may take to come up and to be prepared, and to go, on a machine that is busy with something else.
const nodeTimeout = 5 * time.Minute

// RunOnNode runs the tests of a package on a cluster with a node of their own, and returns the code to exit with. Where there can be no such
// cluster, or none is wanted (-short), it says so and returns 0. use takes the node, and a directory for what else the tests need, before the first
// test; without it no test runs. before, if there is one, runs before there is a node, such as to mount what the node is to see; what it returns runs
// after the node has gone. It is called from TestMain with its *testing.M, and parses the flags.
func RunOnNode(tests interface{ Run() int }, before func(dir string) (after func() error, err error),
	use func(ctx context.Context, node *Node, dir string) error,
) (code int) {
	flag.Parse()
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "skipped: a node takes its time")
		return 0
	}
	code, err := runOnNode(tests, before, use)
	if errors.Is(err, ErrNoNode) {
		fmt.Fprintln(os.Stderr, "skipped:", err)
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func runOnNode(tests interface{ Run() int }, before func(dir string) (after func() error, err error),
	use func(ctx context.Context, node *Node, dir string) error,
) (code int, err error) {
	dir, err := os.MkdirTemp("", "node-")
	if err != nil {
		return 1, fmt.Errorf("create directory of the node: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if before != nil {
		var after func() error
		if after, err = before(dir); err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, after()) }()
	}
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	node, err := StartNode(ctx, filepath.Join(dir, "node"))
	if err != nil {
		return 1, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
		defer cancel()
		err = errors.Join(err, node.Stop(ctx))
	}()
	if err := use(ctx, node, dir); err != nil {
		return 1, err
	}
	return tests.Run(), nil
}
