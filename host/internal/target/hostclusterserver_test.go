package target

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestRealHostCluster has a real API server issue tokens, and logs in with what comes out.
func TestRealHostCluster(t *testing.T) {
	controlPlane, admin := testenv.ForTest(t)
	accessAs := func(user *rest.Config, now clock.PassiveClock) *HostCluster {
		t.Helper()
		c, err := client.New(user, client.Options{Scheme: admin.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		return NewHostCluster(HostClusterOptions{
			Plugin: "runner", ServiceAccount: runner, Tokens: &ClientTokenRequester{Client: c}, Cluster: user,
			Installation: NewInstallation(c), Clock: now,
		})
	}
	now := clocktesting.NewFakePassiveClock(time.Now())
	a := accessAs(controlPlane.Config, now)
	if _, err := a.Get(t.Context()); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `there is no ServiceAccount "pods/runner"`) {
		t.Errorf("expected to hear that the ServiceAccount is missing, but found %v", err)
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: runner.Namespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: runner.Name}},
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}

	first := getAccess(t, a)
	system := &corev1.Namespace{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil || first.Installation != string(system.UID) {
		t.Errorf("expected the installation %q, but found %q (%v)", system.UID, first.Installation, err)
	}
	now.SetTime(now.Now().Add(hostTokenLife / 2))
	second := getAccess(t, a)
	if string(first.Kubeconfig) == string(second.Kubeconfig) {
		t.Error("expected another token after half of the first one's life")
	}
	for _, kubeconfig := range [][]byte{first.Kubeconfig, second.Kubeconfig} { // who got the first may still be at work with it
		if _, got, err := testenv.LogIn(t.Context(), kubeconfig); err != nil || got != "system:serviceaccount:pods:runner" {
			t.Errorf("expected to be the ServiceAccount, but found %q (%v)", got, err)
		}
	}

	powerless := rest.CopyConfig(controlPlane.Config)
	powerless.Impersonate.UserName = "host-without-rights"
	_, err := accessAs(powerless, now).Get(t.Context())
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `allow "get" for it`) {
		t.Errorf("expected the missing right to be named, but found %v", err)
	}
	forbidden := accessAs(powerless, now)
	forbidden.options.Installation = NewInstallation(admin)
	if _, err = forbidden.Get(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the right to create serviceaccounts/token") {
		t.Errorf("expected the missing right to be named, but found %v", err)
	}
}
