package charts

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// attack is a request of the host's account. setUp is there before it, made by an administrator.
type attack struct {
	setUp  client.Object
	object client.Object
	// patch is a JSON merge patch of setUp; empty for the creation of object.
	patch string
}

func ownedByItem(uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "DeployItem", Name: "item", UID: uid,
	}}
}

func newSecret(
	name string, kind corev1.SecretType, data map[string]string, owners ...metav1.OwnerReference,
) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "attacked", Name: name, OwnerReferences: owners},
		Type:       kind, StringData: data,
	}
}

// attacks are what the rights of the host allow and the policy does not.
func attacks(owner []metav1.OwnerReference) map[string]attack {
	const account, bootstrap = corev1.SecretTypeServiceAccountToken, corev1.SecretTypeBootstrapToken
	export := newSecret("item-export", "", map[string]string{"config": "a", "other": "b"}, owner...)
	foreign := func(name string) *corev1.Secret {
		return newSecret(name, "", map[string]string{"config": "theirs"})
	}
	token := newSecret("token", account, nil, owner...)
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "admin"}
	left := newSecret("left", account, nil)
	left.Annotations = map[string]string{corev1.ServiceAccountNameKey: "weak"}
	inSystem := newSecret("bootstrap-token-abcdef", bootstrap, map[string]string{
		"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
	}, owner...)
	inSystem.Namespace = metav1.NamespaceSystem
	target := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: "attacked", Name: "theirs"}}
	target.Spec.Type = "example.org/t"
	protected := foreign("protected")
	protected.Finalizers = []string{"example.org/keep"}
	places := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "attacked", Name: "places"}}
	return map[string]attack{
		"a Secret with the token of an administrator": {object: token},
		"another account in a Secret with a token": {setUp: left,
			patch: `{"metadata":{"annotations":{"kubernetes.io/service-account.name":"admin"}}}`},
		"a bootstrap token": {object: inSystem},
		"a Secret of a type of others": {object: newSecret("release", "helm.sh/release.v1", map[string]string{
			"config": "a"}, owner...)},
		"a Secret without an owner":    {object: foreign("ownerless")},
		"a Secret with keys of others": {object: newSecret("keys", "", map[string]string{"a": "b"}, owner...)},
		"a Secret with another owner": {object: newSecret("owned", "", map[string]string{"config": "a"},
			metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "u"})},
		"content of a Secret of others": {setUp: foreign("content"), patch: `{"data":{"config":"YQ=="}}`},
		"a Secret of others as an export": {setUp: foreign("adopted"), patch: `{"metadata":{"ownerReferences":[{` +
			`"apiVersion":"landscaper.gardener.cloud/v1alpha1","kind":"DeployItem","name":"item","uid":"u"}]}}`},
		"another key of an export": {setUp: export, patch: `{"data":{"other":"YQ=="}}`},
		"a label of an export": {setUp: newSecret("labelled-export", "", nil, owner...),
			patch: `{"metadata":{"labels":{"argocd.argoproj.io/secret-type":"cluster"}}}`},
		"a finalizer of others": {setUp: protected, patch: `{"metadata":{"finalizers":null}}`},
		"another finalizer": {setUp: foreign("unfinalized"),
			patch: `{"metadata":{"finalizers":["foregroundDeletion"]}}`},
		"a Target":    {setUp: target, patch: `{"spec":{"type":"example.org/other"}}`},
		"a ConfigMap": {setUp: places, patch: `{"data":{".ocmconfig":"a"}}`},
	}
}

// ordinary is what a host does.
func ordinary(owner []metav1.OwnerReference) map[string]attack {
	kept := newSecret("kept", corev1.SecretTypeDockerConfigJson, map[string]string{".dockerconfigjson": "{}"})
	released := newSecret("released", "example.org/any", map[string]string{"a": "b"})
	released.Finalizers = []string{"example.org/keep", "host.pergola.dev/in-use"}
	target := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: "attacked", Name: "kept"}}
	target.Spec.Type = "example.org/t"
	lsContext := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: "attacked", Name: "kept"}}
	places := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "attacked", Name: "kept"}}
	const keep = `{"metadata":{"finalizers":["host.pergola.dev/in-use"]}}`
	config := map[string]string{"config": "a"}
	return map[string]attack{
		"exports": {object: newSecret("new-export", "", config, owner...)},
		"new exports": {setUp: newSecret("old-export", "", config, owner...),
			patch: `{"data":{"config":"Yg=="}}`},
		"exports of a later item": {setUp: newSecret("later-export", "", config, owner...),
			patch: `{"data":{"config":"Yg=="},"metadata":{"ownerReferences":[{` +
				`"apiVersion":"landscaper.gardener.cloud/v1alpha1","kind":"DeployItem","name":"item","uid":"later"}]}}`},
		"no exports any more": {setUp: newSecret("no-export", "", config, owner...),
			patch: `{"data":{"config":null}}`},
		"the finalizer of a Secret":      {setUp: kept, patch: keep},
		"the end of its finalizer alone": {setUp: released, patch: `{"metadata":{"finalizers":["example.org/keep"]}}`},
		"the finalizer of a Target":      {setUp: target, patch: keep},
		"the finalizer of a Context":     {setUp: lsContext, patch: keep},
		"the finalizer of a ConfigMap":   {setUp: places, patch: keep},
	}
}

// send makes the request of an attack as a dry run.
func (a attack) send(ctx context.Context, host client.Client) error {
	if a.patch == "" {
		return host.Create(ctx, a.object.DeepCopyObject().(client.Object), client.DryRunAll)
	}
	return host.Patch(ctx, a.setUp.DeepCopyObject().(client.Object),
		client.RawPatch(types.MergePatchType, []byte(a.patch)), client.DryRunAll)
}

// The account of the host has the rights of the chart on a real API server, first without the policy and then with it.
// Rule (SECURITY.md#the-hosts-account): With the policy, the host writes no Secrets but its exports, and on other
// Secrets, ConfigMaps, Targets and Contexts only its own finalizer.
func TestAdmissionPolicy(t *testing.T) {
	all := mustRender(t, "standalone: true", newest)
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "attacked"}})
	for _, key := range []string{"ClusterRole pergola.pergola-system", "ClusterRoleBinding pergola.pergola-system"} {
		create(t, all[key].DeepCopyObject().(client.Object))
	}
	host := clientAs(t, "system:serviceaccount:pergola-system:pergola")
	item := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: "attacked", Name: "item"}, Spec: v1alpha1.DeployItemSpec{Type: "test"},
	}
	create(t, item)
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "attacked", Name: "weak"}})
	forbidden, allowed := attacks(ownedByItem(item.UID)), ordinary(ownedByItem(item.UID))
	for _, requests := range []map[string]attack{forbidden, allowed} {
		for _, a := range requests {
			if a.setUp != nil {
				create(t, a.setUp)
			}
		}
	}
	eventually(t, func(ctx context.Context) error { // the rights are known
		return host.List(ctx, &corev1.SecretList{}, client.InNamespace("attacked"))
	})
	for _, requests := range []map[string]attack{forbidden, allowed} {
		for name, a := range requests {
			if err := a.send(t.Context(), host); err != nil {
				t.Errorf("%s, without the policy: %v", name, err)
			}
		}
	}

	policy := one[*admissionv1.ValidatingAdmissionPolicy](t, all, "ValidatingAdmissionPolicy pergola.pergola-system")
	create(t, policy.DeepCopy())
	binding := one[*admissionv1.ValidatingAdmissionPolicyBinding](t, all,
		"ValidatingAdmissionPolicyBinding pergola.pergola-system")
	create(t, binding.DeepCopy())
	eventually(t, func(ctx context.Context) error { // it is in force
		if err := forbidden["a Secret without an owner"].send(ctx, host); !apierrors.IsForbidden(err) {
			return fmt.Errorf("expected a refusal, but found: %w", errors.Join(err, errors.New("none")))
		}
		return nil
	})
	for name, a := range forbidden {
		if err := a.send(t.Context(), host); !apierrors.IsForbidden(err) {
			t.Errorf("%s, with the policy: expected a refusal, but found: %v", name, err)
		}
	}
	for name, a := range allowed {
		if err := a.send(t.Context(), host); err != nil {
			t.Errorf("%s, with the policy: %v", name, err)
		}
	}
	for name, a := range forbidden { // others are not held to it
		if err := a.send(t.Context(), admin); err != nil {
			t.Errorf("%s by an administrator: %v", name, err)
		}
	}
	current := &admissionv1.ValidatingAdmissionPolicy{}
	eventually(t, func(ctx context.Context) error {
		err := admin.Get(ctx, client.ObjectKeyFromObject(policy), current)
		if err == nil && current.Status.TypeChecking != nil && len(current.Status.TypeChecking.ExpressionWarnings) > 0 {
			t.Errorf("the API server warns: %v", current.Status.TypeChecking.ExpressionWarnings)
		}
		return err
	})
}

// The policy holds each account of the release, where the cluster has such policies and the chart gives rights.
func TestAccountsOfAdmissionPolicy(t *testing.T) {
	const key = "ValidatingAdmissionPolicy pergola.pergola-system"
	const kind = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
	all := mustRender(t, "{deploymentPerPlugin: true, plugins: {container: {enabled: false}}}", newest)
	const want = "request.userInfo.username in ['system:serviceaccount:pergola-system:pergola-helm', " +
		"'system:serviceaccount:pergola-system:pergola-manifest']"
	got := one[*admissionv1.ValidatingAdmissionPolicy](t, all, key).Spec.MatchConditions[0].Expression
	if got != want {
		t.Errorf("expected %s, but found %s", want, got)
	}
	for name, test := range map[string]struct {
		values string
		at     cluster
		want   bool
	}{
		"a cluster with them":     {"", cluster{"v1.29.0", []string{"v1/Pod", kind}}, true},
		"a cluster without them":  {"", cluster{"v1.37.0", []string{"v1/Pod"}}, false},
		"an unknown cluster":      {"", cluster{"v1.30.0", nil}, true},
		"an unknown old cluster":  {"", cluster{"v1.29.9", nil}, false},
		"without rights":          {"rbac: {create: false}", newest, false},
		"without the policy":      {"rbac: {admissionPolicy: false}", newest, false},
		"DeployItems elsewhere":   {"landscaperCluster: {kubeconfig: k}", newest, false},
		"in some namespaces only": {"namespaces: [shop]", newest, true},
	} {
		if _, found := mustRender(t, test.values, test.at)[key]; found != test.want {
			t.Errorf("%s: expected a policy: %t, but found %t", name, test.want, found)
		}
	}
}

// The page has the policy of the chart.
func TestDocumentedAdmissionPolicy(t *testing.T) {
	const key = "ValidatingAdmissionPolicy "
	want := one[*admissionv1.ValidatingAdmissionPolicy](t, documentedRights(t, testenv.HostRights), key+"pergola").Spec
	got := one[*admissionv1.ValidatingAdmissionPolicy](t, mustRender(t, "", newest), key+"pergola.pergola-system").Spec
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the policy (-documented +chart):\n%s", diff)
	}
}

// clientAs is a client of a ServiceAccount.
func clientAs(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(adminConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{
		"system:serviceaccounts", "system:authenticated",
	}}
	c, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually waits until f has no error.
func eventually(t *testing.T, f func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			last = f(ctx)
			return last == nil, nil
		})
	if err != nil {
		t.Fatal(errors.Join(err, last))
	}
}
