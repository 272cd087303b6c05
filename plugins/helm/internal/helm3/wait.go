package helm3

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	cachetools "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

const (
	// readyInterval is Helm's own, and goneInterval is shorter: what is deleted in the background is gone soon.
	readyInterval = 2 * time.Second
	goneInterval  = 500 * time.Millisecond
	// mostRetries is how often in a row an object may fail to tell how it is.
	mostRetries = 30
)

// waiter waits as Helm's client does, but not longer than its context, and says what it has waited for in vain.
type waiter struct {
	ctx       context.Context // that of an operation
	clientSet kubernetes.Interface
	log       func(string, ...any)
}

func newWaiter(ctx context.Context, clientSet kubernetes.Interface, log func(string, ...any)) *waiter {
	return &waiter{ctx: ctx, clientSet: clientSet, log: log}
}

// poll calls done until it returns nothing that is missing.
func (w *waiter) poll(interval, timeout time.Duration, done func(ctx context.Context) (missing string, err error)) error {
	ctx, cancel := context.WithTimeout(w.ctx, timeout)
	defer cancel()
	var last string
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		missing, err := done(ctx)
		if missing != "" {
			last = missing
		}
		return missing == "" && err == nil, err
	})
	switch {
	case err == nil:
		return nil
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case ctx.Err() != nil:
		return &helm.Error{Kind: helm.TimedOut, Message: fmt.Sprintf("%s after %s", last, timeout)}
	default:
		return err
	}
}

// waitReady waits until objects are ready as Helm sees it.
func (w *waiter) waitReady(resources kube.ResourceList, timeout time.Duration, jobs bool) error {
	checker := kube.NewReadyChecker(w.clientSet, w.log, kube.PausedAsReady(true), kube.CheckJobs(jobs))
	failures := 0
	return w.poll(readyInterval, timeout, func(ctx context.Context) (string, error) {
		for _, info := range resources {
			ready, err := checker.IsReady(ctx, info)
			missing := fmt.Sprintf("%s %q is not ready", info.Mapping.GroupVersionKind.Kind, info.Name)
			if err != nil && ctx.Err() == nil {
				if failures++; failures > mostRetries || !mayPass(err) {
					return missing, fmt.Errorf("%s: %w", missing, err)
				}
				w.log("%s: %v", missing, err)
				return missing, nil
			}
			failures = 0
			if !ready {
				return missing, nil
			}
		}
		return "", nil
	})
}

// mayPass is how Helm decides whether to ask again.
func mayPass(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	const tooMany, internal, notImplemented = 429, 500, 501
	code := status.Status().Code
	return code == 0 || code == tooMany || code >= internal && code != notImplemented
}

// waitGone waits until objects do not exist.
func (w *waiter) waitGone(resources kube.ResourceList, timeout time.Duration) error {
	return w.poll(goneInterval, timeout, func(context.Context) (string, error) {
		for _, info := range resources {
			err := info.Get()
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Sprintf("%s %q still exists", info.Mapping.GroupVersionKind.Kind, info.Name), err
		}
		return "", nil
	})
}

// waitComplete waits until Jobs and Pods have succeeded. Other objects are complete once they exist.
func (w *waiter) waitComplete(resources kube.ResourceList, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(w.ctx, timeout)
	defer cancel()
	var failed []error
	for _, info := range resources {
		kind := info.Mapping.GroupVersionKind.Kind
		if kind != "Job" && kind != "Pod" {
			continue
		}
		if err := w.watchComplete(ctx, info, kind, timeout); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (w *waiter) watchComplete(ctx context.Context, info *resource.Info, kind string, timeout time.Duration) error {
	one := fields.OneTermEqualSelector("metadata.name", info.Name)
	source := cachetools.NewListWatchFromClient(info.Client, info.Mapping.Resource.Resource, info.Namespace, one)
	_, err := watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		switch e.Type {
		case watch.Added, watch.Modified:
			return complete(kind, info.Name, e.Object)
		case watch.Deleted:
			// As Helm sees it: somebody cleans up what is complete.
			w.log("%s %s is gone", kind, info.Name)
			return true, nil
		case watch.Error:
			return true, fmt.Errorf("watch %s %s: %w", kind, info.Name, apierrors.FromObject(e.Object))
		default:
			return false, nil
		}
	})
	switch {
	case err == nil:
		return nil
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case ctx.Err() != nil:
		return &helm.Error{Kind: helm.TimedOut, Message: fmt.Sprintf("%s %q is not complete after %s", kind, info.Name, timeout)}
	default:
		return err
	}
}

// complete tells whether a Job or a Pod is.
func complete(kind, name string, object runtime.Object) (bool, error) {
	content, ok := object.(*unstructured.Unstructured)
	if !ok {
		return false, fmt.Errorf("read %s %s: found a %T", kind, name, object)
	}
	if kind == "Job" {
		job := &batchv1.Job{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, job); err != nil {
			return false, fmt.Errorf("read Job %s: %w", name, err)
		}
		return jobComplete(job)
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, pod); err != nil {
		return false, fmt.Errorf("read Pod %s: %w", name, err)
	}
	if pod.Status.Phase == corev1.PodFailed {
		return true, fmt.Errorf("the Pod has failed%s", because(pod.Status.Reason, pod.Status.Message))
	}
	return pod.Status.Phase == corev1.PodSucceeded, nil
}

func jobComplete(job *batchv1.Job) (bool, error) {
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return true, nil
		case batchv1.JobFailed:
			return true, fmt.Errorf("the Job has failed%s", because(c.Reason, c.Message))
		default:
		}
	}
	return false, nil
}

func because(reason, message string) string {
	switch {
	case reason == "" && message == "":
		return ""
	case message == "":
		return ": " + reason
	case reason == "":
		return ": " + message
	default:
		return ": " + reason + ": " + message
	}
}
