package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// The places in which a host has rights.
const (
	everywhere = "in all namespaces"
	ofPods     = "in the namespace of its pods"
	ofItems    = "in a namespace of Targets that name a ServiceAccount"
)

// right is the right to do one thing with one kind of objects in one place: its rule has one of each.
type right struct {
	place string
	rbacv1.PolicyRule
}

func (r *right) String() string {
	return fmt.Sprintf("%s %s %s", r.Verbs[0], strings.Trim(r.Resources[0]+"."+r.APIGroups[0], "."), r.place)
}

// rightsOfHosts are all that a host has by the documentation.
func rightsOfHosts(t *testing.T) (all []*right) {
	t.Helper()
	rules, err := testenv.HostRules()
	if err != nil {
		t.Fatal(err)
	}
	split := func(place string, rules ...rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						one := rule.DeepCopy()
						one.APIGroups, one.Resources, one.Verbs = []string{group}, []string{resource}, []string{verb}
						all = append(all, &right{place, *one})
					}
				}
			}
		}
	}
	split(everywhere, rules.Everywhere...)
	split(ofPods, rules.OfPods...)
	split(ofItems, rules.Tokens...)
	split(ofPods, rbacv1.PolicyRule{ // to act as the plugin keeper
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{"keeper"}, Verbs: []string{"create"},
	})
	return all
}

// forbidden is what the API server says of a missing right.
var forbidden = regexp.MustCompile(`cannot \w+ resource "[^"]*" in API group "[^"]*"`)

// TestEachRightIsNeeded: a host that has all its rights but one says that it lacks this one, and one that has all says so of none. The right that
// no host misses is one too many.
func TestEachRightIsNeeded(t *testing.T) {
	// Not every API server can stream what there is with a watch. Where it cannot, clients have to list.
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	all := rightsOfHosts(t)
	plugins := pluginDir(t, "keeper")
	t.Run("all", func(t *testing.T) {
		w := newTour(t, plugins, all, nil)
		w.take()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := w.host.Stop(ctx); err != nil {
			t.Error(err)
		}
		if lacking := forbidden.FindAllString(w.said(), -1); len(lacking) > 0 {
			t.Errorf("the rights of %s do not suffice: %q", testenv.HostRights, lacking)
		}
	})
	for _, missing := range all {
		t.Run(missing.String(), func(t *testing.T) {
			if w := newTour(t, plugins, all, missing); !w.take() {
				t.Errorf("the host does not say that it lacks this right. If it does without, take it out of %s and of the chart", testenv.HostRights)
			}
		})
	}
}

// TestNoRights: a host that may list nothing says so to those who ask, instead of letting them wait, and is alive.
func TestNoRights(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "stranger"}})
	kubeconfig, err := testenv.KubeconfigOf(t.Context(), admin, controlPlane.Config, namespace, "stranger")
	if err != nil {
		t.Fatal(err)
	}
	o := testenv.HostOptions{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), PluginDir: pluginDir(t, "mock")}
	if err := os.WriteFile(o.Kubeconfig, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	host := startHost(t, o)
	eventually(t, "the host to say what it may not list", func(context.Context) (string, error) {
		if strings.Contains(host.Log(), "cannot list resource") {
			return "", nil
		}
		return "its log says something else", nil
	})
	for _, c := range []struct {
		path, want string
		code       int
	}{
		{"/healthz", "ok", http.StatusOK},
		{"/readyz", "the host is starting: it has not listed all that it watches; its log says what it may not list", http.StatusServiceUnavailable},
		{"/metrics", "pergola_plugin_", http.StatusOK},
	} {
		eventually(t, c.path+" to be answered", func(ctx context.Context) (string, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, host.URL+c.path, nil)
			if err != nil {
				return "", err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return "", err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode == c.code && strings.Contains(string(body), c.want) {
				return "", err
			}
			return fmt.Sprintf("%d %s", response.StatusCode, body), nil
		})
	}
}
