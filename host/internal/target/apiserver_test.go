package target

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// cluster is a namespace of a real API server.
type cluster struct {
	config    *rest.Config
	admin     client.Client
	namespace string
}

// TestRealTokens resolves Targets with an API server that really issues tokens, and logs in with what comes out.
func TestRealTokens(t *testing.T) {
	controlPlane, admin := testenv.ForTest(t)
	for name, test := range map[string]func(*testing.T, *cluster){
		"login": testRealLogin, "namespace goes": testRealTermination,
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{config: controlPlane.Config, admin: admin}
			// The next run may share the control plane.
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "real-"}}
			c.create(t, namespace)
			c.namespace = namespace.Name
			test(t, c)
		})
	}
}

func (c *cluster) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := c.admin.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T: %v", object, err)
	}
}

// createAccount creates a ServiceAccount that may do everything.
func (c *cluster) createAccount(t *testing.T, name string) {
	t.Helper()
	c.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}})
	c.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-" + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: c.namespace}},
	})
	c.awaitRights(t, c.user(name))
}

func (c *cluster) user(account string) string {
	return "system:serviceaccount:" + c.namespace + ":" + account
}

// awaitRights waits until the API server knows of a role binding that was just created.
func (c *cluster) awaitRights(t *testing.T, user string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
			}}
			err := c.admin.Create(ctx, review)
			return review.Status.Allowed, err
		})
	if err != nil {
		t.Fatalf("wait for the rights of %s: %v", user, err)
	}
}

// createTarget creates a Target and returns an item that goes there.
func (c *cluster) createTarget(t *testing.T, name string, config map[string]any) *v1alpha1.DeployItem {
	t.Helper()
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	c.create(t, &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace},
		Spec: v1alpha1.TargetSpec{Type: v1alpha1.KubernetesClusterTargetType,
			Configuration: &runtime.RawExtension{Raw: raw}},
	})
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Name: "item", Namespace: c.namespace}}
	item.Spec.Target = &v1alpha1.ObjectReference{Name: name}
	return item
}

// resolver returns a Resolver that asks for tokens as the user of a client configuration.
func (c *cluster) resolver(t *testing.T, as *rest.Config) *Resolver {
	t.Helper()
	requester, err := client.New(as, client.Options{Scheme: c.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return NewResolver(c.admin, c.admin, Options{Tokens: &ClientTokenRequester{Client: requester}, Cluster: as})
}

// whoAmI logs in with resolved content, as a plugin does, and returns the name that the API server knows it by, or its
// refusal.
func (c *cluster) whoAmI(t *testing.T, content string) (string, error) {
	t.Helper()
	checkHarmless(t, content)
	var document struct{ Kubeconfig string }
	if err := json.Unmarshal([]byte(content), &document); err != nil {
		t.Fatal(err)
	}
	clients, user, err := testenv.LogIn(t.Context(), []byte(document.Kubeconfig))
	if err != nil {
		return "", err
	}
	if _, err := clients.CoreV1().Secrets(c.namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("use the rights of the ServiceAccount: %v", err)
	}
	return user, nil
}

func (c *cluster) resolve(t *testing.T, r *Resolver, item *v1alpha1.DeployItem) string {
	t.Helper()
	resolved, err := r.Target(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Content
}

func self(account string) map[string]any {
	return map[string]any{"selfConfig": map[string]any{"serviceAccount": map[string]any{"name": account}}}
}

func testRealLogin(t *testing.T, c *cluster) {
	c.createAccount(t, "deployer")
	oidc := map[string]any{
		"server": c.config.Host, "caData": base64.StdEncoding.EncodeToString(c.config.CAData),
		"serviceAccount": map[string]any{"name": "deployer"}, "expirationSeconds": 900,
	}
	if !strings.Contains(c.config.Host, "://") {
		oidc["server"] = "https://" + c.config.Host
	}
	for name, config := range map[string]map[string]any{
		"self": self("deployer"), "oidc": {"oidcConfig": oidc},
	} {
		content := c.resolve(t, c.resolver(t, c.config), c.createTarget(t, name, config))
		if got, err := c.whoAmI(t, content); err != nil || got != c.user("deployer") {
			t.Errorf("%s: want to be logged in as %s, but am %s: %v", name, c.user("deployer"), got, err)
		}
	}

	named, err := c.resolver(t, c.config).Named(t.Context(), c.namespace, "self")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.whoAmI(t, named.Content); err != nil || got != c.user("deployer") {
		t.Errorf("by its name: want to be logged in as %s, but am %s: %v", c.user("deployer"), got, err)
	}

	// This API server shows that the audience arrives by refusing a token that is for somebody else.
	oidc["audience"] = []string{"somebody-else"}
	elsewhere := c.createTarget(t, "elsewhere", map[string]any{"oidcConfig": oidc})
	if _, err := c.whoAmI(t, c.resolve(t, c.resolver(t, c.config), elsewhere)); !apierrors.IsUnauthorized(err) {
		t.Errorf("want a token for another audience to be refused, got %v", err)
	}
}

func testRealTermination(t *testing.T, c *cluster) {
	c.createAccount(t, "deployer")
	item := c.createTarget(t, "self", self("deployer"))
	// Nobody here finishes the deletion of a namespace, so that it stays as it is with a deploy item in it.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	if err := c.admin.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	_, err := c.resolver(t, c.config).Target(t.Context(), item)
	if err == nil || !strings.Contains(err.Error(), "its namespace is being deleted") {
		t.Errorf("want the reason to be told, got %v", err)
	}
}
