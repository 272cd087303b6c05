package deployer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// refusals are what the API server has said to requests that were forbidden. Watches are for speed alone, so nobody else tells of those.
type refusals struct {
	mu   sync.Mutex
	said []string
}

func (r *refusals) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err != nil || response.StatusCode != http.StatusForbidden {
			return response, err
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return response, err
		}
		response.Body = io.NopCloser(bytes.NewReader(body))
		r.mu.Lock()
		defer r.mu.Unlock()
		r.said = append(r.said, strings.ReplaceAll(string(body), `\`, "")) // quotes in JSON
		return response, nil
	})
}

// about tells whether a refusal has a text in it.
func (r *refusals) about(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.said, func(said string) bool { return strings.Contains(said, text) })
}

// rightsOfDeployer are those of the documentation, each with one group, resource and verb.
func rightsOfDeployer(t *testing.T) (all []rbacv1.PolicyRule) {
	t.Helper()
	objects, err := testenv.Objects(testenv.ContainerRights)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{}
	for _, o := range objects {
		if o.GetKind() != "Role" || o.GetName() != "container" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all = append(all, rbacv1.PolicyRule{APIGroups: rule.APIGroups, Resources: []string{resource}, Verbs: []string{verb}})
			}
		}
	}
	return all
}

// TestEachRightIsNeeded: a deployer that has all rights of the documentation but one is refused something for the lack of this one, and one
// that has all is refused nothing. The right that it does not miss is one too many.
func TestEachRightIsNeeded(t *testing.T) {
	t.Parallel()
	all := rightsOfDeployer(t)
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tour("cannot ")
		if len(w.refusals.said) > 0 {
			t.Errorf("the rights of %s do not suffice: %q", testenv.ContainerRights, w.refusals.said)
		}
	})
	for i, missing := range all {
		t.Run(missing.Verbs[0]+" "+missing.Resources[0], func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.revoke(&missing, slices.Delete(slices.Clone(all), i, i+1))
			refusal := fmt.Sprintf("cannot %s resource %q in API group %q", missing.Verbs[0], missing.Resources[0], missing.APIGroups[0])
			w.tour(refusal)
			w.eventually("something to be refused; if nothing is, take the right out of "+testenv.ContainerRights+" and of the chart", func() bool {
				return w.refusals.about(refusal)
			})
		})
	}
}

// revoke takes a right away, and waits until the API server has taken notice of it.
func (w *world) revoke(missing *rbacv1.PolicyRule, others []rbacv1.PolicyRule) {
	w.Helper()
	roles := w.client.RbacV1().Roles(w.namespace)
	role, err := roles.Get(w.Context(), "container", metav1.GetOptions{})
	if err == nil {
		role.Rules = others
		_, err = roles.Update(w.Context(), role, metav1.UpdateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
	resource, subresource, _ := strings.Cut(missing.Resources[0], "/")
	w.eventually("the right to be gone", func() bool {
		review, err := w.client.AuthorizationV1().SubjectAccessReviews().Create(w.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + w.namespace + ":container",
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: w.namespace, Verb: missing.Verbs[0], Group: missing.APIGroups[0], Resource: resource, Subresource: subresource,
				},
			},
		}, metav1.CreateOptions{})
		return err == nil && !review.Status.Allowed
	})
}

// tour has the deployer do what it can do: run, run again with a state, run on a target, tell what it keeps, and delete. It ends early when
// something is refused with these words.
func (w *world) tour(refusal string) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	var watching sync.WaitGroup
	watching.Go(func() { _ = w.plugin.Watch(ctx, func(string, string) {}) }) // it ends with its context
	w.Cleanup(func() { cancel(); watching.Wait() })

	here, there := w.item("count"), w.item("count")
	kubeconfig := w.marshal(object{"kubeconfig": string(w.access.Kubeconfig)})
	w.target = &sdk.Target{Name: "edge", Type: landscaper.KubernetesClusterTargetType, Content: kubeconfig}
	config := w.config("count")
	config["runOnTarget"] = object{"namespace": w.namespace}
	w.setConfig(there, config)
	for _, step := range []struct {
		item      *landscaper.DeployItem
		operation func(context.Context, sdktest.Call) *sdktest.Result
	}{
		{here, w.plugin.Reconcile}, {here, w.plugin.Reconcile}, {there, w.plugin.Reconcile}, {here, w.plugin.Delete}, {there, w.plugin.Delete},
	} {
		newJob(step.item)
		for {
			result := w.call(step.item, step.operation)
			if w.refusals.about(refusal) {
				return
			}
			if isOver(result) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}
