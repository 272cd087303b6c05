package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

const fieldManager = "pergola-container"

// Cluster creates, reads and removes the objects of runs in one namespace of a cluster. Its errors are wrapped errors
// of the API server.
type Cluster struct {
	Client    *target.Client
	Namespace string
}

// Create creates the objects of a Pod, and updates existing ones.
func (c *Cluster) Create(ctx context.Context, i Identity, u *layout.Upload, secrets []Object) error {
	result := i.Result()
	_, err := c.Client.Core().Secrets(c.Namespace).Create(ctx, result, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Secret %s/%s: %w", c.Namespace, result.Name, err)
	}
	// The Role comes before its binding: without all rights, this client cannot bind a missing one.
	return c.Apply(ctx, append(secrets, i.ServiceAccount(), i.Role(u), i.RoleBinding())...)
}

// Apply creates or updates objects.
func (c *Cluster) Apply(ctx context.Context, objects ...Object) error {
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)}
	for _, o := range objects {
		kind := o.GetObjectKind().GroupVersionKind()
		content, err := json.Marshal(o)
		if err == nil {
			resource := kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")
			objects := c.Client.Objects(target.Mapping{Resource: resource, Namespaced: true}, c.Namespace)
			_, err = objects.Patch(ctx, o.GetName(), types.ApplyPatchType, content, options)
		}
		if err != nil {
			return fmt.Errorf("create %s %s/%s: %w", kind.Kind, c.Namespace, o.GetName(), err)
		}
	}
	return nil
}

// ReplaceToken replaces the token of a run's wait container, and nothing else.
func (c *Cluster) ReplaceToken(ctx context.Context, runName, token string) error {
	if err := c.patchAccess(ctx, runName, layout.TokenFile, token); err != nil {
		return fmt.Errorf("replace the token: %w", err)
	}
	return nil
}

// AskForUpload tells the wait container of a Pod of the end of main. The annotation has the kubelet look at the Pod,
// and so at the Secret, at once.
func (c *Cluster) AskForUpload(ctx context.Context, p *corev1.Pod) error {
	err := c.patchAccess(ctx, p.Name, layout.EndedFile, "true")
	if err == nil {
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:"true"}}}`, p.UID, EndedAnnotation)
		options := metav1.PatchOptions{FieldManager: fieldManager}
		_, err = c.Client.Core().Pods(c.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, options)
	}
	if err != nil && !isGone(err) && !apierrors.IsConflict(err) { // it is gone
		return fmt.Errorf("tell Pod %s/%s of the end of main: %w", c.Namespace, p.Name, err)
	}
	return nil
}

// patchAccess sets one file of the Secret for the uploads of a run's wait container.
func (c *Cluster) patchAccess(ctx context.Context, runName, file, content string) error {
	secret := accessName(runName)
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{file: []byte(content)}})
	if err == nil {
		options := metav1.PatchOptions{FieldManager: fieldManager}
		_, err = c.Client.Core().Secrets(c.Namespace).Patch(ctx, secret, types.MergePatchType, patch, options)
	}
	if err != nil {
		return fmt.Errorf("patch Secret %s/%s: %w", c.Namespace, secret, err)
	}
	return nil
}

// Token returns a token of a ServiceAccount for the API server, and its end. lifetime is a wish: the API server may
// grant less, or more.
func (c *Cluster) Token(
	ctx context.Context, serviceAccount string, lifetime time.Duration,
) (token string, ends time.Time, err error) {
	seconds := max(int64(lifetime/time.Second), 600) // the least lifetime accepted by the API server
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	accounts := c.Client.Core().ServiceAccounts(c.Namespace)
	answer, err := accounts.CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{},
			fmt.Errorf("request a token for ServiceAccount %s/%s: %w", c.Namespace, serviceAccount, err)
	}
	return answer.Status.Token, answer.Status.ExpirationTimestamp.Time, nil
}

// NamespaceUID returns the UID of the namespace, to tell it from others of its name, on other clusters or before;
// empty for none.
func (c *Cluster) NamespaceUID(ctx context.Context) (types.UID, error) {
	namespace, err := c.Client.Core().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
	if isGone(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read Namespace %s: %w", c.Namespace, err)
	}
	return namespace.UID, nil
}

// Chunks reads the chunks of a state from Secrets, in their order.
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

// Input reads the chunks of the input of a run; none if they are gone.
func (c *Cluster) Input(ctx context.Context, uid types.UID, runName string) ([][]byte, error) {
	selector := OfRun(uid, runName).ofPart(PartInput)
	list, err := c.Client.Core().Secrets(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: string(selector)})
	if err != nil {
		return nil, fmt.Errorf("list Secrets in namespace %s: %w", c.Namespace, err)
	}
	byName := map[string][]byte{}
	for _, secret := range list.Items {
		byName[secret.Name] = secret.Data[inputKey]
	}
	var chunks [][]byte
	for {
		chunk, ok := byName[inputName(runName, len(chunks))]
		if !ok {
			return chunks, nil
		}
		chunks = append(chunks, chunk)
	}
}

// MissingSecrets returns the names without a Secret among those of a selector.
func (c *Cluster) MissingSecrets(ctx context.Context, names []string, selector Selector) ([]string, error) {
	found, err := c.list(ctx, secrets, selector)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(found, func(o metav1.PartialObjectMetadata) bool { return o.Name == name })
	}), nil
}

// Result is the result uploaded by a run.
type Result struct {
	// Secret is the name of its Secret, and ResourceVersion the Secret's version; the latter is empty without a Secret.
	Secret, ResourceVersion string
	// Report is nil before the upload.
	Report *layout.Report
	// Exports is the file, nil for none.
	Exports []byte
}

// Result reads the result of a run. None is no error.
func (c *Cluster) Result(ctx context.Context, runName string) (*Result, error) {
	result := &Result{Secret: ResultName(runName)}
	secret, err := c.Client.Core().Secrets(c.Namespace).Get(ctx, result.Secret, metav1.GetOptions{})
	if isGone(err) {
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
	result.Report = &layout.Report{}
	if err := json.Unmarshal(document, result.Report); err != nil {
		return nil, fmt.Errorf("read %s of Secret %s/%s: %w", layout.ReportKey, c.Namespace, result.Secret, err)
	}
	if result.Report.Exported {
		result.Exports = secret.Data[layout.ChunkKey]
	}
	return result, nil
}

// Remove removes all objects of a selector. It stops and releases the Pods first; as long as there are some, it
// leaves the other objects, since the Pods may need them.
func (c *Cluster) Remove(ctx context.Context, selector Selector) error {
	pods, err := c.pods(ctx, selector)
	if err != nil {
		return err
	}
	errs := make([]error, 0, len(pods))
	for i := range pods {
		errs = append(errs, c.Stop(ctx, &pods[i], 0), c.Release(ctx, &pods[i], nil))
	}
	if len(pods) > 0 {
		return errors.Join(errs...)
	}
	return errors.Join(c.RemoveRights(ctx, selector), c.RemoveSecrets(ctx, selector))
}

// RemoveSecrets removes the Secrets of a selector.
func (c *Cluster) RemoveSecrets(ctx context.Context, selector Selector) error {
	return c.remove(ctx, selector, secrets)
}

// RemoveRights removes the RoleBindings, Roles and ServiceAccounts of a selector.
func (c *Cluster) RemoveRights(ctx context.Context, selector Selector) error {
	return c.remove(ctx, selector, roleBindings, roles, serviceAccounts)
}

// Follow returns the objects to watch for a Pod and its result.
func (c *Cluster) Follow(p *corev1.Pod, result *Result) []watch.Seen {
	// Both have the same labels.
	secret := metav1.ObjectMeta{Name: result.Secret, ResourceVersion: result.ResourceVersion, Labels: p.Labels}
	return []watch.Seen{c.seen("pods", "Pod", &p.ObjectMeta), c.seen("secrets", "Secret", &secret)}
}

// FollowPods returns the objects to watch for remaining Pods.
func (c *Cluster) FollowPods(r Remaining) []watch.Seen {
	var all []watch.Seen
	for _, o := range r {
		if o.Kind == pods {
			all = append(all, c.seen("pods", "Pod", &o.Meta))
		}
	}
	return all
}

func (c *Cluster) seen(resource, kind string, o metav1.Object) watch.Seen {
	mapping := target.Mapping{Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespaced: true}
	return watch.SeenOf(c.Client, mapping, object.Key{Kind: kind, Namespace: c.Namespace, Name: o.GetName()}, o)
}

// isGone reports whether the API server has no such object. Each one serves Pods, Secrets and Namespaces, so that HTTP
// 404 in other words is that of a proxy, which cannot know.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
