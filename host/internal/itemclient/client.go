// Package itemclient reads and writes DeployItems. A write sends only the changed fields, so unknown fields of newer
// versions of the API survive. Its condition is the resourceVersion of the item before the change.
package itemclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// timeout bounds a request.
const timeout = 15 * time.Second

// ErrOutdated is the error of a write after a change of the item by another client, or after its end: decide again.
var ErrOutdated = errors.New("the deploy item has changed meanwhile")

// RefusedError is the error of a write if the API server would refuse it again.
type RefusedError struct {
	bytes int // of the item
	err   error
}

// Error returns a text for the user.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the API server refuses the deploy item, which would have %d bytes: %v", e.bytes, e.err)
}

// TooLarge reports whether the item is too large, and not invalid.
func (e *RefusedError) TooLarge() bool { return IsTooLarge(e.err) }

// Unwrap returns the answer of the API server.
func (e *RefusedError) Unwrap() error { return e.err }

// Client reads and writes DeployItems. Create it with New.
type Client struct {
	writer client.Client
	reader client.Reader
}

// New returns a client. reader reads from the API server, and not from a cache.
func New(writer client.Client, reader client.Reader) *Client {
	return &Client{writer: writer, reader: reader}
}

// Read reads an item.
func (c *Client) Read(ctx context.Context, key client.ObjectKey) (*v1alpha1.DeployItem, error) {
	item := &v1alpha1.DeployItem{}
	err := c.reader.Get(ctx, key, item)
	return withoutManagers(item), err
}

// UpdateStatus writes a change of an item's status, if there is any. Afterwards the item is as the API server has it;
// after an error it is unchanged. The error is ErrOutdated, a RefusedError, or that of the request.
func (c *Client) UpdateStatus(
	ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItem),
) error {
	keeping := func(after *v1alpha1.DeployItem) {
		change(after)
		contract.KeepTransitions(&item.Status, &after.Status)
	}
	return update(ctx, item, keeping, onlyStatus, func(ctx context.Context, o client.Object, patch client.Patch) error {
		return c.writer.Status().Patch(ctx, o, patch)
	})
}

// UpdateMetadata writes a change of an item's metadata, as UpdateStatus does of its status.
func (c *Client) UpdateMetadata(
	ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItem),
) error {
	return update(ctx, item, change, onlyMetadata, func(ctx context.Context, o client.Object, patch client.Patch) error {
		return c.writer.Patch(ctx, o, patch)
	})
}

// AddFinalizer adds Landscaper's finalizer if it is missing.
func (c *Client) AddFinalizer(ctx context.Context, item *v1alpha1.DeployItem) error {
	return c.UpdateMetadata(ctx, item, func(item *v1alpha1.DeployItem) {
		controllerutil.AddFinalizer(item, v1alpha1.Finalizer)
	})
}

// RemoveFinalizer removes Landscaper's finalizer if it is there. If it was the last one, the item is gone afterwards.
func (c *Client) RemoveFinalizer(ctx context.Context, item *v1alpha1.DeployItem) error {
	return c.UpdateMetadata(ctx, item, func(item *v1alpha1.DeployItem) {
		controllerutil.RemoveFinalizer(item, v1alpha1.Finalizer)
	})
}

// update sends the difference of a part of item after a change.
func update(
	ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItem),
	part func(*v1alpha1.DeployItem) *v1alpha1.DeployItem, send func(context.Context, client.Object, client.Patch) error,
) error {
	after, before := item.DeepCopy(), part(item)
	change(after)
	before.ResourceVersion = "" // the patch gets the item's as its condition
	patch, err := client.MergeFrom(before).Data(part(after))
	if err != nil {
		return fmt.Errorf("compute patch: %w", err)
	}
	// Only the patch shows that nothing has changed: a provider status may have come in another order of its fields.
	if string(patch) == fmt.Sprintf(`{"metadata":{"resourceVersion":%q}}`, item.ResourceVersion) {
		return nil
	}
	err = Bounded(ctx, func(ctx context.Context) error {
		return send(ctx, after, client.RawPatch(types.MergePatchType, patch))
	})
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return ErrOutdated
	case isRefusal(err):
		size, _ := json.Marshal(after) // only for the text; without it the error says the rest
		return &RefusedError{bytes: len(size), err: err}
	case err != nil:
		return fmt.Errorf("write deploy item: %w", err)
	}
	*item = *withoutManagers(after)
	return nil
}

// Bounded does a request to the API server within a time of its own. It outlives ctx: a host writes the outcome of
// its last calls while it stops. Its timeout is not mistaken for the job's.
func Bounded(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	err := request(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New(err.Error())
	}
	return err
}

// isRefusal reports whether the API server would refuse the same write again.
func isRefusal(err error) bool { return apierrors.IsInvalid(err) || IsTooLarge(err) }

// IsTooLarge reports whether a request was too large for the API server or for etcd.
func IsTooLarge(err error) bool {
	// An object too large for etcd is an internal error like others, except for its text.
	return apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInternalError(err) && slices.ContainsFunc([]string{
		"request is too large", "trying to send message larger than max",
	}, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// withoutManagers removes the managers of the fields: nothing here needs them, and they may be larger than the rest.
func withoutManagers(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	item.ManagedFields = nil
	return item
}

func onlyStatus(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: item.ResourceVersion}, Status: item.Status,
	}
}

func onlyMetadata(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{ObjectMeta: item.ObjectMeta}
}
