package removal

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/inuse"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// pageSize is how many items are listed at once.
	pageSize = 500
	// writers is how many items are deleted at the same time.
	writers = 16
	// examples is how many objects of a kind a text names.
	examples = 5
	// annotationNamespace of the container deployer's Pods has the namespace of the item.
	annotationNamespace = "container.pergola.dev/deployitem-namespace"
)

// podsOfContainers are the labels of the container deployer's Pods.
var podsOfContainers = client.MatchingLabels{"container.pergola.dev/part": "pod"}

// remover removes the items of a cluster, and waits for the end of all that hosts hold for them.
type remover struct {
	client.Client

	// namespaces of the items; "" for all.
	namespaces []string
	// leave the deployed objects.
	leave bool
	// timeout is 0 for none.
	timeout, pause time.Duration
	progress       io.Writer
}

// deleteItems requests the deletion of all items.
func (r *remover) deleteItems(ctx context.Context) error {
	for _, namespace := range r.namespaces {
		list := &v1alpha1.DeployItemList{}
		for more := true; more; more = list.Continue != "" {
			page := []client.ListOption{
				client.InNamespace(namespace), client.Limit(pageSize), client.Continue(list.Continue),
			}
			if err := r.List(ctx, list, page...); err != nil {
				return fmt.Errorf("list DeployItems: %w", err)
			}
			group, ctx := errgroup.WithContext(ctx)
			group.SetLimit(writers)
			for i := range list.Items {
				group.Go(func() error { return r.deleteItem(ctx, &list.Items[i]) })
			}
			if err := group.Wait(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *remover) deleteItem(ctx context.Context, item *v1alpha1.DeployItem) (err error) {
	key := client.ObjectKeyFromObject(item)
	if r.leave {
		before := item.DeepCopy()
		metav1.SetMetaDataAnnotation(&item.ObjectMeta, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
		err = r.Patch(ctx, item, client.MergeFrom(before))
	}
	if err == nil && item.DeletionTimestamp == nil {
		err = r.Delete(ctx, item)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete DeployItem %q: %w", key, err)
	}
	return nil
}

// await waits until nothing is left, and returns the rest at the end of the time. An error of a look is a rest, too:
// the items go on.
func (r *remover) await(ctx context.Context) (left []string, err error) {
	limited, cancel := watchtools.ContextWithOptionalTimeout(ctx, r.timeout)
	defer cancel()
	var told []string
	for {
		if left, err = r.left(ctx); err != nil {
			left = []string{err.Error()}
		}
		if len(left) == 0 {
			return nil, nil
		}
		if !slices.Equal(left, told) {
			told = left
			if err := cli.PrintText(r.progress, "waits for "+strings.Join(left, "; ")+"\n"); err != nil {
				return nil, err
			}
		}
		select {
		case <-time.After(r.pause):
		case <-limited.Done():
			return left, ctx.Err()
		}
	}
}

// left describes the rest, with a text for each kind of objects. As long as there are items, all else is theirs.
func (r *remover) left(ctx context.Context) (left []string, err error) {
	for _, namespace := range r.namespaces {
		in := client.InNamespace(namespace)
		found, err := r.items(ctx, in)
		if err != nil {
			return nil, err
		}
		if found == "" {
			found, err = r.others(ctx, in)
		}
		if err != nil {
			return nil, err
		}
		if found != "" {
			left = append(left, found)
		}
	}
	if len(left) > 0 {
		return left, nil
	}
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := r.List(ctx, pods, podsOfContainers); err != nil {
		return nil, fmt.Errorf("list Pods: %w", err)
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(pod metav1.PartialObjectMetadata) bool {
		return !slices.Contains(r.namespaces, metav1.NamespaceAll) &&
			!slices.Contains(r.namespaces, pod.Annotations[annotationNamespace])
	})
	if named := describe("objects of the container deployer", namesOf(pods.Items), 0); named != "" {
		left = append(left, named)
	}
	return left, nil
}

// items describes the items of a namespace.
func (r *remover) items(ctx context.Context, in client.InNamespace) (string, error) {
	list := &v1alpha1.DeployItemList{}
	if err := r.List(ctx, list, in, client.Limit(examples)); err != nil {
		return "", fmt.Errorf("list DeployItems: %w", err)
	}
	var names []string
	for i := range list.Items {
		item := &list.Items[i]
		verdict := inspect.Deleted.Judge(item, time.Now())
		names = append(names, fmt.Sprintf("%s/%s (%s)", item.Namespace, item.Name,
			text.Printable(verdict.Failed+verdict.Waiting)))
	}
	more := 0
	if list.RemainingItemCount != nil {
		more = int(*list.RemainingItemCount)
	}
	return describe("DeployItems", names, more), nil
}

// others describes the locks, and the objects with the finalizer of a host.
func (r *remover) others(ctx context.Context, in client.InNamespace) (string, error) {
	locks := &v1alpha1.SyncObjectList{}
	if err := r.List(ctx, locks, in); err != nil {
		return "", fmt.Errorf("list SyncObjects: %w", err)
	}
	var names []string
	for i := range locks.Items {
		if lock := &locks.Items[i]; lock.Spec.Kind == v1alpha1.DeployItemGVK.Kind {
			names = append(names, lock.Namespace+"/"+lock.Name)
		}
	}
	kept, err := inuse.Find(ctx, r.Client, in)
	if err != nil {
		return "", err
	}
	texts := []string{
		describe("SyncObjects", names, 0), describe("objects with the finalizer "+inuse.Finalizer, namesOf(kept), 0),
	}
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; "), nil
}

func namesOf(objects []metav1.PartialObjectMetadata) (names []string) {
	for i := range objects {
		names = append(names, strings.TrimSpace(objects[i].Kind+" "+objects[i].Namespace+"/"+objects[i].Name))
	}
	return names
}

// describe counts and names objects, and more; "" for none.
func describe(kind string, names []string, more int) string {
	if len(names) == 0 {
		return ""
	}
	named := names[:min(len(names), examples)]
	more += len(names) - len(named)
	text := fmt.Sprintf("%d %s: %s", len(named)+more, kind, strings.Join(named, ", "))
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
