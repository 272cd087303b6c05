// Package podexec runs a command in each of several pods, as kubectl exec does, and returns what it prints. So can all replicas of a host be
// asked without any of them listening on the network for that.
package podexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// atOnce is how many pods are asked at once.
	atOnce = 8
	// timeout is how long one pod may take for its answer, and maxOutput how long that may be.
	timeout   = time.Minute
	maxOutput = 64 << 20
)

// Place says in which pods to run a command.
type Place struct {
	// Namespace of the pods, and the labels that they have. Required.
	Namespace, Selector string
	// Container in each of them. Required.
	Container string
}

// Answer is what a command has printed in one pod.
type Answer struct {
	Pod string
	// Labels of the pod.
	Labels map[string]string
	Stdout []byte
	// Err says why there is no answer: the pod does not run, nobody may ask it, or the command has failed.
	Err error
}

// Ask runs a command in all pods of a place, and returns their answers in the order of the names. The error says that the pods are not
// known, or that there are none.
func Ask(ctx context.Context, config *rest.Config, place Place, command ...string) ([]Answer, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	pods, err := clients.CoreV1().Pods(place.Namespace).List(ctx, metav1.ListOptions{LabelSelector: place.Selector})
	if err != nil {
		return nil, fmt.Errorf("list the pods with the labels %q in the namespace %q: %w", place.Selector, place.Namespace, err)
	}
	if len(pods.Items) == 0 {
		return nil, fmt.Errorf("no pod in the namespace %q has the labels %q", place.Namespace, place.Selector)
	}
	answers := make([]Answer, len(pods.Items))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range pods.Items {
		group.Go(func() error {
			pod := &pods.Items[i]
			answers[i] = Answer{Pod: pod.Name, Labels: pod.Labels}
			if answers[i].Err = able(pod); answers[i].Err == nil {
				answers[i].Stdout, answers[i].Err = run(ctx, clients, config, pod, place.Container, command)
			}
			return nil
		})
	}
	_ = group.Wait() // what goes wrong is in the answers
	return answers, nil
}

// able tells why a pod cannot be asked; nil if it can.
func able(pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return errors.New("its pod is being deleted")
	case pod.Status.Phase != corev1.PodRunning:
		return fmt.Errorf("its pod is not running: the phase is %q", pod.Status.Phase)
	default:
		return nil
	}
}

func run(
	ctx context.Context, clients kubernetes.Interface, config *rest.Config, pod *corev1.Pod, container string, command []string,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request := clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	// As kubectl does it: websockets, or what API servers and proxies before them knew.
	websocket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, request.URL().String())
	if err != nil {
		return nil, fmt.Errorf("prepare the request: %w", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, request.URL())
	if err != nil {
		return nil, fmt.Errorf("prepare the request: %w", err)
	}
	executor, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the request: %w", err)
	}
	stdout, stderr := &bounded{left: maxOutput}, &bounded{left: maxOutput}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
	if text := strings.TrimSpace(stderr.String()); err != nil && text != "" {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return stdout.Bytes(), err
}

// bounded is a buffer that takes no more than so many bytes.
type bounded struct {
	bytes.Buffer

	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.left {
		return 0, errors.New("it prints too much")
	}
	b.left -= len(p)
	return b.Buffer.Write(p)
}
