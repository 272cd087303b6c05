package target

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// cacheSize bounds the Secrets and ConfigMaps, and the contents of Targets, remembered by a Resolver. The least
// recently used go first.
const cacheSize = 1000

// Options are the settings of a Resolver. None is required.
type Options struct {
	// DefaultContext lets a missing Context named "default" count as an empty one, for a cluster without Landscaper to
	// create it.
	DefaultContext bool
	// Keeps: Targets and Contexts under deletion stay as long as older items use them. They are missing for an item
	// newer than their deletion.
	Keeps bool
	// Tokens lets Targets name a ServiceAccount to log in with, in oidcConfig or selfConfig. It issues tokens in the
	// Landscaper cluster, where its user needs the right to create serviceaccounts/token. Without it such Targets are a
	// configuration problem.
	Tokens client.SubResourceClientConstructor
	// User returns the name of the user of Tokens, for messages; empty if it is not known. See UserOf.
	User func(context.Context) string
	// Cluster is how the host itself reaches the Landscaper cluster: a selfConfig takes the address, the certificate
	// authority and the expected name of the API server from it, and none of the credentials. It must not change any
	// more. Required with Tokens.
	Cluster *rest.Config
	// ServiceAccount is the one of its namespace for each Target with an oidcConfig or a selfConfig. The Target may
	// leave it out then, and another name is a configuration problem. Empty if each Target names its own.
	ServiceAccount string
	// Clock decides when a token is replaced. Defaults to the real one.
	Clock clock.PassiveClock
}

// Resolver resolves Targets and Contexts. It may be used concurrently.
type Resolver struct {
	cached, live client.Reader
	options      Options
	objects      *lru.Cache // Secrets and ConfigMaps, by readVersion

	mu       sync.Mutex // held while a content is looked up and made
	contents *lru.Cache
}

// NewResolver returns a Resolver.
//
// cached is backed by informers and asked for Targets and Contexts, and for the metadata of Secrets and ConfigMaps
// (each a *metav1.PartialObjectMetadata of kind v1/Secret or v1/ConfigMap). live reads from the API server and is
// asked for the same Targets and Contexts, and for Secrets and ConfigMaps.
func NewResolver(cached, live client.Reader, o Options) *Resolver {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Resolver{
		cached: cached, live: live, options: o, objects: lru.New(cacheSize), contents: lru.New(cacheSize),
	}
}

// Target returns the Target of an item with its content, as in the package comment; nil without an error for an item
// without a target. The result belongs to the caller.
//
// A fault of the Target is returned as an *Error, after a confirmation with live objects. A failure of the readers, or
// of a request for a token, is returned wrapped and says nothing about the Target. Target blocks on API requests until
// ctx ends.
func (r *Resolver) Target(ctx context.Context, item *v1alpha1.DeployItem) (*v1alpha1.ResolvedTarget, error) {
	ref := item.Spec.Target
	if ref == nil {
		return nil, nil //nolint:nilnil // no target is an ordinary case and no error
	}
	w := wanted{
		NamespacedName: types.NamespacedName{Namespace: item.Namespace, Name: ref.Name},
		created:        item.CreationTimestamp,
		advice:         "create it, or correct spec.target.name of the deploy item",
	}
	if ref.Name == "" {
		return nil, w.error(nil, problem{
			reason: ReasonTargetNotFound, field: "spec.target.name",
			message: "is empty in the deploy item; name a Target, or remove spec.target",
		})
	}
	if ref.Namespace != "" && ref.Namespace != item.Namespace {
		w.advice += fmt.Sprintf(" (a Target is read from the namespace of its item; spec.target.namespace %q has no effect)",
			ref.Namespace)
	}
	return r.confirmed(ctx, w)
}

// Named returns a Target by its name, an arbitrary text, for an item of that namespace with a reference elsewhere than
// in spec.target. It is as Target otherwise, and never nil without an error.
func (r *Resolver) Named(ctx context.Context, namespace, name string) (*v1alpha1.ResolvedTarget, error) {
	w := wanted{
		NamespacedName: types.NamespacedName{Namespace: namespace, Name: name},
		advice:         "create it, or correct what names it in the deploy item",
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, w.error(nil, problem{
			reason: ReasonTargetNotFound, message: "no Target can have this name; correct what names it in the deploy item",
		})
	}
	return r.confirmed(ctx, w)
}

// wanted is the Target that an item names, and what to do if it is not there.
type wanted struct {
	types.NamespacedName
	// The creation of the item; zero if it does not matter.
	created metav1.Time
	advice  string
}

// beingDeleted is the message for an item newer than the deletion of its Target or Context.
const beingDeleted = "is being deleted, and stays for older deploy items alone; create it again when it is gone"

func (w wanted) error(cause error, problems ...problem) *Error {
	return newError("Target", w.NamespacedName, cause, problems...)
}

// confirmed resolves a Target, and confirms a fault with live objects: the cache may lag behind a creation or a
// correction.
func (r *Resolver) confirmed(ctx context.Context, w wanted) (*v1alpha1.ResolvedTarget, error) {
	resolved, err := r.resolve(ctx, w, r.cached, false)
	if wrong := (*Error)(nil); !errors.As(err, &wrong) {
		return resolved, err
	}
	return r.resolve(ctx, w, r.live, true)
}

// resolve reads the Target from reader, and its secret live if fresh is true.
func (r *Resolver) resolve(
	ctx context.Context, w wanted, reader client.Reader, fresh bool,
) (*v1alpha1.ResolvedTarget, error) {
	target := &v1alpha1.Target{}
	err := reader.Get(ctx, w.NamespacedName, target)
	if apierrors.IsNotFound(err) {
		return nil, w.error(err, problem{reason: ReasonTargetNotFound, message: "there is no such Target; " + w.advice})
	}
	if err != nil {
		return nil, fmt.Errorf("get Target %q: %w", w, err)
	}
	if r.options.Keeps && contract.CameTooLate(w.created, target) {
		return nil, w.error(nil, problem{reason: ReasonTargetNotFound, message: beingDeleted})
	}
	if problems := checkSpec(&target.Spec); len(problems) > 0 {
		return nil, w.error(nil, problems...)
	}

	var data *corev1.Secret
	if ref := target.Spec.SecretRef; ref != nil {
		secretName := types.NamespacedName{Namespace: w.Namespace, Name: ref.Name}
		data, err = r.Secret(ctx, secretName, fresh)
		if apierrors.IsNotFound(err) {
			return nil, w.error(err, problem{
				reason: ReasonSecretNotFound, field: "spec.secretRef.name",
				message: fmt.Sprintf("there is no Secret %q; create it", secretName),
			})
		}
		if err != nil {
			return nil, fmt.Errorf("resolve Target %q: %w", w, err)
		}
	}

	content := r.content(w, target, data)
	if content.err != nil {
		return nil, content.err
	}
	text := content.text
	if content.login != nil {
		if text, err = r.logIn(ctx, w, content.login); err != nil {
			return nil, err
		}
	}
	return &v1alpha1.ResolvedTarget{Target: withoutContent(target), Content: text}, nil
}

// logIn returns the content of a Target with a ServiceAccount.
func (r *Resolver) logIn(ctx context.Context, w wanted, k *kubeconfigs) (string, error) {
	if r.options.Tokens == nil {
		return "", w.error(nil, invalid(k.field,
			"is not supported by this host, which has no tokens to give; use the field kubeconfig"))
	}
	kubeconfig, err := k.get(ctx)
	if err == nil {
		return encode(map[string]any{"kubeconfig": kubeconfig}), nil
	}
	reason, message := k.refusal(ctx, err, "the Target", "delete deploy items before their namespace",
		"a RoleBinding there for this user, such as pergola-target-tokens of docs/host-configuration.md; the chart has "+
			"rbac.targetTokenNamespaces")
	if message == "" {
		return "", fmt.Errorf("resolve Target %q: %w", w, err)
	}
	return "", w.error(err, problem{reason: reason, field: k.field + ".serviceAccount.name", message: message})
}

// contentVersion identifies the sources of a Target's content; secret is zero for inline content.
type contentVersion struct {
	target, secret version
}

// content is the sanitized content of a Target: text, a login, or an error. It is shared and read only, but for the
// latest token of the login.
type content struct {
	text  string
	login *kubeconfigs
	err   *Error
}

// content returns the content of a Target, made once for each version of Target and secret. Errors are remembered like
// results: a thousand items of one broken Target are as frequent as those of a sound one.
func (r *Resolver) content(w wanted, target *v1alpha1.Target, data *corev1.Secret) *content {
	key := contentVersion{target: versionOf(target)}
	if data != nil {
		key.secret = versionOf(data)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// All must share one login, or each would request its own token.
	if known, ok := r.contents.Get(key); ok {
		return known.(*content) //nolint:forcetypeassert // nothing else is in there
	}
	made := &content{}
	raw, problems := rawContent(&target.Spec, data)
	var found *login
	if len(problems) == 0 {
		made.text, found, problems = sanitize(target.Spec.Type, raw, r.options.ServiceAccount)
	}
	if len(problems) > 0 {
		made.err = w.error(nil, problems...)
	} else if found != nil {
		made.login = &kubeconfigs{
			login: *found, namespace: target.Namespace, name: "target",
			tokens: r.options.Tokens, user: r.options.User, own: r.options.Cluster, clock: r.options.Clock,
			use: func(life time.Duration) time.Duration { return min(life/tokenUsePart, maxTokenUse) },
		}
	}
	r.contents.Add(key, made)
	return made
}

// Context returns the Context of an item, in the item's namespace. The result belongs to the caller.
//
// If there is none for it, the error is an *Error with ReasonContextNotFound, confirmed with a live read, except as in
// Options.DefaultContext. A failure of the readers is returned wrapped. Context blocks on API requests until ctx ends.
func (r *Resolver) Context(ctx context.Context, item *v1alpha1.DeployItem) (*v1alpha1.Context, error) {
	name := types.NamespacedName{Namespace: item.Namespace, Name: item.Spec.Context}
	if name.Name == "" {
		name.Name = v1alpha1.DefaultContextName
	}
	found := &v1alpha1.Context{}
	missing := func(err error) bool {
		return apierrors.IsNotFound(err) ||
			err == nil && r.options.Keeps && contract.CameTooLate(item.CreationTimestamp, found)
	}
	err := r.cached.Get(ctx, name, found)
	if missing(err) {
		found = &v1alpha1.Context{}
		err = r.live.Get(ctx, name, found)
	}
	switch {
	case !missing(err) && err == nil:
		return found.DeepCopy(), nil
	case !missing(err):
		return nil, fmt.Errorf("get Context %q: %w", name, err)
	case r.options.DefaultContext && name.Name == v1alpha1.DefaultContextName:
		return &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}, nil
	}
	message := "there is no such Context; create it, or correct spec.context of the deploy item"
	if err == nil {
		message = beingDeleted
	}
	return nil, newError("Context", name, err, problem{reason: ReasonContextNotFound, message: message})
}

// withoutContent returns a copy of a Target without the fields for its content, and without copies of it in
// annotations.
func withoutContent(target *v1alpha1.Target) *v1alpha1.Target {
	stripped := target.DeepCopy()
	stripped.Spec.Configuration = nil
	stripped.ManagedFields = nil
	delete(stripped.Annotations, corev1.LastAppliedConfigAnnotation)
	for key, value := range stripped.Annotations {
		if holdsKubeconfig([]byte(value)) {
			delete(stripped.Annotations, key)
		}
	}
	return stripped
}

// version identifies one state of one object. The UID tells an object from a later one of the same name; the name keeps
// objects without a UID apart, as in a fake cluster.
type version struct {
	types.NamespacedName
	uid             types.UID
	resourceVersion string
}

func versionOf(object metav1.Object) version {
	return version{
		NamespacedName:  types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()},
		uid:             object.GetUID(),
		resourceVersion: object.GetResourceVersion(),
	}
}

// Secret implements lscontext.SecretReader. A Secret has only names, Type and Data here, shared and read only. It costs
// no request if its version in the cache is remembered; it costs one if fresh is true, or if the cache lacks the
// Secret. The error wraps that of the readers, so that a missing Secret was confirmed with a live read.
func (r *Resolver) Secret(ctx context.Context, name types.NamespacedName, fresh bool) (*corev1.Secret, error) {
	return read(ctx, r, "Secret", name, fresh, func(found *corev1.Secret) *corev1.Secret {
		return &corev1.Secret{Type: found.Type, Data: found.Data}
	})
}

// ConfigMap is Secret for ConfigMaps. Only names and Data remain; all values but that for lscontext.OCMConfig are
// empty.
func (r *Resolver) ConfigMap(ctx context.Context, name types.NamespacedName, fresh bool) (*corev1.ConfigMap, error) {
	return read(ctx, r, "ConfigMap", name, fresh, func(found *corev1.ConfigMap) *corev1.ConfigMap {
		data := make(map[string]string, len(found.Data))
		for key := range found.Data {
			data[key] = ""
		}
		if config, ok := found.Data[lscontext.OCMConfigKey]; ok {
			data[lscontext.OCMConfigKey] = config
		}
		return &corev1.ConfigMap{Data: data}
	})
}

// readVersion identifies one state of an object that was read.
type readVersion struct {
	kind string
	version
}

// read returns an object of the core API, reduced by slim for the memory.
func read[T any, O interface {
	*T
	client.Object
}](ctx context.Context, r *Resolver, kind string, name types.NamespacedName, fresh bool, slim func(O) O) (O, error) {
	if !fresh {
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		err := r.cached.Get(ctx, name, metadata)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get metadata of %s %q: %w", kind, name, err)
		}
		if known, ok := r.objects.Get(readVersion{kind, versionOf(metadata)}); ok && err == nil {
			return known.(O), nil //nolint:forcetypeassert // nothing else of this kind is in there
		}
	}
	object := O(new(T))
	if err := r.live.Get(ctx, name, object); err != nil {
		return nil, fmt.Errorf("get %s %q: %w", kind, name, err)
	}
	version, kept := versionOf(object), slim(object)
	kept.SetNamespace(version.Namespace)
	kept.SetName(version.Name)
	kept.SetUID(version.uid)
	kept.SetResourceVersion(version.resourceVersion)
	r.objects.Add(readVersion{kind, version}, kept)
	return kept, nil
}
