// Package cluster creates, reads and removes the objects of runs in one namespace of a cluster. It decides nothing.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/container/internal/run"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
)

const fieldManager = "pergola-container"

// Cluster is access to a namespace of a cluster. Its errors are those of the API server, wrapped.
type Cluster struct {
	Client    *target.Client
	Namespace string
}

// Objects are what a run consists of beside its Pod.
type Objects struct {
	Result         *corev1.Secret
	Secrets        []*corev1.Secret
	ServiceAccount *corev1.ServiceAccount
	Role           *rbacv1.Role
	RoleBinding    *rbacv1.RoleBinding
}

// Create creates what a Pod needs, and brings what is there of it already to what it should be.
func (c *Cluster) Create(ctx context.Context, o *Objects) error {
	if _, err := c.Client.Core().Secrets(c.Namespace).Create(ctx, o.Result, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Secret %s/%s: %w", c.Namespace, o.Result.Name, err)
	}
	if err := c.ApplySecrets(ctx, o.Secrets...); err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)}
	account, err := applyForm(o.ServiceAccount, corev1.SchemeGroupVersion.String(), "ServiceAccount")
	if err == nil {
		_, err = c.Client.Core().ServiceAccounts(c.Namespace).Patch(ctx, o.ServiceAccount.Name, types.ApplyPatchType, account, options)
	}
	if err != nil {
		return fmt.Errorf("create ServiceAccount %s/%s: %w", c.Namespace, o.ServiceAccount.Name, err)
	}
	// First the Role: who may not do everything cannot bind one that is not there.
	if err := c.ApplyRole(ctx, o.Role); err != nil {
		return err
	}
	binding, err := applyForm(o.RoleBinding, rbacv1.SchemeGroupVersion.String(), "RoleBinding")
	if err == nil {
		_, err = c.Client.RBAC().RoleBindings(c.Namespace).Patch(ctx, o.RoleBinding.Name, types.ApplyPatchType, binding, options)
	}
	if err != nil {
		return fmt.Errorf("create RoleBinding %s/%s: %w", c.Namespace, o.RoleBinding.Name, err)
	}
	return nil
}

// ApplyRole creates a Role, or brings it to what it should be.
func (c *Cluster) ApplyRole(ctx context.Context, role *rbacv1.Role) error {
	content, err := applyForm(role, rbacv1.SchemeGroupVersion.String(), "Role")
	if err == nil {
		_, err = c.Client.RBAC().Roles(c.Namespace).Patch(ctx, role.Name, types.ApplyPatchType, content, metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)})
	}
	if err != nil {
		return fmt.Errorf("create Role %s/%s: %w", c.Namespace, role.Name, err)
	}
	return nil
}

// ApplySecrets creates Secrets, or brings them to what they should be.
func (c *Cluster) ApplySecrets(ctx context.Context, secrets ...*corev1.Secret) error {
	for _, secret := range secrets {
		content, err := applyForm(secret, corev1.SchemeGroupVersion.String(), "Secret")
		if err == nil {
			_, err = c.Client.Core().Secrets(c.Namespace).Patch(ctx, secret.Name, types.ApplyPatchType, content,
				metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)})
		}
		if err != nil {
			return fmt.Errorf("create Secret %s/%s: %w", c.Namespace, secret.Name, err)
		}
	}
	return nil
}

// ReplaceToken replaces the token in a Secret, and nothing else.
func (c *Cluster) ReplaceToken(ctx context.Context, secret, token string) error {
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{layout.TokenFile: []byte(token)}})
	if err != nil {
		return fmt.Errorf("write a token for Secret %s/%s: %w", c.Namespace, secret, err)
	}
	_, err = c.Client.Core().Secrets(c.Namespace).Patch(ctx, secret, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("replace the token in Secret %s/%s: %w", c.Namespace, secret, err)
	}
	return nil
}

// applyForm is an object as server-side apply takes it.
func applyForm(o any, apiVersion, kind string) ([]byte, error) {
	content, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = apiVersion, kind
	return json.Marshal(fields)
}

// Token returns a token of a ServiceAccount for the API server, and when it ends. lifetime is how long it should live;
// the API server may give it less, or more.
func (c *Cluster) Token(ctx context.Context, serviceAccount string, lifetime time.Duration) (token string, ends time.Time, err error) {
	seconds := max(int64(lifetime/time.Second), 600) // the least that the API server takes
	answer, err := c.Client.Core().ServiceAccounts(c.Namespace).CreateToken(ctx, serviceAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("request a token for ServiceAccount %s/%s: %w", c.Namespace, serviceAccount, err)
	}
	return answer.Status.Token, answer.Status.ExpirationTimestamp.Time, nil
}

// NamespaceUID tells this namespace from others of its name, on other clusters or before; empty if there is none.
func (c *Cluster) NamespaceUID(ctx context.Context) (types.UID, error) {
	namespace, err := c.Client.Core().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read Namespace %s: %w", c.Namespace, err)
	}
	return namespace.UID, nil
}

// Chunks reads what Secrets hold of a state, in their order.
func (c *Cluster) Chunks(ctx context.Context, names []string) ([][]byte, error) {
	chunks := make([][]byte, 0, len(names))
	for _, name := range names {
		secret, err := c.Client.Core().Secrets(c.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read the state in Secret %s/%s: %w", c.Namespace, name, err)
		}
		chunks = append(chunks, secret.Data[layout.ChunkKey])
	}
	return chunks, nil
}

// Input reads the chunks of the input of the run that a selector selects; none if they are not there any more.
func (c *Cluster) Input(ctx context.Context, selector run.Selector) ([][]byte, error) {
	list, err := c.Client.Core().Secrets(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: string(selector.OfPart(run.PartInput))})
	if err != nil {
		return nil, fmt.Errorf("list Secrets in namespace %s: %w", c.Namespace, err)
	}
	return run.InputChunks(list.Items), nil
}

// MissingSecrets returns those of some names that no Secret has which a selector selects.
func (c *Cluster) MissingSecrets(ctx context.Context, names []string, selector run.Selector) ([]string, error) {
	found, err := c.list(ctx, kinds[1], selector)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, o := range found {
		there[o.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return there[name] }), nil
}

// Result is what a run has uploaded.
type Result struct {
	// Secret is the name of the Secret that it is in, and ResourceVersion that of the Secret; the latter is empty if
	// there is none.
	Secret, ResourceVersion string
	// Report is nil if nothing was uploaded yet.
	Report *layout.Report
	// Exports is the file, nil if there is none.
	Exports []byte
}

// Result reads the result of a run. None is no error.
func (c *Cluster) Result(ctx context.Context, runName string) (*Result, error) {
	result := &Result{Secret: run.ResultName(runName)}
	secret, err := c.Client.Core().Secrets(c.Namespace).Get(ctx, result.Secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return result, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", c.Namespace, result.Secret, err)
	}
	result.ResourceVersion = secret.ResourceVersion
	document, ok := secret.Data[layout.ReportKey]
	if !ok {
		return result, nil
	}
	report := &layout.Report{}
	if err := json.Unmarshal(document, report); err != nil {
		return nil, fmt.Errorf("read %s of Secret %s/%s: %w", layout.ReportKey, c.Namespace, result.Secret, err)
	}
	result.Report = report
	if report.Exported {
		result.Exports = secret.Data[layout.ChunkKey]
	}
	return result, nil
}

// Remove removes all objects that a selector selects, Pods first: they are stopped and let go. As long as there are
// some, the rest stays, which they may need.
func (c *Cluster) Remove(ctx context.Context, selector run.Selector) error {
	pods, err := c.Pods(ctx, selector)
	if err != nil {
		return err
	}
	errs := make([]error, 0, len(pods))
	for i := range pods {
		errs = append(errs, errors.Join(c.Stop(ctx, &pods[i]), c.Release(ctx, &pods[i])))
	}
	if len(pods) > 0 {
		return errors.Join(errs...)
	}
	return errors.Join(c.RemoveAccess(ctx, selector), c.RemoveSecrets(ctx, selector))
}

// RemoveSecrets removes the Secrets that a selector selects.
func (c *Cluster) RemoveSecrets(ctx context.Context, selector run.Selector) error {
	err := c.Client.Core().Secrets(c.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: string(selector)})
	if err != nil {
		return fmt.Errorf("delete Secrets in namespace %s: %w", c.Namespace, err)
	}
	return nil
}

// RemoveAccess removes the RoleBindings, Roles and ServiceAccounts that a selector selects.
func (c *Cluster) RemoveAccess(ctx context.Context, selector run.Selector) error {
	list := metav1.ListOptions{LabelSelector: string(selector)}
	if err := c.Client.RBAC().RoleBindings(c.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, list); err != nil {
		return fmt.Errorf("delete RoleBindings in namespace %s: %w", c.Namespace, err)
	}
	if err := c.Client.RBAC().Roles(c.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, list); err != nil {
		return fmt.Errorf("delete Roles in namespace %s: %w", c.Namespace, err)
	}
	if err := c.Client.Core().ServiceAccounts(c.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, list); err != nil {
		return fmt.Errorf("delete ServiceAccounts in namespace %s: %w", c.Namespace, err)
	}
	return nil
}

// Follow returns what to watch to hear of a Pod and its result.
func (c *Cluster) Follow(pod *corev1.Pod, result *Result) []watch.Seen {
	secret := metav1.ObjectMeta{Name: result.Secret, ResourceVersion: result.ResourceVersion, Labels: pod.Labels} // the same
	return []watch.Seen{c.seen("pods", "Pod", &pod.ObjectMeta), c.seen("secrets", "Secret", &secret)}
}

// FollowPods returns what to watch to hear of Pods that remain.
func (c *Cluster) FollowPods(r Remaining) []watch.Seen {
	pods := r[kinds[0]]
	all := make([]watch.Seen, 0, len(pods))
	for _, pod := range pods {
		all = append(all, c.seen("pods", "Pod", &pod.ObjectMeta))
	}
	return all
}

func (c *Cluster) seen(resource, kind string, o metav1.Object) watch.Seen {
	mapping := target.Mapping{Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespaced: true}
	return watch.SeenOf(c.Client, mapping, object.Key{Kind: kind, Namespace: c.Namespace, Name: o.GetName()}, o)
}
