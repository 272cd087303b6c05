package httphook

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// Without the CustomResourceDefinition there are no registrations. When it comes there may be some, and a host that may
// not list them does not
// take that for none. Once it may, their hooks are in force, until they are deleted.
func TestOldKindComesLater(t *testing.T) {
	t.Parallel()
	definitions, err := testenv.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	kind := slices.IndexFunc(definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool {
		return d.Spec.Names.Kind == "DeployerRegistration"
	})
	controlPlane, admin := testenv.StartForTest(t, func(env *envtest.Environment) {
		env.CRDs = slices.DeleteFunc(env.CRDs, func(d *apiextensionsv1.CustomResourceDefinition) bool {
			return d.Name == definitions[kind].Name
		})
	})
	r := startAs(t, controlPlane, "host")
	await.That(t, patience, "the registrations to be known", func() bool { return r.Ready() == nil })
	<-r.Synced()
	if hook, err := r.For(itemType); hook != nil || err != nil {
		t.Errorf("there is a hook: %v, %v", hook, err)
	}

	if _, err := envtest.InstallCRDs(controlPlane.Config,
		envtest.CRDInstallOptions{CRDs: definitions[kind : kind+1]}); err != nil {
		t.Fatal(err)
	}
	await.That(t, patience, "the right that is missing", func() bool {
		_, err := r.For(itemType)
		return err != nil && strings.Contains(err.Error(), "get, list and watch") &&
			strings.Contains(err.Error(), "forbidden") && r.Ready() != nil
	})

	first := create(t, admin, "first", refHook("v1", "Service", "kubernetes"))
	first.Spec.Hook.Address.Ref.Namespace = metav1.NamespaceDefault
	if err := admin.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	allow(t, admin, "host")
	await.That(t, patience, "the hook", func() bool {
		hook, err := r.For(itemType)
		return err == nil && hook != nil && hook.URL() == "http://kubernetes.default.svc.cluster.test"
	})
	await.For(t.Context(), t, patience, "the status", func(ctx context.Context) (string, error) {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(first), first); err != nil {
			return "", err
		}
		if c := conditionOf(&first.Status, conditionReady); c == nil || c.Status != v1alpha1.ConditionTrue {
			return "it is not ready", nil
		}
		return "", nil
	})
	if err := admin.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	await.That(t, patience, "no hook", func() bool {
		hook, err := r.For(itemType)
		return err == nil && hook == nil
	})
}

// startAs starts Registrations with the rights of a user, and stops them with the test.
func startAs(t *testing.T, controlPlane *testenv.ControlPlane, user string) *Registrations {
	t.Helper()
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(controlPlane.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	mgr, err := manager.New(config, manager.Options{
		Scheme: scheme, Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRegistrations(mgr, RegistrationOptions{
		ClusterDomain: "cluster.test", Elected: func() bool { return true }, Metrics: NewMetrics(),
		Log: slog.New(slog.DiscardHandler),
		Deployers: func(v1alpha1.DeployItemType) (plugin, version string, replicas int, ok bool) {
			return "one", "v1", 1, true
		},
		Changed: func([]v1alpha1.DeployItemType) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.interval = 100 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func create(t *testing.T, admin client.Client, name string, hook *v1alpha1.Hook) *v1alpha1.DeployerRegistration {
	t.Helper()
	registration := &v1alpha1.DeployerRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.DeployerRegistrationSpec{Types: []v1alpha1.DeployItemType{itemType}, Hook: hook},
	}
	await.For(t.Context(), t, patience, "the kind to be served", func(ctx context.Context) (string, error) {
		if err := admin.Create(ctx, registration); err != nil {
			return err.Error(), nil //nolint:nilerr // it is tried again
		}
		return "", nil
	})
	return registration
}

// allow gives a user all rights.
func allow(t *testing.T, admin client.Client, user string) {
	t.Helper()
	if err := admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}); err != nil {
		t.Fatal(err)
	}
}
