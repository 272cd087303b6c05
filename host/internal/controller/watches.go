package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/hook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// watchedBesides are the objects besides deploy items that package target reads from the cache.
func watchedBesides() []client.Object {
	return []client.Object{&v1alpha1.Target{}, &v1alpha1.Context{}, newSecretMetadata()}
}

func newSecretMetadata() *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// watchLocks has the locks of others known before anything is done.
func (c *Controller) watchLocks(ctx context.Context) error {
	if c.locker == nil {
		return nil
	}
	informer, err := c.manager.GetCache().GetInformer(ctx, &v1alpha1.SyncObject{})
	if err != nil {
		return fmt.Errorf("watch locks: %w", err)
	}
	return c.locker.Watch(ctx, informer)
}

// watchReferences has items looked at again when what they use changes.
func (c *Controller) watchReferences(ctx context.Context) error {
	r := &references{
		router: c.router, reader: c.manager.GetCache(), log: c.options.Log,
		all: c.options.Standalone || !c.options.Selectors.Empty(),
	}
	for kind, object := range map[string]client.Object{
		kindTarget: &v1alpha1.Target{}, kindContext: &v1alpha1.Context{}, kindSecret: newSecretMetadata(),
	} {
		informer, err := c.manager.GetCache().GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watch %ss: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(r.handler(ctx, kind)); err != nil {
			return fmt.Errorf("watch %ss: %w", kind, err)
		}
	}
	return nil
}

// hookWatch is what was known of the plugins with hooks when they were looked at last.
type hookWatch struct {
	// asked are the versions of those that say whether items of a type are to be reconciled.
	asked map[v1alpha1.DeployItemType]string
	// running are the names of all plugins that ran.
	running map[string]bool
}

// knowHooks notes who is asked about the items of a type before the first of them is looked at.
func (c *Controller) knowHooks(known *hookWatch) {
	for _, p := range c.plugins.Serving() {
		for _, t := range p.Info().Types {
			if _, ever := known.asked[t]; !ever {
				known.asked[t] = hook.New(c.plugins.Hooking(t), 0).Build(sdkhook.ShouldReconcile)
			}
		}
	}
}

// followHooks has items looked at again of whose types other hooks say now whether they are to be reconciled, and
// jobs tried again that may have failed because a plugin with hooks was not running.
func (c *Controller) followHooks(ctx context.Context, known *hookWatch, running map[string]bool) error {
	var mended []v1alpha1.DeployItemType
	for _, p := range c.plugins.Serving() {
		changed := false
		for _, t := range p.Info().Types {
			hooking := c.plugins.Hooking(t)
			before, ever := known.asked[t]
			known.asked[t] = hook.New(hooking, 0).Build(sdkhook.ShouldReconcile)
			changed = changed || ever && known.asked[t] != before
			if slices.ContainsFunc(hooking, func(h hook.Plugin) bool { return running[h.Name()] && !known.running[h.Name()] }) {
				mended = append(mended, t)
			}
		}
		if !changed {
			continue
		}
		if err := c.router.refill(ctx, c.manager.GetCache(), p.Name()); err != nil {
			return err
		}
	}
	known.running = running
	c.router.hooksMended(mended)
	return nil
}
