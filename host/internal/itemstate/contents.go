package itemstate

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// maxContents bounds the bytes of the items that are kept in full. Others are read again.
const maxContents = 64 << 20

// Contents are the items with work, in full, so that a reconcile need not read them: items that have arrived by the
// list or the watch, and items as this replica has written them. It is safe for concurrent use.
type Contents struct {
	mu    sync.Mutex
	items map[types.NamespacedName]Content
	size  int // in bytes
}

// Content is an item in full. It belongs to the worker that takes it.
type Content struct {
	Item *v1alpha1.DeployItem
	// Own: this replica has read or written the item under its lock.
	Own bool
}

// size is about the number of bytes of an item in memory.
func (c Content) size() int {
	const rest = 4 << 10
	size := rest
	if c.Item.Spec.Config != nil {
		size += len(c.Item.Spec.Config.Raw)
	}
	if c.Item.Status.ProviderStatus != nil {
		size += len(c.Item.Status.ProviderStatus.Raw)
	}
	return size
}

// NewContents returns empty Contents.
func NewContents() *Contents { return &Contents{items: map[types.NamespacedName]Content{}} }

// Put keeps an item, unless a newer version is there or there is no room.
func (c *Contents) Put(added Content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(added.Item)
	if before, ok := c.items[key]; ok {
		if !added.replaces(before) {
			return
		}
		c.remove(key)
	}
	if size := added.size(); c.size+size <= maxContents {
		c.items[key] = added
		c.size += size
	}
}

// replaces reports whether an item replaces another of its name: it is newer, or of the same version and the result of
// a write.
func (c Content) replaces(before Content) bool {
	same := before.Item.UID == c.Item.UID
	switch {
	case !same, contract.Newer(c.Item.ResourceVersion, before.Item.ResourceVersion):
		return true
	default:
		return c.Own && before.Item.ResourceVersion == c.Item.ResourceVersion
	}
}

// Take hands over an item if it is at least as new as a version.
func (c *Contents) Take(key types.NamespacedName, uid types.UID, version string) (Content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.items[key]
	if !ok || found.Item.UID != uid || contract.Newer(version, found.Item.ResourceVersion) {
		return Content{}, false
	}
	c.remove(key)
	return found, true
}

// Drop drops an item without work.
func (c *Contents) Drop(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

func (c *Contents) remove(key types.NamespacedName) {
	if dropped, ok := c.items[key]; ok {
		c.size -= dropped.size()
		delete(c.items, key)
	}
}
